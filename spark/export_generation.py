"""What readers of a target list: the folder of a topic is a link to its newest generation.

    topic=T                                -> _export/generations/000008/topic=T
    _export/generations/000007/topic=T     what it showed before commit 8, until its grace ends
    _export/generations/000008/topic=T     the same records in fewer files; runs add theirs here

A generation is only added to. Who replaces files makes another one of second names (hard links),
on the disk before the manifest is, and then one rename turns the link. So a reader that has
resolved the link, once, finds every record once for as long as the grace lasts. One that goes
through the link for each file may miss a file that it has listed. docs/decisions/export-folders.md
has what each reader was seen to do.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance_spark import export_manifest
from appliance_spark.export_layout import (
    DEAD_LETTERS,
    OWN,
    ExportFailed,
    Target,
    make_folder,
    sync_folder,
)

AT_CWD, RENAME_EXCHANGE = -100, 2  # of renameat2(2)

Manifest = dict[str, Any]


def top_of(path: str) -> str:
    """The folder of a data file's topic: what stands before date, hour and name."""
    return path.rsplit("/", 3)[0]


def number_of(manifest: Manifest, top: str) -> int:
    """Of the generation that the manifest has files of. What was never replaced is in 0."""
    return int(manifest.get("generations", {}).get(top, 0))


def tree(target: Target, top: str, number: int) -> Path:
    return target.generations / f"{number:06d}" / top


def home(target: Target, manifest: Manifest, path: str) -> Path:
    """A file's own name, which stays when the link turns."""
    top = top_of(path)
    mine = tree(target, top, number_of(manifest, top))
    return mine / path[len(top) + 1:] if mine.is_dir() else target.root / path


# The link

def _link_text(top: str, number: int) -> str:
    """Relative, so that a target can be moved."""
    return f"{'../' * top.count('/')}{OWN}/generations/{number:06d}/{top}"


def _point(target: Target, top: str, number: int) -> None:
    """One rename: readers find the old generation or the new one."""
    scratch = target.own / "link"
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(_link_text(top, number))
    link = target.root / top
    make_folder(link.parent)
    scratch.replace(link)
    sync_folder(link.parent)


def begin(target: Target, paths: Iterable[str]) -> None:
    """Folders of topics that had none."""
    for top in sorted({top_of(path) for path in paths}):
        if not os.path.lexists(target.root / top):
            make_folder(tree(target, top, 0))
            _point(target, top, 0)


def is_behind(target: Target, manifest: Manifest, top: str) -> bool:
    """Whether a link shows another generation than the manifest has."""
    link = target.root / top
    return link.is_symlink() and os.readlink(link) != _link_text(top, number_of(manifest, top))


def agree(target: Target, manifest: Manifest) -> None:
    """What a kill has left between manifest and link is done; half a generation goes."""
    for top in _tops(target, manifest):
        number, link = number_of(manifest, top), target.root / top
        if link.is_dir() and not link.is_symlink():
            _exchange(target, top)
        if is_behind(target, manifest, top):
            if not tree(target, top, number).is_dir():
                raise ExportFailed(
                    f"{target.manifest} has generation {number} of {top}, and "
                    f"{tree(target, top, number)} is not there: bring it back from a copy")
            _point(target, top, number)
    known = {(number_of(manifest, top), top) for top in _tops(target, manifest)}
    known |= {(each["generation"], each["top"]) for each in manifest.get("replaced", [])}
    for number, top in _trees(target):
        if (number, top) not in known:
            shutil.rmtree(tree(target, top, number))


def _tops(target: Target, manifest: Manifest) -> list[str]:
    return sorted({*target.tops(), *(top_of(file["path"]) for file in manifest["files"])})


def _trees(target: Target) -> list[tuple[int, str]]:
    found = []
    for folder in sorted(target.generations.glob("[0-9]*")):
        for top in (*folder.glob("topic=*"), *folder.glob(f"{DEAD_LETTERS}/topic=*")):
            found.append((int(folder.name), str(top.relative_to(folder))))
    return found


