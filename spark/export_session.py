"""The Spark session of an export, and the progress bar of its tasks."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import appliance
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_registry import Place
from appliance_spark.worker_packages import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*,4]"  # all cores, and four attempts per task as on a cluster
POLL_S = 0.3
TASKS = ("appliance_spark.export_tasks", "appliance_spark.export_store_target")
OF_REGISTRY = ("appliance.config",)
# Spark hands results to Python by a port of loopback and takes the first who connects: where that
# is a client which looks for a broker that is gone, the run ends. A file in the temporary directory
# has no strangers. PySpark 4.0 lacks it and has the port; on a cluster that directory's name may be
# longer than the 107 bytes that an address has.
RESULTS_BY_FILE = "spark.python.unix.domain.socket.enabled=true"


class Sessions:
    """Creates the session at the first work, which takes seconds, and stops it."""

    def __init__(
        self, master: str, conf: tuple[str, ...] = (), registry: Place | None = None
    ) -> None:
        self.master, self.conf = master, conf
        self.tasks = TASKS if registry is None else (*TASKS, *OF_REGISTRY)
        self.found: SparkSession | None = None
        self.is_asked_for = False

    def __call__(self) -> SparkSession:
        self.is_asked_for = True
        if self.found is None:
            self.found = _session(self.master, self.conf, self.tasks)
        return self.found

    def stop(self) -> None:
        if self.found is not None:
            from py4j.protocol import Py4JError

            with suppress(Py4JError, OSError):  # its JVM has ended, which its caller has reported
                self.found.stop()


def _session(master: str, conf: tuple[str, ...], tasks: tuple[str, ...]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    java = found_java()
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = (*import_as_installed(), RESULTS_BY_FILE, *conf)
    builder = SparkSession.builder.master(master).appName("appliance export")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for pair in conf:
        builder = builder.config(*pair.split("=", 1))
    try:
        spark: SparkSession = builder.getOrCreate()
    except (PySparkRuntimeError, Py4JError, OSError) as error:  # its JVM has printed the reason
        said = str(error).split("\n\tat ")[0]
        why = "or was it given too little memory (--conf spark.driver.memory=…)?"
        raise ExportFailed(
            f"Spark did not start: {said} Is {java} older than Java 17, {why}") from error
    spark.sparkContext.setLogLevel("ERROR")
    ship(spark, tasks)
    return spark


def found_java() -> str:
    """Looks for Java where Spark's own start script does."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java" if home else "java")
    if found is None:
        where = f"JAVA_HOME, {home}, has no bin/java" if home else "there is no java in PATH"
        wanted = "Spark wants Java 17 or newer"
        raise ExportFailed(f"{wanted}, and {where}: install it, or set JAVA_HOME")
    return found


def import_as_installed() -> tuple[str, ...]:
    """Python's workers of a local Spark put the current directory first on their path. In a clone
    this is the source, without compiled modules unless they were built there. Returns the session's
    settings against it: only its workers get them, not what this process starts beside it."""
    if sys.version_info >= (3, 11):
        return ("spark.executorEnv.PYTHONSAFEPATH=1",)
    here, ours = Path.cwd() / "appliance", Path(appliance.__file__).parent
    if (here / "__init__.py").is_file() and here.resolve() != ours.resolve():
        raise ExportFailed(
            f"Spark's workers would import {here} instead of {ours}: start it in another directory"
        )
    return ()


@contextmanager
def progress(sessions: Sessions, what: str) -> Iterator[Callable[[str], None]]:
    """Yields a function that prints a line above the bar, which only terminals have. Stops the
    session at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(),
               TextColumn("{task.fields[tasks]}"), TimeElapsedColumn())
    over, course = threading.Event(), Course(sessions, what)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        row = bar.add_task(course.words, total=None, tasks="")

        def show() -> None:
            bar.update(row, description=course.words, completed=course.done,
                       total=course.total or None, tasks=course.tasks)

        def watch() -> None:
            while not over.wait(POLL_S):
                course.look()
                show()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield lambda line: console.print(line, highlight=False, markup=False)
            course.end()
        finally:
            over.set()
            thread.join()
            show()
            sessions.stop()


class Course:
    """The state of a command: planning, then its tasks; the last tasks stay visible during the
    steps after them."""

    def __init__(self, sessions: Sessions, what: str) -> None:
        self.sessions, self.what = sessions, what
        self.words, self.done, self.total = f"{what}: planning", 0, 0

    @property
    def tasks(self) -> str:
        return f"{self.done}/{self.total} tasks" if self.total else ""

    def look(self) -> None:
        done, total = _counts(self.sessions.found)
        if total:
            self.words, self.done, self.total = self.what, done, total
        elif self.total:
            self.done = self.total
        elif self.sessions.is_asked_for:
            self.words = f"{self.what}: starting Spark"

    def end(self) -> None:
        self.words, self.done = self.what, self.total


def _counts(spark: SparkSession | None) -> tuple[int, int]:
    """The tasks of the running stages."""
    if spark is None:
        return 0, 0
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
