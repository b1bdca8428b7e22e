"""Merges small files of a folder, and exports lost files again: the same records in other files,
which readers see as another generation. No file is rewritten in place.

Readers that have resolved the old generation continue with it: it is deleted after a grace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from appliance_spark import (
    export_iceberg,
    export_layout,
    export_manifest,
    export_publish,
    export_tables,
    export_tasks,
)
from appliance_spark.export_layout import ExportFailed, Staging, Target
from appliance_spark.export_run import opened
from appliance_spark.export_store_target import AnyTarget
from appliance_spark.export_verify import damaged
from appliance_spark.export_write import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 128 << 20  # of a file: good for readers, and one task merges it in seconds
GRACE_MS = 24 * 3_600_000  # before a replaced generation is deleted: longer than queries run

File = dict[str, Any]
Say = Callable[[str], None]


def compact(
    target: AnyTarget, spark: Callable[[], SparkSession], now_ms: int,
    target_bytes: int | None = None, grace_ms: int = GRACE_MS, say: Say = lambda text: None,
) -> dict[str, int]:
    export_manifest.load_known(target)  # an empty folder does not become a target
    with target.locked():
        manifest = opened(target)
        export_publish.sweep(target, manifest)
        export_tables.check(target, manifest)
        export_tables.follow(target, manifest, say)  # before it removes files that the table uses
        deleted = _delete_replaced(target, manifest, now_ms - grace_ms)
        tasks = _tasks(
            manifest, target_bytes or export_manifest.file_bytes(manifest) or TARGET_BYTES)
        if not tasks and not (isinstance(target, Target) and manifest["retired"]):
            return {"merged": 0, "into": 0, "deleted": deleted}
        staging = target.staging_of(f"compact-{manifest['sequence'] + 1:06d}")
        work = partial(export_tasks.merge, target.files, staging)
        try:
            written = export_tasks.spread(spark(), tasks, work) if tasks else []
            done = [(task, file) for task, file in zip(tasks, written, strict=True) if file]
            old = {file["path"] for task, _ in done for file in task["files"]}
            export_publish.replace(target, manifest, old, [file for _, file in done], now_ms)
            export_tables.follow(target, export_manifest.load(target), say)
        finally:
            export_tasks.clear(staging)
        merged = sum(len(task["files"]) for task, _ in done)
        return {"merged": merged, "into": len(done), "deleted": deleted}


def _delete_replaced(target: AnyTarget, manifest: dict[str, Any], before_ms: int) -> int:
    """Links the files first: the next sweep removes a generation that is in no manifest."""
    over = export_publish.replaced_before(target, manifest, before_ms)
    if not over:
        return 0
    export_iceberg.forget_before(target, manifest, max(each["sequence"] for each in over))
    return export_publish.delete_replaced(target, manifest, over)


def _tasks(manifest: dict[str, Any], target_bytes: int) -> list[dict[str, Any]]:
    """Groups small files of one folder, kind and schema, each about as large as wanted. Dead
    letters are equal under any schema, but a repair needs the schema that refused them."""
    folders: dict[tuple[str, bool, int], list[File]] = {}
    for file in manifest["files"]:
        if file["bytes"] < target_bytes // 2:
            key = (file["folder"], file["is_dead_letter"], file.get("schema_version", 0))
            folders.setdefault(key, []).append(file)
    tasks: list[dict[str, Any]] = []
    for (folder, is_dead, _), files in sorted(folders.items()):
        for group in _groups(files, target_bytes):
            name = export_layout.merged_name(
                group[0]["topic"], manifest["sequence"] + 1, len(tasks))
            top = f"{export_layout.DEAD_LETTERS}/" if is_dead else ""
            tasks.append({"path": f"{top}{folder}/{name}", "files": group})
    return tasks


def _groups(files: list[File], target_bytes: int) -> list[list[File]]:
    groups: list[list[File]] = []
    size = target_bytes
    for file in sorted(files, key=_first):
        if size + file["bytes"] > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file["bytes"]
    return [group for group in groups if len(group) > 1]


def _first(file: File) -> tuple[int, int, int]:
    first = file["ranges"][0]
    return first["partition"], first["from"], first["min_offset"]


# Lost files

def repair(
    target: AnyTarget, spark: Callable[[], SparkSession],
    reading: Callable[[], export_tasks.Reading], now_ms: int, say: Say = lambda text: None,
) -> list[str]:
    """Exports missing and changed files again from the log, under their old names if a run made
    them. The log must still have their records. Returns the paths."""
    export_manifest.load_known(target)  # an empty folder does not become a target
    with target.locked():
        manifest = opened(target)
        export_publish.sweep(target, manifest)
        export_tables.check(target, manifest)
        lost = _with_parts(manifest, [file for file, _ in damaged(target, manifest, spark())])
        if not lost:
            return []
        staging = target.staging_of(f"repair-{manifest['sequence'] + 1:06d}")
        try:
            new = _made_again(manifest, lost, spark(), reading(), staging)
            export_publish.replace(target, manifest, {file["path"] for file in lost}, new, now_ms)
            export_tables.follow(target, export_manifest.load(target), say)
        finally:
            export_tasks.clear(staging)
        return sorted(file["path"] for file in new)


def _with_parts(manifest: dict[str, Any], lost: list[File]) -> list[File]:
    """And the other files with records of the same ranges in the same folders: a range is made
    again as a whole."""
    keys, found = set[tuple[Any, ...]](), list[File]()
    while len(found) < len(lost):
        found = lost
        keys |= {key for file in found for key in _keys(file)}
        lost = [file for file in manifest["files"] if not keys.isdisjoint(_keys(file))]
    return found


def _keys(file: File) -> list[tuple[Any, ...]]:
    return [(*key, file["folder"], file["is_dead_letter"])
            for key in export_manifest.ranges([file])]


def _made_again(
    manifest: dict[str, Any], lost: list[File], spark: SparkSession, reading: export_tasks.Reading,
    staging: Staging,
) -> list[File]:
    """Reads the range of each lost file again, and keeps only the lost files of it."""
    ways = {run["partition_by"] for run in manifest["runs"]}
    if len(ways) != 1:
        raise ExportFailed(f"this target was partitioned by {sorted(ways)}: one wanted")
    wanted = {key for file in lost for key in _keys(file)}
    versions = {key: file.get("schema_version", 0)
                for file in lost for key in export_manifest.ranges([file])}
    tasks = [
        {"topic": topic, "partition": partition, "from": start, "to": end,
         "topic_id": manifest["topics"][topic]["topic_id"],
         "layout": manifest["topics"][topic].get("layout"),
         "schema": export_manifest.schema_of(
             manifest["topics"][topic], versions[topic, partition, start, end])}
        for topic, partition, start, end in sorted({key[:4] for key in wanted})
    ]
    writing = Writing(ways.pop(), export_manifest.file_bytes(manifest))
    work = partial(export_tasks.write, reading, staging, writing)
    made = [file for done in export_tasks.spread(spark, tasks, work) for file in done["files"]]
    for file in made:
        if version := versions[next(iter(export_manifest.ranges([file])))]:
            file["schema_version"] = version
    return [file for file in made if not wanted.isdisjoint(_keys(file))]
