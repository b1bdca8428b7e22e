"""Checks a target against its manifest, and the manifest against the log.

    files   each exists with its digest; its rows and their hash are counted again, by range
    others  readers can list no file outside the manifest: its rows would count twice
    rows    each topic's folder has as many as were exported, as its readers count
    ranges  they cover each partition from its first offset to its position, once
    table   a table has these files and no others, at the same position
    log     existing records are read again: their number and hash, by range; after compaction
            each remaining record must be in the files
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from appliance_spark import export_generation, export_manifest, export_tables, export_tasks
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import Target
from appliance_spark.export_store_target import AnyTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Range = tuple[str, int, int, int]  # topic, partition, from, to


@dataclass
class Verdict:
    files: int = 0
    rows: int = 0
    rows_compared: int = 0  # with the log
    rows_not_in_log: int = 0  # retention has deleted them, or some of their range
    rows_compacted: int = 0  # compaction has removed them from a range that is still in the log
    problems: list[str] = field(default_factory=list)


def verify(
    target: AnyTarget, spark: Callable[[], SparkSession], broker: AdminPort | None, retries: int
) -> Verdict:
    """Without a broker the log is not checked."""
    has_files = isinstance(target, Target) and next(target.data_files(), None) is not None
    # of a folder's readers: then each of them is a problem
    manifest = (export_manifest.load if has_files else export_manifest.load_known)(target)
    if broker is not None:
        broker.topics()  # fails before Spark starts if the broker is not there
    verdict = Verdict(len(manifest["files"]), sum(f["rows"] for f in manifest["files"]))
    if isinstance(target, Target):  # readers of a store take the manifest's files alone
        verdict.problems += listed(target, manifest)
    verdict.problems += covered(manifest)
    verdict.problems += export_tables.problems(target, manifest)
    broken = damaged(target, manifest, spark())
    verdict.problems += [text for _, text in broken]
    if broker is not None:
        for topic in sorted(manifest["topics"]):
            comparison = Comparison(target, manifest, topic, spark(), broker, retries, verdict)
            comparison.run({file["path"] for file, _ in broken})
    return verdict


def damaged(
    target: AnyTarget, manifest: dict[str, Any], spark: SparkSession
) -> list[tuple[dict[str, Any], str]]:
    """Files that have changed, with the difference."""
    tasks = [{**file, "has_records": has_records(manifest, file)} for file in manifest["files"]]
    found = export_tasks.spread(
        spark, tasks, partial(export_tasks.check_file, target.files))
    return [(file, f"{file['path']} {text}")
            for file, text in zip(manifest["files"], found, strict=True) if text]


def listed(target: Target, manifest: dict[str, Any]) -> list[str]:
    """What readers of a topic's folder list: each file of the manifest, and no other."""
    known = {file["path"]: file for file in manifest["files"]}
    wanted, found = Counter[str](), Counter[str]()
    for path, file in known.items():
        wanted[export_generation.top_of(path)] += file["rows"]
    behind = [top for top in target.tops()
              if export_generation.is_behind(target, manifest, top)]
    problems = [f"{top} shows what it did before commit {manifest['generations'].get(top, 0)}: "
                "the same records in other files. The next run or compaction turns it"
                for top in behind]
    for path in target.data_files():
        top = export_generation.top_of(path)
        found[top] += export_tasks.rows_or_none(target.root / path) or 0
        if path not in known and top not in behind:
            problems.append(
                f"{path} is not in the manifest: its rows are there twice, or come from elsewhere")
    return problems + [
        f"readers of {top} count {found[top]} rows, exported were {wanted[top]}"
        for top in sorted({*wanted, *found}) if found[top] != wanted[top]
    ]


def covered(manifest: dict[str, Any]) -> list[str]:
    """Each path once, and no overlapping ranges."""
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


