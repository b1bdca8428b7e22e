"""Runs with a real Spark that fail: the JVM is killed or lacks memory; a worker is killed; the
target's disk is full; the broker stops, and returns or not; a token expires; the scheduler stops.
The broker, its metrics and health report each failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from appliance.catalog.catalog import Catalog
from appliance.export import definitions_and_runs, due
from appliance.export.export_rows import ExportRows
from appliance.testing import running_broker
from appliance_spark import export_definition, export_outcome, export_run, export_tasks
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_outcome import Outcomes
from appliance_spark.export_scheduler import Scheduler
from loadtest.ports import lasting_ports
from tests.support.children import children_of
from tests.support.export_place import (
    Place,
    hourly,
    run_once,
    scheduler_of,
    small_disk,
    topic_of_ten,
)
from tests.support.exporting import rows_in
from tests.support.people import logged_in, make_people
from tests.support.rest import Rest
from tests.support.spark_data import DEADLINE_S, log_of
from tests.support.warm_broker import WarmBroker as Broker

SIZE = 90_000  # per record: ten are more than the small disk has


def until(is_so: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE_S
    while not (found := is_so()):
        assert time.monotonic() < end, is_so
        time.sleep(0.02)
    return found


@pytest.fixture
def place(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    rest = Rest(broker.admin)
    topic_of_ten(broker.kafka, rest, SIZE)
    rest.ask("DELETE", "/exports/daily")
    made = Place(broker, tmp_path / "lakes", monkeypatch)
    with made.stack:
        yield made


def run_here(place: Place, spark: SparkSession, retries: int = 20) -> None:
    """Runs like the command, in the shared session."""
    port = AdminPort(place.broker.admin)
    with export_outcome.told("daily", port):
        definition = export_definition.of_broker(port.definition("daily"), (str(place.root),))
        job = export_definition.job_of(definition, port)
        job = export_run.replace(job, retries=retries)
        export_run.run(job, lambda: spark, lambda text: None)


def is_whole(place: Place, kafka: str) -> bool:
    return rows_in(place.target.root) == log_of(kafka, "orders")


# The processes of a run

def below(process: int) -> list[tuple[int, bytes]]:
    """The processes that it has started, with their command lines."""
    found = []
    for child in children_of(process):
        with suppress(OSError):  # the process has ended meanwhile
            found.append((child, Path(f"/proc/{child}/cmdline").read_bytes()))
            found += below(child)
    return found


def those_of(process: int, word: bytes) -> list[int]:
    return [number for number, words in below(process) if word in words]


def test_a_jvm_that_is_killed_while_it_works(place: Place) -> None:
    run = subprocess.Popen(place.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: run.poll() is not None or those_of(run.pid, b"pyspark.daemon"))
    os.kill(those_of(run.pid, b"org.apache.spark")[0], signal.SIGKILL)
    said, _ = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 1, said.decode()
    place.seen("Spark's JVM has ended")


def test_a_jvm_without_memory(place: Place) -> None:
    """A real java.lang.OutOfMemoryError."""
    done = subprocess.run(place.command("--conf", "spark.driver.memory=24m"), check=False,
                          capture_output=True, timeout=DEADLINE_S)
    assert b"java.lang.OutOfMemoryError" in done.stderr
    assert done.returncode == 1
    place.seen("or was it given too little memory")


def test_a_driver_that_is_killed(place: Place) -> None:
    scheduler = scheduler_of(place, place.command())
    now = time.time() - 3601
    scheduler.step(now)
    scheduler.step(now + 3601)
    running = scheduler.exports["daily"].running
    assert isinstance(running, subprocess.Popen)
    until(lambda: place.rest.get("/exports/daily")["status"]["last_run"])
    running.kill()
    running.wait()
    scheduler.step(now + 3602)
    place.seen("was killed by signal 9 (SIGKILL)")
    assert len(place.rest.get("/exports/daily/runs")["runs"]) == 1  # the run that had started


def test_a_worker_that_is_killed(place: Place, spark: SparkSession) -> None:
    """As the kernel does it when memory ends. Here Spark does not retry a task."""
    def killed(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    place.patch.setattr(export_tasks, "write", killed)
    with pytest.raises(ExportFailed, match="Python worker exited unexpectedly"):
        run_here(place, spark)
    place.seen("a task failed: Python worker exited unexpectedly (crashed)")


# Its disk

@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_disk_that_is_full_and_has_room_again(
    place: Place, broker: Broker, spark: SparkSession
) -> None:
    small_disk(place.target.root, place.stack, "512k")
    with pytest.raises(ExportFailed, match="No space left on device"):
        run_here(place, spark)
    place.seen("a task failed: OSError: [Errno 28]")
    assert list(place.target.data_files()) == []
    subprocess.run(["mount", "-o", "remount,size=16m", place.target.root], check=True)
    run_here(place, spark)
    assert is_whole(place, broker.kafka)
    assert place.findings() == []
    assert 'appliance_export_last_run_failed{export="daily"} 0.0' in place.metrics()


# Its broker

@contextmanager
def going(tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Place, list[Broker]]]:
    """A broker that stops, and restarts on the same address."""
    with ExitStack() as stack:
        kafka, admin, export = (f"127.0.0.1:{port}" for port in lasting_ports(3))
        first = stack.enter_context(started(tmp_path, kafka, admin, export))
        topic_of_ten(first.kafka, Rest(first.admin), SIZE)
        yield Place(first, tmp_path / "lakes", patch), [first]


def started(tmp_path: Path, kafka: str, admin: str, export: str) -> Broker:
    return Broker(tmp_path / "data", "--admin", admin, "--listen", kafka,
                  "--set", f"export.address={export}")


def back(tmp_path: Path, gone: Broker) -> Broker:
    return started(tmp_path, gone.kafka, gone.admin, gone.export)


def test_a_broker_that_comes_back_during_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    spread = export_tasks.spread
    with going(tmp_path, monkeypatch) as (place, (first,)), ExitStack() as stack:
        def away(*given: Any) -> Any:
            monkeypatch.setattr(export_tasks, "spread", spread)
            first.process.kill()
            first.process.wait()
            late = threading.Timer(1, lambda: stack.enter_context(back(tmp_path, first)))
            late.start()
            try:
                return spread(*given)
            finally:
                late.join()

        monkeypatch.setattr(export_tasks, "spread", away)
        run_here(place, spark)
        assert is_whole(place, first.kafka)
        assert place.rest.get("/exports/daily")["status"]["last_run"]["state"] == "succeeded"


def test_a_broker_that_stays_away_hears_later_how_the_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    spread = export_tasks.spread
    with going(tmp_path, monkeypatch) as (place, (first,)):
        def away(*given: Any) -> Any:
            first.process.kill()
            first.process.wait()
            return spread(*given)

        monkeypatch.setattr(export_tasks, "spread", away)
        outcomes, began = Outcomes(AdminPort(first.admin), lambda text: None), time.time()
        with pytest.raises(ExportFailed, match="Connection refused"):
            run_here(place, spark, retries=1)
        outcomes.ended("daily", 1, began, time.time())
        outcomes.tell()
        with back(tmp_path, first):
            outcomes.tell()
            place.seen("the run ended with code 1")
            assert len(place.rest.get("/exports/daily/runs")["runs"]) == 1


def test_a_connection_refused_at_the_start_is_reported_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with going(tmp_path, monkeypatch) as (place, (first,)):
        scheduler = scheduler_of(place, place.command())
        now = time.time() - 3601
        scheduler.step(now)
        first.process.kill()
        first.process.wait()
        run_once(scheduler, now)
        with back(tmp_path, first):
            scheduler.step(now + 3603)
            place.seen("the run ended with code 5")


# Its scheduler

@contextmanager
def scheduling(admin: str, root: Path, token: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "appliance_spark.export", "schedule", "--admin", admin,
             "--root", str(root)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL,
                               env={**os.environ, "APPLIANCE_TOKEN": token})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Due:
    """An export whose scheduler must log in, defined before the broker started."""

    def __init__(self, tmp_path: Path) -> None:
        make_people(tmp_path / "data")
        self.data, self.root = tmp_path / "data", tmp_path / "lakes"
        definition = {"topics": ["orders"], "target": str(self.root / "lake"),
                      "schedule": hourly()}
        with running_broker(self.data) as broker:
            assert logged_in(broker, "ada").ask("PUT", "/exports/daily", definition).status == 200
        catalog = Catalog.open(self.data / "catalog.db")  # it was defined two hours ago
        rows = ExportRows(catalog)
        stored = json.loads(rows.all()["daily"])
        rows.put("daily", json.dumps({**stored, "defined_ms": stored["defined_ms"] - 7_200_000}))
        catalog.close()

    @contextmanager
    def watched(self) -> Iterator[tuple[str, Rest, str]]:
        """The address, an admin, and the scheduler's token."""
        with running_broker(self.data) as broker:
            ada = logged_in(broker, "ada")
            made = ada.ask("POST", "/tokens", {"name": "scheduler", "role": "operator"}).body
            yield broker.admin, ada, made["token"]


