"""The manifest of a target: its files, and the position of each partition. It is written by one
step (a rename, or a new object), so that data and positions are committed together.

Nothing else counts. A file outside the manifest is left from a killed run, and the next run removes
it; a run starts at the manifest's positions. The broker gets a report afterwards, which can be
repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from appliance_spark import export_json
from appliance_spark.export_hours import Layout
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_store_target import AnyTarget

FORMAT = 1
OF_LAYOUTS = 2  # a topic is not by the hour in UTC: an older version would mix both in its folder
RUNS_KEPT = 200  # summaries in the manifest, and plans below runs/: more than a week of hourly runs

Manifest = dict[str, Any]
File = dict[str, Any]


def empty() -> Manifest:
    return {
        "format": FORMAT,
        "id": None,  # of this target, from its first run on; reported to the broker
        "sequence": 0,  # number of commits: runs, compactions, repairs
        "topics": {},
        "files": [],
        "generations": {},  # of topics' folders, if not the first
        "replaced": [],  # generations that readers may still read, deleted after a grace
        "retired": [],  # files that older versions replaced; compaction hides them
        "hours": {},  # folders that have a _SUCCESS
        "reopened": [],  # folders that had one when late records came
        "runs": [],
        "table": None,  # an Iceberg table that follows
    }


def load(target: AnyTarget) -> Manifest:
    text = target.manifest_text()
    if text is None:
        return empty()
    try:
        found: Manifest = json.loads(text)
    except ValueError as error:
        raise ExportFailed(f"{target.manifest_name} is not JSON: {error}") from error
    if found.get("format") not in (FORMAT, OF_LAYOUTS):
        raise ExportFailed(
            f"{target.manifest_name} has format {found.get('format')}, wanted {FORMAT} or "
            f"{OF_LAYOUTS}: another version "
            "of the appliance wrote it. Nothing was changed; export with that version"
        )
    return {"id": None, **found}


def load_known(target: AnyTarget) -> Manifest:
    """The manifest of an existing target: a misspelt folder is an error, not an empty target."""
    if not target.exists():
        check_bare(target)
        raise ExportFailed(
            f"{target.where} has no export: there is no {target.manifest_name}")
    return load(target)


def check_bare(target: AnyTarget) -> None:
    """A target without a manifest must not have files."""
    found = next(target.data_files(), None)
    if found is not None:
        raise ExportFailed(
            f"{target.where} has files such as {found}, but no {target.manifest_name}. Bring it "
            "back from a copy, or export into a new target"
        )


def save(target: AnyTarget, manifest: Manifest) -> None:
    target.save_manifest(json.dumps(manifest, separators=(",", ":")) + "\n")


def position(manifest: Manifest, topic: str) -> dict[int, int]:
    """The next offset to export, for each known partition."""
    offsets = manifest["topics"].get(topic, {}).get("position", {})
    return {int(partition): offset for partition, offset in offsets.items()}


def layout_of(topic: dict[str, Any]) -> Layout:
    """Of a topic in a manifest or in a plan."""
    return Layout.of(topic.get("layout"))


def file_bytes(manifest: Manifest) -> int | None:
    """The size at which the last run cut its files; None: it did not."""
    found: int | None = manifest["runs"][-1].get("file_bytes") if manifest["runs"] else None
    return found


def ranges(files: Iterable[File]) -> dict[tuple[str, int, int, int], list[dict[str, Any]]]:
    """The read ranges, by topic, partition, from and to, with their results."""
    by_key: dict[tuple[str, int, int, int], list[dict[str, Any]]] = {}
    for file in files:
        for part in file["ranges"]:
            key = (file["topic"], part["partition"], part["from"], part["to"])
            by_key.setdefault(key, []).append(part)
    return by_key


def committed(
    manifest: Manifest, plan: dict[str, Any], files: list[File], partitions: list[dict[str, Any]],
    ended_ms: int,
) -> Manifest:
    """The manifest after a run, with its files and new positions."""
    new = _next(manifest, manifest["files"], files, plan["sequence"])
    _advance(new, plan)
    _note_damage(new, partitions, plan["id"])
    _mark_schemas(new, plan)
    _reopen(new, files, plan["id"])
    rows, dead = _sum(partitions, "rows"), _sum(partitions, "dead_letters")
    summary = {
        "id": plan["id"],
        "sequence": plan["sequence"],
        "reason": plan["reason"],
        "partition_by": plan["partition_by"],
        "file_bytes": plan.get("file_bytes"),
        "due_ms": plan.get("due_ms"),
        "started_ms": plan["created_ms"],
        "ended_ms": ended_ms,
        "files": len(files),
        "bytes": _sum(files, "bytes"),
        "rows": rows,
        "dead_letters": dead,
        "partitions": partitions,
    }
    new["runs"] = [*new["runs"], summary][-RUNS_KEPT:]
    return new


def _next(
    manifest: Manifest, kept: list[File], added: list[File], sequence: int
) -> Manifest:
    if sequence != manifest["sequence"] + 1:
        raise ExportFailed(
            f"commit {sequence} cannot follow commit {manifest['sequence']}: "
            "another run wrote this target meanwhile"
        )
    copied: Manifest = json.loads(json.dumps({**manifest, "files": kept}))
    copied["files"] += [{**file, "sequence": sequence} for file in added]
    return {**copied, "sequence": sequence}


def _advance(manifest: Manifest, plan: dict[str, Any]) -> None:
    for planned in plan["topics"]:
        old = manifest["topics"].setdefault(
            planned["topic"],
            {"topic_id": planned["topic_id"], "cluster_id": planned["cluster_id"],
             "begin": {}, "position": {}, "losses": [], "schema_changes": []},
        )
        for part in planned["partitions"]:
            name = str(part["partition"])
            old["begin"].setdefault(name, part["from"])
            old["position"][name] = part["to"]
            old.setdefault("marks", {}).pop(name, None)  # of the last batch before the position
            if part.get("mark"):
                old["marks"][name] = part["mark"]
            if part.get("lost") or "others" in part:
                old["losses"].append({**part, "run": plan["id"]})
        if planned.get("schema_changes"):
            old["schema_changes"] += [
                {**each, "run": plan["id"]} for each in planned["schema_changes"]
            ]
        old["isolation"] = planned["isolation"]
        if layout_of(planned) != Layout():
            old["layout"], manifest["format"] = planned["layout"], OF_LAYOUTS
        if _decides(planned["schema"], old.get("schema")):
            change_schema(old, planned["schema"])


def _note_damage(manifest: Manifest, partitions: list[dict[str, Any]], run: str) -> None:
    """Offsets that were damaged when they were read, and passed because that was accepted."""
    for part in partitions:
        if part.get("damaged"):
            kept = {name: part[name] for name in ("partition", "from", "to", "damaged")}
            manifest["topics"][part["topic"]]["losses"].append({**kept, "run": run})


def _decides(planned: dict[str, Any], known: dict[str, Any] | None) -> bool:
    """A run without records infers no types: the known schema stays."""
    return known is None or "type" in planned or planned["mode"] != known["mode"]


def change_schema(of: dict[str, Any], schema: dict[str, Any]) -> None:
    """A schema without all earlier fields is a new version: existing files keep theirs."""
    old = of.get("schema", schema)
    if "type" in old and not _has_all(schema, old):
        version = of.get("schema_version", 0)
        of.setdefault("old_schemas", {})[str(version)] = old
        of["schema_version"] = version + 1
    of["schema"] = schema


def _has_all(new: dict[str, Any], old: dict[str, Any]) -> bool:
    if new["mode"] == old["mode"] and new["mode"] in export_json.MODES:
        return export_json.has_all(new.get("type"), old["type"])
    return bool(new == old)  # Avro's types are not ours


def schema_of(of: dict[str, Any], version: int) -> dict[str, Any]:
    """The schema version of a topic's files; the first is 0 and may be missing."""
    found: dict[str, Any] = of.get("old_schemas", {}).get(str(version), of["schema"])
    return found


