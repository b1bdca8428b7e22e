"""Generations of a topic's folder: the folder that readers list is a link to the newest one.

    topic=T                                -> _export/generations/000008/topic=T
    _export/generations/000007/topic=T     the state before commit 8, until its grace ends
    _export/generations/000008/topic=T     the same records in fewer files; runs add new files here

Files are only added to a generation. A merge creates another generation with second names (hard
links), which is on the disk before the manifest is; then one rename switches the link. So a reader
that resolves the link once reads every record once until the grace ends. A reader that uses the
link for each file may miss a listed file. docs/decisions/export-folders.md has the behaviour of
each reader.
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
    """The folder of a data file's topic: the path before date, hour and name."""
    words = path.split("/")
    return "/".join(words[:2 if words[0] == DEAD_LETTERS else 1])


def number_of(manifest: Manifest, top: str) -> int:
    """The generation of the manifest's files. Files that were never replaced are in 0."""
    return int(manifest.get("generations", {}).get(top, 0))


def tree(target: Target, top: str, number: int) -> Path:
    return target.generations / f"{number:06d}" / top


def home(target: Target, manifest: Manifest, path: str) -> Path:
    """A file's own name, which stays when the link switches."""
    top = top_of(path)
    mine = tree(target, top, number_of(manifest, top))
    return mine / path[len(top) + 1:] if mine.is_dir() else target.root / path


# The link

def _link_text(top: str, number: int) -> str:
    """Relative, so that a target can be moved."""
    return f"{'../' * top.count('/')}{OWN}/generations/{number:06d}/{top}"


def _point(target: Target, top: str, number: int) -> None:
    """One rename: readers see the old generation or the new one."""
    scratch = target.own / "link"
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(_link_text(top, number))
    link = target.root / top
    make_folder(link.parent)
    scratch.replace(link)
    sync_folder(link.parent)


def begin(target: Target, paths: Iterable[str]) -> None:
    """Creates missing folders of topics."""
    for top in sorted({top_of(path) for path in paths}):
        if not os.path.lexists(target.root / top):
            make_folder(tree(target, top, 0))
            _point(target, top, 0)


def is_behind(target: Target, manifest: Manifest, top: str) -> bool:
    """Whether a link points to another generation than the manifest."""
    link = target.root / top
    return link.is_symlink() and os.readlink(link) != _link_text(top, number_of(manifest, top))


def agree(target: Target, manifest: Manifest) -> None:
    """Completes what a kill interrupted after the manifest; deletes incomplete generations."""
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
    """Replaces the folder of an older version by a link in one step: each name stays valid. On a
    file system that cannot do this the folder stays, and only `commit` fails."""
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


# A new generation

def commit(
    target: Target, old: Manifest, new: Manifest, staged: dict[str, Path], now_ms: int
) -> None:
    """`new` has other files than `old`, with the same records. `staged` has the paths of new files;
    all others get a second name."""
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
    """For older versions, which left replaced files where readers list them."""
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
    """Thousands of folders at once: one after the other would wait for the disk each time."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


def delete_replaced(target: Target, each: dict[str, Any]) -> int:
    """Deletes a generation after its grace; returns the number of files without another name. One
    rename comes first: new readers see nothing instead of a part."""
    place = tree(target, each["top"], each["generation"])
    if not place.exists():  # a kill interrupted this before the manifest
        return 0
    gone = target.staging / f"gone-{each['generation']:06d}-{each['top'].replace('/', '-')}"
    make_folder(target.staging)
    place.rename(gone)
    count = sum(path.stat().st_nlink == 1 for path in gone.rglob("*.parquet"))
    shutil.rmtree(gone)
    return count