def _exchange(target: Target, top: str) -> None:
    """A folder of an older version becomes a link to itself, in one step: each name goes on to be
    found. Where a file system cannot do that it stays, and only `commit` minds."""
    place = tree(target, top, 0)
    make_folder(place.parent)
    if place.is_symlink():
        place.unlink()
    if place.exists():
        raise ExportFailed(f"{target.root / top} is a folder, wanted the link to {place}: was the "
                           "target copied, and links followed?")
    place.symlink_to(_link_text(top, 0))
    if _renameat2(place, target.root / top):
        sync_folder(place.parent)
        sync_folder((target.root / top).parent)
    else:
        place.unlink()


def _renameat2(one: Path, other: Path) -> bool:
    names = os.fsencode(one), os.fsencode(other)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.renameat2(AT_CWD, names[0], AT_CWD, names[1], RENAME_EXCHANGE) == 0)


# Another generation

def commit(
    target: Target, old: Manifest, new: Manifest, staged: dict[str, Path], now_ms: int
) -> None:
    """`new` has other files than `old`, of the same records. `staged` says where they are; all
    others get a second name."""
    paths = {file["path"] for file in old["files"]} ^ {file["path"] for file in new["files"]}
    tops = sorted({top_of(path) for path in (*paths, *staged)} | _with_retired(old))
    for top in tops:
        _check_link(target, top)
        _build(target, new, top, staged)
        before = {"top": top, "generation": number_of(old, top), "since_ms": now_ms,
                  "sequence": new["sequence"]}
        new["replaced"] = [*new.get("replaced", []), before]
        new["generations"] = {**new.get("generations", {}), top: new["sequence"]}
    new["retired"] = []
    _sync_file_system(target.own)
    export_manifest.save(target, new)
    for top in tops:
        _point(target, top, new["sequence"])


def _with_retired(manifest: Manifest) -> set[str]:
    """Of older versions, which left what they had replaced where readers list it."""
    return {top_of(each["path"]) for each in manifest.get("retired", [])}


def _check_link(target: Target, top: str) -> None:
    link = target.root / top
    if link.is_dir() and not link.is_symlink():
        place = tree(target, top, 0)
        raise ExportFailed(
            f"{link} is a folder, and this file system cannot turn it into a link in one step. "
            f"While nobody reads it: mv '{link}' '{place}' && ln -s '{_link_text(top, 0)}' '{link}'"
        )


def _build(target: Target, manifest: Manifest, top: str, staged: dict[str, Path]) -> None:
    place = tree(target, top, manifest["sequence"])
    mine = [file["path"] for file in manifest["files"] if top_of(file["path"]) == top]
    marks = [f"{folder}/_SUCCESS" for folder in manifest["hours"] if folder.startswith(f"{top}/")]
    folders = {os.path.dirname(path) for path in (*mine, *marks)}
    place.mkdir(parents=True)
    for folder in sorted(folders):
        (place / folder[len(top) + 1:]).mkdir(parents=True, exist_ok=True)
    for path in mine:
        _second_name(staged.get(path, target.root / path), place / path[len(top) + 1:])
    for path in marks:
        if (target.root / path).exists():
            _second_name(target.root / path, place / path[len(top) + 1:])


def _second_name(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except OSError as error:
        raise ExportFailed(
            f"{path} got no second name (hard link) {other}: {error}. A target's file system must "
            "have them, and workers write as the user that merges"
        ) from error


def _sync_file_system(folder: Path) -> None:
    """Thousands of folders at once: each by itself would wait for the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


def delete_replaced(target: Target, each: dict[str, Any]) -> int:
    """A generation whose grace is over; the answer is how many files were nowhere else. It goes by
    one rename first: who comes now finds nothing, rather than a part."""
    place = tree(target, each["top"], each["generation"])
    if not place.exists():  # a kill came between this and the manifest
        return 0
    gone = target.staging / f"gone-{each['generation']:06d}-{each['top'].replace('/', '-')}"
    make_folder(target.staging)
    place.rename(gone)
    count = sum(path.stat().st_nlink == 1 for path in gone.rglob("*.parquet"))
    shutil.rmtree(gone)
    return count
