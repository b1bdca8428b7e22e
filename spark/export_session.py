"""The Spark session of an export, and a bar that shows how far its tasks are."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from appliance_spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*,4]"  # all cores, and a task is tried four times as on a cluster
POLL_S = 0.3


class Sessions:
    """Makes the session when the first work comes, which takes seconds, and ends it."""

    def __init__(self, master: str, conf: tuple[str, ...] = ()) -> None:
        self.master, self.conf = master, conf
        self.found: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self.found is None:
            self.found = _session(self.master, self.conf)
        return self.found

    def stop(self) -> None:
        if self.found is not None:
            self.found.stop()


def _session(master: str, conf: tuple[str, ...]) -> SparkSession:
    from pyspark.sql import SparkSession

    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("appliance export")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for pair in conf:
        builder = builder.config(*pair.split("=", 1))
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    ship(spark, ["appliance_spark.export_tasks"])
    return spark


@contextmanager
def progress(sessions: Sessions, what: str) -> Iterator[Callable[[str], None]]:
    """Gives a function that says a line above the bar, which is for terminals only. At its end the
    session is stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TextColumn("tasks"), TimeElapsedColumn())
    over = threading.Event()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        row = bar.add_task(what, total=None)

        def watch() -> None:
            while not over.wait(POLL_S):
                done, total = _counts(sessions.found)
                bar.update(row, completed=done, total=total or None)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield lambda line: console.print(line, highlight=False, markup=False)
        finally:
            over.set()
            thread.join()
            sessions.stop()


def _counts(spark: SparkSession | None) -> tuple[int, int]:
    """Of the tasks of the stages that run."""
    if spark is None:
        return 0, 0
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
