"""Whether a target holds what its manifest says, and the manifest what the log has.

    files   every one there, with its digest; its rows and their hash counted again, by range
    others  no Parquet file that the manifest does not know: readers would count it twice
    ranges  they cover each partition from its first offset to its position, each once
    table   an Iceberg table has these files and no others, and is as far
    log     what is still in it, read again: the number of its records and their hash, by range
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from appliance_spark import export_iceberg, export_manifest, export_tasks
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Range = tuple[str, int, int, int]  # topic, partition, from, to


@dataclass
class Verdict:
    files: int = 0
    rows: int = 0
    rows_compared: int = 0  # with the log
    rows_not_in_log: int = 0  # retention has deleted them, or compaction some of their range
    problems: list[str] = field(default_factory=list)


def verify(
    target: Target, spark: Callable[[], SparkSession], broker: AdminPort | None, retries: int
) -> Verdict:
    """Without a broker the log is left out."""
    manifest = export_manifest.load(target)
    verdict = Verdict(len(manifest["files"]), sum(f["rows"] for f in manifest["files"]))
    verdict.problems += unknown_files(target, manifest)
    verdict.problems += covered(manifest)
    verdict.problems += export_iceberg.problems(target, manifest)
    verdict.problems += [text for _, text in damaged(target, manifest, spark())]
    if broker is not None:
        for topic in sorted(manifest["topics"]):
            _against_the_log(manifest, topic, spark(), broker, retries, verdict)
    return verdict


def damaged(
    target: Target, manifest: dict[str, Any], spark: SparkSession
) -> list[tuple[dict[str, Any], str]]:
    """Files that are not what they were, and how."""
    modes = {name: topic["schema"]["mode"] for name, topic in manifest["topics"].items()}
    tasks = [
        {**file, "has_records": file["is_dead_letter"] or modes[file["topic"]] == "raw"}
        for file in manifest["files"]
    ]
    found = export_tasks.spread(
        spark, tasks, partial(export_tasks.check_file, str(target.root)))
    return [(file, f"{file['path']} {text}")
            for file, text in zip(manifest["files"], found, strict=True) if text]


def unknown_files(target: Target, manifest: dict[str, Any]) -> list[str]:
    known = {file["path"] for file in (*manifest["files"], *manifest["retired"])}
    return [f"{path} is not in the manifest: its rows are there twice, or come from elsewhere"
            for path in target.data_files() if path not in known]


def covered(manifest: dict[str, Any]) -> list[str]:
    """Paths once each, and no range that overlaps another."""
    paths = [file["path"] for file in manifest["files"]]
    problems = [f"{path} is in the manifest twice"
                for path in sorted({path for path in paths if paths.count(path) > 1})]
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, start, end in sorted(export_manifest.ranges(manifest["files"])):
        before = ends.get((topic, partition), start)
        if start < before:
            problems.append(f"{topic} partition {partition}: offsets {start} to {before} are in "
                            "two ranges")
        ends[topic, partition] = max(before, end)
        known = manifest["topics"][topic]
        last, first = known["position"][str(partition)], known["begin"][str(partition)]
        if end > last or start < first:
            problems.append(f"{topic} partition {partition}: range {start} to {end} is not within "
                            f"{first} to {last}")
    return problems


def _against_the_log(
    manifest: dict[str, Any], topic: str, spark: SparkSession, broker: AdminPort, retries: int,
    verdict: Verdict,
) -> None:
    known = manifest["topics"][topic]
    plan = broker.plan(topic, "earliest", "latest", 1, known["isolation"])
    if plan["topic_id"] != known["topic_id"]:
        verdict.problems.append(f"topic {topic} of this broker is another one: id "
                                f"{plan['topic_id']}, exported {known['topic_id']}")
        return
    starts = {part["partition"]: part["log_start_offset"] for part in plan["partitions"]}
    files = [file for file in manifest["files"] if file["topic"] == topic]
    found = export_manifest.ranges(files)
    tasks = _read_again(manifest, topic, starts, set(found))
    reading = export_tasks.Reading(broker.url, broker.token, retries, known["isolation"])
    counts = export_tasks.spread(spark, tasks, partial(export_tasks.recount, reading))
    for task, count in zip(tasks, counts, strict=True):
        key = (topic, task["partition"], task["from"], task["to"])
        _compare(key, found.get(key, []), count, verdict)
    compared = {(topic, t["partition"], t["from"], t["to"]) for t in tasks}
    verdict.rows_not_in_log += sum(
        part["rows"] for key, parts in found.items() if key not in compared for part in parts)


def _read_again(
    manifest: dict[str, Any], topic: str, starts: dict[int, int], known: set[Range]
) -> list[dict[str, Any]]:
    """The ranges that the log still has whole, and what lies between them: nothing may be there."""
    tasks = []
    for partition, position in export_manifest.position(manifest, topic).items():
        at = max(int(manifest["topics"][topic]["begin"][str(partition)]), starts[partition])
        for _, number, start, end in sorted(known):
            if number != partition or start < starts[partition]:
                at = max(at, end) if number == partition else at
                continue
            if start > at:
                tasks.append({"topic": topic, "partition": partition, "from": at, "to": start})
            tasks.append({"topic": topic, "partition": partition, "from": start, "to": end})
            at = max(at, end)
        if at < position:
            tasks.append({"topic": topic, "partition": partition, "from": at, "to": position})
    return tasks


def _compare(key: Range, parts: list[dict[str, Any]], count: Any, verdict: Verdict) -> None:
    rows, words = sum(part["rows"] for part in parts), export_manifest.hash_of(parts)
    verdict.rows_compared += count["rows"]
    if (rows, words) == (count["rows"], count["hash"]):
        return
    topic, partition, start, end = key
    verdict.problems.append(
        f"{topic} partition {partition} offsets {start} to {end}: {rows} records with hash {words} "
        f"were exported, the log has {count['rows']} with {count['hash']}"
    )
