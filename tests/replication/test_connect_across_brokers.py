"""Kafka Connect with two workers and three brokers: the lines of a file into a topic, exactly once,
and from there into another file, while brokers are killed one after the other, and a worker.

KILLS_ROUNDS and KILLS_SEED ask for more rounds: other victims in another order.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.interop import kafka_connect
from tests.interop.kafka_connect import ConnectWorker
from tests.support.cluster_control import GROUP, ClusterControl
from tests.support.killed_in_turn import (
    ALL,
    DEADLINE_S,
    SEEDS,
    SETTINGS,
    KilledInTurn,
    until_equal,
    until_whole,
)
from tests.support.logs import until
from tests.support.three_brokers import Brokers, brokers
from tests.support.transactions_of_three import read

PARTITIONS = 3
LINES_AHEAD = 20  # so many more lines have come through after each kill and each return
PAUSE_S = 0.03
CONNECTORS = "org.apache.kafka.connect.file.FileStream"


class Lines:
    """Numbered lines of one length, appended to a file until it is closed."""

    def __init__(self, path: Path) -> None:
        self.written: list[str] = []
        self._file = path.open("ab", buffering=0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._stop.wait(PAUSE_S):
            line = f"line-{len(self.written):06d}"
            self._file.write(f"{line}\n".encode())
            self.written.append(line)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._file.close()


class Connect:
    """The workers, with a source of lines and a sink of two tasks."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._source, self._sink = folder / "in", folder / "out"
        self._source.touch()
        self._sink.touch()
        self.workers = [ConnectWorker(bootstrap, folder / name) for name in ("one", "two")]
        self.killed: list[ConnectWorker] = []

    def begin(self) -> None:
        self._put("source", f"{CONNECTORS}SourceConnector", 1, **{
            "file": self._source, "topic": "lines", "batch.size": 20,
            "exactly.once.support": "required", "transaction.boundary": "poll"})  # fmt: skip
        self._put("sink", f"{CONNECTORS}SinkConnector", 2, file=self._sink, topics="lines")

    def _put(self, name: str, kind: str, tasks: int, **settings: object) -> None:
        body = {"connector.class": kind, "tasks.max": str(tasks),
                **{key: str(value) for key, value in settings.items()}}  # fmt: skip
        until(lambda: self._ask("PUT", f"/connectors/{name}/config", body), DEADLINE_S)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return next(each for each in self.workers if each not in self.killed).ask(
            method, path, body)

    def lines_of_sink(self) -> list[str]:
        """A worker that is killed may leave a line without its end."""
        return re.findall(r"line-\d{6}", self._sink.read_text())

    def runs(self) -> bool:
        """All of it, on both workers."""
        found = [self._status(name) for name in ("source", "sink")]
        if not all(found):
            return False
        tasks = [task for each in found for task in each["tasks"]]
        failed = [task for task in tasks if task["state"] == "FAILED"]
        assert not failed, failed
        places = [*tasks, *(each["connector"] for each in found)]
        return (len(tasks) == 3 and {each["state"] for each in places} == {"RUNNING"}
                and {each["worker_id"] for each in tasks} == {each.id for each in self.workers})

    def _status(self, name: str) -> Any:
        return self._ask("GET", f"/connectors/{name}/status")

    def kill_source(self) -> None:
        """The worker that runs its task."""
        (task,) = until(lambda: self._status("source"), DEADLINE_S)["tasks"]
        self.killed = [each for each in self.workers if each.id == task["worker_id"]]
        self.killed[0].kill()

    def start_again(self) -> None:
        self.killed.pop().start()
        until(self.runs, DEADLINE_S)

    def close(self) -> None:
        with ExitStack() as stack:  # each, whatever becomes of the others
            for each in self.workers:
                stack.callback(each.stop)


VICTIMS = {
    "leads the lines": lambda control: control.leader("lines", 0),
    "coordinates the workers": lambda control: control.coordinator(kafka_connect.GROUP, GROUP),
    "coordinates the sink": lambda control: control.coordinator("connect-sink", GROUP),
    "coordinates the source's transactions":
        lambda control: control.coordinator(f"{kafka_connect.GROUP}-source-0"),
    "leads the configs": lambda control: control.leader("configs", 0),
    "leads offsets of the source": lambda control: control.leader("offsets", 0),
}  # fmt: skip


@pytest.fixture
def three(server: ZooKeeperServer, tmp_path: Path) -> Iterator[Brokers]:
    with brokers(server, f"/tests/{tmp_path.name}", tmp_path) as found:
        found.start(*ALL, **SETTINGS)
        found.create("lines", partitions=PARTITIONS, min_insync_replicas="2")
        until_whole(found)
        yield found


def read_all(three: Brokers) -> list[list[str]]:
    return [read(three, number, "lines") for number in range(PARTITIONS)]


@pytest.mark.release("minutes; tests/interop/test_streams.py has such clients, and one broker")
@pytest.mark.parametrize("seed", SEEDS)
def test_lines_come_through_connect_while_brokers_and_a_worker_are_killed(
    three: Brokers, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    with ExitStack() as stack:
        control = stack.enter_context(closing(ClusterControl(three)))
        connect = stack.enter_context(closing(Connect(three.bootstrap, tmp_path)))
        with closing(Lines(tmp_path / "in")) as lines:

            def goes_on() -> None:
                wanted = len(lines.written) + LINES_AHEAD
                until(lambda: len(set(connect.lines_of_sink())) >= wanted, DEADLINE_S)

            connect.begin()
            until(connect.runs, DEADLINE_S)
            goes_on()
            KilledInTurn(three, control, VICTIMS, goes_on, dice).play(
                connect.kill_source, connect.start_again)
            until(connect.runs, DEADLINE_S)
        until(lambda: len(set(connect.lines_of_sink())) >= len(lines.written), DEADLINE_S)
    found = read_all(three)
    assert all(each == sorted(each) for each in found)
    assert sorted(line for each in found for line in each) == lines.written
    assert {*connect.lines_of_sink()} == {*lines.written}
    until_equal(three, "lines", PARTITIONS)
