"""An export that is defined in a running broker, and everything where its failure is seen."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from appliance.cli.main import main
from appliance_spark import export_manifest
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import Target
from appliance_spark.export_outcome import Outcomes
from appliance_spark.export_scheduler import Scheduler
from tests.support.rest import Rest


def topic_of_ten(bootstrap: str, rest: Rest, size: int = 0) -> None:
    """Anew, with so many bytes more that nothing compresses."""
    rest.ask("DELETE", "/topics/orders")
    rest.post("/topics", {"name": "orders"})
    made = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        made.produce("orders", b"%d" % number + os.urandom(size))
    assert made.flush(20) == 0


class Listening(Protocol):
    admin: str  # HOST:PORT


class Place:
    """An export that is defined in a broker, and its target."""

    def __init__(self, broker: Listening, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.broker, self.root, self.patch = broker, root, patch
        self.rest, self.stack = Rest(broker.admin), ExitStack()
        self.words: list[str] = ["--root", str(root)]
        root.mkdir(exist_ok=True)
        self.target = Target(root / "lake")
        self.define()

    def define(self, **given: Any) -> None:
        where = {"topics": ["orders"], "target": str(self.target.root)}
        body = {**where, "schedule": hourly(), **given}
        answer = self.rest.ask("PUT", "/exports/daily", body)
        assert answer.status == 200, answer.body

    def manifest(self, **given: Any) -> None:
        self.target.own.mkdir(parents=True, exist_ok=True)
        export_manifest.save(self.target, {**export_manifest.empty(), **given})

    def exported(self, position: int, topic_id: str | None = None) -> None:
        """As runs have left it."""
        plan = AdminPort(self.broker.admin).plan("orders", "earliest", "latest", 1,
                                                 "read_committed")
        self.manifest(sequence=1, topics={"orders": {
            "topic_id": topic_id or plan["topic_id"], "begin": {"0": 0},
            "position": {"0": position}, "schema": {"mode": "raw"},
            "isolation": "read_committed"}})

    def succeeded(self, known: str, sequence: int) -> None:
        told = {"id": known, "path": str(self.target.root), "sequence": sequence}
        self.rest.post("/exports/daily/runs", {
            "id": "good", "state": "succeeded", "started_ms": 1, "plan": {"target": told}})

    def run_apart(self) -> int:
        """PySpark leaves a pipe open to a Java that has ended."""
        return subprocess.run(self.command(), check=False, capture_output=True).returncode

    def command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "appliance_spark.export", "run", "--name=daily",
                "--admin", self.broker.admin, *self.words, *more]

    def run(self) -> int:
        done = CliRunner().invoke(
            main, ["export", "run", "--name", "daily", "--admin", self.broker.admin, *self.words])
        return done.exit_code

    def seen(self, words: str) -> None:
        """Wherever somebody looks."""
        (run, *_) = self.rest.get("/exports/daily/runs")["runs"]
        assert (run["state"], words in run["error"]) == ("failed", True), run
        assert 'appliance_export_last_run_failed{export="daily"} 1.0' in self.metrics()
        assert any(words[:100] in each for each in self.findings()), self.findings()

    def metrics(self) -> str:
        return self.rest.raw("GET", "/metrics").body.decode()

    def findings(self) -> list[str]:
        return [each["text"] for each in self.rest.get("/health")["findings"]]


def scheduler_of(place: Place, words: list[str], outcomes: Outcomes | None = None) -> Scheduler:
    port = AdminPort(place.broker.admin)
    scheduler = Scheduler(port.definitions, lambda name: words, lambda text: None)
    scheduler.outcomes = outcomes or Outcomes(port, lambda text: None)
    return scheduler


def hourly() -> dict[str, str]:
    """Due half an hour ago, and in half an hour: no test is near a time at which it is due."""
    return {"cron": f"{(time.gmtime().tm_min + 30) % 60} * * * *"}


def run_once(scheduler: Scheduler, now: float) -> None:
    """Time goes on to where its run is due."""
    scheduler.step(now)
    scheduler.step(now + 3601)
    running = scheduler.exports["daily"].running
    assert isinstance(running, subprocess.Popen)
    running.wait(60)
    scheduler.step(now + 3602)


def small_disk(folder: Path, stack: ExitStack, size: str) -> None:
    """Of memory; it may grow: mount -o remount,size=..."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    stack.callback(subprocess.run, ["umount", "-l", folder], check=True)
