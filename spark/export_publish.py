"""How files become those that readers read, and how others go.

In a folder readers list: files are moved to where they are listed, just before the manifest is
renamed. In an object store they are at their final names already, and count once a manifest lists
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance_spark import export_generation, export_manifest, export_tasks
from appliance_spark.export_layout import FolderStaging, move_durably
from appliance_spark.export_store_target import AnyTarget, StoreTarget

Manifest = dict[str, Any]
File = dict[str, Any]


def entry(file: File) -> File:
    """In the manifest."""
    return {name: value for name, value in file.items() if name != "staged"}


def sweep(target: AnyTarget, manifest: Manifest) -> int:
    """Files outside the manifest: their run was stopped before its commit."""
    known = {each["path"] for each in (*manifest["files"], *manifest["retired"])}
    if isinstance(target, StoreTarget):
        count = target.sweep(known)
    else:
        export_generation.agree(target, manifest)
        lost = [path for path in target.data_files() if path not in known]
        target.delete(lost)
        export_tasks.clear(FolderStaging(str(target.staging)))
        count = len(lost)
    mark(target, manifest["hours"], manifest)
    return count


def place(target: AnyTarget, files: list[File]) -> None:
    """Before the commit of a run."""
    if isinstance(target, StoreTarget):
        return
    export_generation.begin(target, [file["path"] for file in files])
    move_durably([(Path(file["staged"]), target.root / file["path"]) for file in files])


def replace(target: AnyTarget, manifest: Manifest, old: set[str], made: list[File],
            now_ms: int) -> None:
    """Commits other files with the same records, as a compaction or a repair made them."""
    swapped = export_manifest.replaced(manifest, old, [entry(file) for file in made])
    if isinstance(target, StoreTarget):
        gone = [{"path": path, "since_ms": now_ms, "sequence": swapped["sequence"]}
                for path in sorted(old)]
        export_manifest.save(target, {**swapped, "retired": [*manifest["retired"], *gone]})
        return
    staged = {file["path"]: Path(file["staged"]) for file in made}
    export_generation.commit(target, manifest, swapped, staged, now_ms)


def replaced_before(target: AnyTarget, manifest: Manifest, moment_ms: int) -> list[dict[str, Any]]:
    """What was replaced so long ago that nobody reads it any more."""
    found = manifest.get("retired" if isinstance(target, StoreTarget) else "replaced", [])
    return [each for each in found if each["since_ms"] <= moment_ms]


def delete_replaced(target: AnyTarget, manifest: Manifest, over: list[dict[str, Any]]) -> int:
    if isinstance(target, StoreTarget):  # the manifest last: the files stay known until then
        target.delete(each["path"] for each in over)
        manifest["retired"] = [each for each in manifest["retired"] if each not in over]
        export_manifest.save(target, manifest)
        return len(over)
    count = sum(export_generation.delete_replaced(target, each) for each in over)
    manifest["replaced"] = [each for each in manifest["replaced"] if each not in over]
    export_manifest.save(target, manifest)
    return count


def location(target: AnyTarget, manifest: Manifest, path: str) -> str:
    """A file's name for readers, under which it stays until its grace ends."""
    if isinstance(target, StoreTarget):
        return f"{target.where}/{path}"
    return str(export_generation.home(target, manifest, path))


# Marks of hours

def mark_of(folder: str) -> str:
    return f"{folder}/_SUCCESS"


def mark(target: AnyTarget, folders: Iterable[str], manifest: Manifest) -> None:
    wanted = list(folders)
    there = target.present(mark_of(folder) for folder in wanted)
    for folder in wanted:
        if mark_of(folder) not in there:
            _mark(target, folder, manifest)


def _mark(target: AnyTarget, folder: str, manifest: Manifest) -> None:
    mine = [f for f in manifest["files"] if f["folder"] == folder and not f["is_dead_letter"]]
    told = {"commit": manifest["hours"][folder], "files": len(mine),
            "rows": sum(file["rows"] for file in mine)}
    target.write(mark_of(folder), json.dumps(told) + "\n")