def silence(patch: pytest.MonkeyPatch) -> None:
    """Moves time by three minutes."""
    for each in (due, definitions_and_runs):
        patch.setattr(each, "NEXT_RUN_BELIEVED_S", 0.5)


def test_a_scheduler_that_is_killed_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Due(tmp_path)
    with export.watched() as (admin, ada, token):
        with scheduling(admin, export.root, token):
            until(lambda: ada.get("/exports/daily")["status"]["next_run_ms"])
            assert is_overdue(ada) == (False, False)
        silence(monkeypatch)
        until(lambda: is_overdue(ada) == (True, True))


def test_a_scheduler_whose_token_ends_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, said = Due(tmp_path), list[str]()
    with export.watched() as (admin, ada, token):
        port = AdminPort(admin, token)
        nothing = [sys.executable, "-c", ""]  # its first run was missed, and begins at once
        scheduler = Scheduler(port.definitions, lambda name: nothing, said.append, port.next_run)
        now = time.time()
        scheduler.step(now)
        assert ada.get("/exports/daily")["status"]["next_run_ms"] is not None
        assert is_overdue(ada) == (False, False)
        assert ada.ask("DELETE", "/tokens/scheduler").status == 204
        scheduler.step(now + 61)
        assert any("the definitions were not read: " in text for text in said), said
        assert any("did not take when the next run of daily begins" in text for text in said), said
        scheduler.run(lambda: True)  # ends what it began
        silence(monkeypatch)
        until(lambda: is_overdue(ada) == (True, True))


def is_overdue(rest: Rest) -> tuple[bool, bool]:
    """Whether health, the export's page and the metric of the alert rule report it as overdue."""
    late = "no run began: is its scheduler running?"
    texts = [each["text"] for each in rest.get("/health")["findings"]]
    page = rest.raw("GET", "/metrics").body.decode()
    shown = late in rest.get("/exports/daily")["status"]["late"]
    return (any(late in each for each in texts) and shown,
            'appliance_export_overdue{export="daily"} 1.0' in page)