def _mark_schemas(manifest: Manifest, plan: dict[str, Any]) -> None:
    for file in manifest["files"]:
        version = manifest["topics"][file["topic"]].get("schema_version", 0)
        if file["sequence"] == plan["sequence"] and version:
            file["schema_version"] = version


def next_commit(manifest: Manifest) -> Manifest:
    """The same files in another commit."""
    return _next(manifest, manifest["files"], [], manifest["sequence"] + 1)


def _reopen(manifest: Manifest, files: list[File], run: str) -> None:
    for folder in sorted({file["folder"] for file in files if not file["is_dead_letter"]}):
        if manifest["hours"].pop(folder, None) is not None:
            manifest["reopened"].append({"folder": folder, "run": run})
    manifest["reopened"] = manifest["reopened"][-RUNS_KEPT:]


def replaced(manifest: Manifest, old: set[str], files: list[File]) -> Manifest:
    """The manifest after a compaction or a repair: the same records in other files."""
    before = [file for file in manifest["files"] if file["path"] in old]
    problem = unequal(before, files)
    if problem:
        raise ExportFailed(f"the new files do not hold what the old ones held: {problem}")
    kept = [file for file in manifest["files"] if file["path"] not in old]
    return _next(manifest, kept, files, manifest["sequence"] + 1)


def unequal(old: list[File], new: list[File]) -> str:
    """Differences between two sets of files for each range; empty if equal."""
    first, second = (
        {key: (_sum(parts, "rows"), hash_of(parts)) for key, parts in ranges(files).items()}
        for files in (old, new)
    )
    for key in sorted({*first, *second}):
        if first.get(key) != second.get(key):
            topic, partition, start, end = key
            return (f"{topic} partition {partition} offsets {start} to {end}: "
                    f"{first.get(key)} became {second.get(key)}")
    return ""


def hash_of(parts: Iterable[dict[str, Any]]) -> str:
    return f"{sum(int(part['hash'], 16) for part in parts) % (1 << 64):016x}"


def _sum(rows: Iterable[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def finished_hours(manifest: Manifest, plan: dict[str, Any], grace_ms: int) -> list[str]:
    """Folders whose hour or day ended more than the grace before the plan, which reached the end of
    the log: only late records can follow. What an open transaction holds back is as old as it."""
    at_end = {
        topic["topic"]: min([plan["created_ms"], *(
            part["held_since_ms"] for part in topic["partitions"] if "held_since_ms" in part)])
        for topic in plan["topics"]
        if all(part["to"] >= part["end_offset"] for part in topic["partitions"])
    }
    folders = {(file["topic"], file["folder"]) for file in manifest["files"]
               if file["topic"] in at_end and not file["is_dead_letter"]
               and file["folder"] not in manifest["hours"]}
    ends = {(topic, folder): layout_of(manifest["topics"][topic]).end_ms(folder)
            for topic, folder in folders}
    return sorted(folder for (topic, folder), end in ends.items()
                  if end is not None and at_end[topic] >= end + grace_ms)
