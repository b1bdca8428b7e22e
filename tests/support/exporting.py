"""Exports as the tests of the export job run them, kill them and read what they wrote."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from appliance_spark import export_files, export_run, export_verify
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import Target
from appliance_spark.export_plan import Wanted
from appliance_spark.export_store_target import target_of
from tests.support.spark_data import Place, Topics

HOUR_MS = 3_600_000
# Of the os module: what a compaction does to names, and for how long they last
DISK_STEPS = ("link", "mkdir", "symlink", "replace", "rename", "fsync", "unlink", "rmdir")


class Killed(BaseException):
    """As SIGKILL: nothing that would clean up is done, see `killed_at`."""


class Export:
    def __init__(self, spark: SparkSession, topics: Topics, root: Path | str, topic: str) -> None:
        self.spark, self.topics, self.topic = spark, topics, topic
        self.target: Any = target_of(str(root))  # of one kind or the other
        self.broker = AdminPort(topics.broker.admin)
        self.said: list[str] = []

    def run(
        self, table: dict[str, Any] | None = None, has_delta: bool = False, **wanted: Any
    ) -> dict[str, Any]:
        job = export_run.Job(
            self.target, self.broker, Wanted((self.topic,), **{"split_bytes": 20_000, **wanted}),
            table=table, has_delta=has_delta, begins=not self.target.exists())
        return export_run.run(job, lambda: self.spark, self.said.append)

    def run_killed(self, kill: Callable[[pytest.MonkeyPatch], None]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            kill(patch)
            with pytest.raises(Killed):
                self.run()

    def verify(self) -> list[str]:
        return self.verdict().problems

    def verdict(self) -> export_verify.Verdict:
        return export_verify.verify(self.target, lambda: self.spark, self.broker, 3)

    def rows(self) -> Counter[Place]:
        if isinstance(self.target, Target):
            return rows_in(self.target.root)
        return rows_listed(self.target)


def rows_in(root: Path) -> Counter[Place]:
    """Of every file that a reader finds, whatever the manifest says."""
    return places(
        row for path in Target(root).data_files()
        for row in pq.ParquetFile(root / path).read().to_pylist()
    )


def rows_listed(target: Any) -> Counter[Place]:
    """Of the files that count, as `export files` has them, read by a client of the store."""
    found: Counter[Place] = Counter()
    for row in export_files.rows(target, (), False):
        with fsspec.open(row["file"]) as file:
            found.update(places(pq.ParquetFile(file).read().to_pylist()))
    return found


def places(rows: Iterable[dict[str, Any]]) -> Counter[Place]:
    found: Counter[Place] = Counter()
    for row in rows:
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        ms = round(row["timestamp"].timestamp() * 1000)
        found[row["partition"], row["offset"], ms, row["key"], row["value"], headers] += 1
    return found


Make = Callable[..., Export]


def send(export: Export, count: int, first: int = 0) -> None:
    now = round(time.time() * 1000)
    for i in range(first, first + count):
        export.topics.send_later(
            export.topic, i % 2, now - i % 3 * HOUR_MS, b"%d " % i * 20, key=b"%d" % (i % 7),
            headers=[("h", b"%d" % i), ("none", None)] if i % 5 == 0 else None)
    export.topics.flush()


def killed_at(patch: pytest.MonkeyPatch, owner: Any, name: str, after: bool) -> None:
    """The run ends at this step, and leaves everything as it is then."""
    step = getattr(owner, name)

    def stepped(*given: Any, **named: Any) -> Any:
        if after:
            step(*given, **named)
        raise Killed(name)

    patch.setattr(owner, name, stepped)
    patch.setattr(export_run.export_tasks, "clear", lambda folder: None)