@dataclass(frozen=True)
class Comparison:
    """Compares one topic of a target with its log."""

    target: AnyTarget
    manifest: dict[str, Any]
    topic: str
    spark: SparkSession
    broker: AdminPort
    retries: int
    verdict: Verdict

    def run(self, broken: set[str]) -> None:
        """`broken` are files that are known to have changed."""
        known = self.manifest["topics"][self.topic]
        plan = self.broker.plan(self.topic, "earliest", "latest", 1, known["isolation"])
        if plan["topic_id"] != known["topic_id"]:
            self.verdict.problems.append(
                f"topic {self.topic} of this broker is another one: id {plan['topic_id']}, "
                f"exported {known['topic_id']}")
            return
        starts = {part["partition"]: part["log_start_offset"] for part in plan["partitions"]}
        found = export_manifest.ranges(self._files)
        tasks = _read_again(self.manifest, self.topic, starts, set(found))
        counts = self._spread(tasks, partial(export_tasks.recount, self._reading))
        unequal = [(task, count) for task, count in zip(tasks, counts, strict=True)
                   if not self._is_equal(found.get(key_of(task), []), count)]
        holes = {part["partition"]: part.get("holes", []) for part in plan["partitions"]}
        self._look_closer(unequal, found, broken, holes)
        compared = {key_of(task) for task in tasks}
        self.verdict.rows_not_in_log += sum(
            part["rows"] for key, parts in found.items() if key not in compared for part in parts)

    @property
    def _files(self) -> list[dict[str, Any]]:
        return [file for file in self.manifest["files"] if file["topic"] == self.topic]

    @property
    def _reading(self) -> export_tasks.Reading:
        isolation = self.manifest["topics"][self.topic]["isolation"]
        url = self.broker.bulk_url()
        return export_tasks.Reading(
            url, self.broker.token, self.retries, isolation, self.broker.ca, passes_holes=True
        )

    def _spread(self, tasks: list[dict[str, Any]], work: Callable[[Any], Any]) -> list[Any]:
        return export_tasks.spread(self.spark, tasks, work)

    def _is_equal(self, parts: list[dict[str, Any]], count: dict[str, Any]) -> bool:
        is_equal = (_rows(parts), export_manifest.hash_of(parts)) == (count["rows"], count["hash"])
        self.verdict.rows_compared += count["rows"] if is_equal else 0
        return is_equal

    def _look_closer(
        self, unequal: list[tuple[dict[str, Any], dict[str, Any]]],
        found: dict[Range, list[dict[str, Any]]], broken: set[str],
        holes: dict[int, list[list[int]]],
    ) -> None:
        """If compaction may have removed records, each remaining one must be in the files. What is
        damaged it has not removed."""
        may_thin = bool(unequal) and self.broker.is_compacted(self.topic)
        tasks = []
        for task, count in unequal:
            parts = found.get(key_of(task), [])
            files = self._files_of(task)
            lost = sorted(broken.intersection(file["path"] for file in files))
            damaged = [hole for hole in holes[task["partition"]]
                       if hole[0] < task["to"] and hole[1] > task["from"]]
            if damaged:
                self._tell(task, f"{_rows(parts)} records were exported, the log has "
                                 f"{count['rows']}: there its offsets {damaged} are damaged or "
                                 "gone")
            elif not may_thin or count["rows"] >= _rows(parts):
                self.verdict.rows_compared += count["rows"]
                self._tell(task, f"{_rows(parts)} records with hash "
                                 f"{export_manifest.hash_of(parts)} were exported, the log has "
                                 f"{count['rows']} with {count['hash']}")
            elif lost:
                self._tell(task, f"compaction left {count['rows']} of {_rows(parts)} records in "
                                 f"the log, which are not compared: {lost[0]} is not whole")
            else:
                tasks.append({**task, "files": files})
        work = partial(export_tasks.compare_thinned, self.target.files, self._reading)
        for task, left in zip(tasks, self._spread(tasks, work), strict=True):
            self.verdict.rows_compared += left["rows"]
            self.verdict.rows_compacted += left["compacted"]
            for text in left["problems"]:
                self._tell(task, text)

    def _files_of(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """With the files that have some of this range, and their form."""
        return [
            {"path": file["path"], "has_records": has_records(self.manifest, file)}
            for file in self._files
            if any(key_of({**part, "topic": self.topic}) == key_of(task) for part in file["ranges"])
        ]

    def _tell(self, task: dict[str, Any], text: str) -> None:
        topic, partition, start, end = key_of(task)
        self.verdict.problems.append(
            f"{topic} partition {partition} offsets {start} to {end}: {text}")


def has_records(manifest: dict[str, Any], file: dict[str, Any]) -> bool:
    """Whether files have whole records, whose hash can be counted again."""
    return bool(file["is_dead_letter"]
                or manifest["topics"][file["topic"]]["schema"]["mode"] == "raw")


def key_of(task: dict[str, Any]) -> Range:
    return task["topic"], task["partition"], task["from"], task["to"]


def _rows(parts: list[dict[str, Any]]) -> int:
    return sum(part["rows"] for part in parts)


def _read_again(
    manifest: dict[str, Any], topic: str, starts: dict[int, int], known: set[Range]
) -> list[dict[str, Any]]:
    """The ranges that are whole in the log, and the ranges between them, which must be empty."""
    tasks: list[dict[str, Any]] = []
    of = {"topic": topic, "topic_id": manifest["topics"][topic]["topic_id"]}
    for partition, position in export_manifest.position(manifest, topic).items():
        at = max(int(manifest["topics"][topic]["begin"][str(partition)]), starts[partition])
        for _, number, start, end in sorted(known):
            if number != partition or start < starts[partition]:
                at = max(at, end) if number == partition else at
                continue
            if start > at:
                tasks.append({**of, "partition": partition, "from": at, "to": start})
            tasks.append({**of, "partition": partition, "from": start, "to": end})
            at = max(at, end)
        if at < position:
            tasks.append({**of, "partition": partition, "from": at, "to": position})
    return tasks
