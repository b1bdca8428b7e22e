"""The original kind of cluster: three appliances in one ZooKeeper, a group of consumers over all
of them, each consumer a process of its own, under constant produce.

Consumers come and go, ZooKeeper restarts, a session expires, a consumer and a broker are killed:
every record is read, no partition is owned by two at a time, and who owns what is the algorithm's
table each time.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from appliance.client.broker_partition import BrokerPartition
from appliance.client.range_assignor import assign
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing
from tests.support.zookeeper import serving_zookeeper_in

PARTITIONS = 4  # of each broker
PACE_S = 0.01  # between two rounds of a record to each partition
DEADLINE_S = 60.0
LOG_LINES = 30  # of each, shown when it was in vain
BROKER_SESSION_MS = 3000
NodeId = int


def eventually(condition: Any, story: Callable[[], str] = str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"in vain for {DEADLINE_S:.0f} s\n{story()}"
        time.sleep(0.02)


class Pump(threading.Thread):
    """Produces to one broker all the time; `acked` has what the broker said it has."""

    def __init__(self, broker: NodeId, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.broker, self.acked = broker, set[tuple[BrokerPartition, int]]()
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "log_level": 0,
                "message.timeout.ms": 2000,
            }
        )
        self.is_over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.is_over.is_set():
            for partition in range(PARTITIONS):
                with suppress(BufferError):
                    self.producer.produce("t", b"x", partition=partition, on_delivery=self._told)
            self.producer.poll(0)
            self.is_over.wait(PACE_S)
        self.producer.flush(DEADLINE_S)

    def _told(self, error: object, message: Any) -> None:
        if error is None:
            name = BrokerPartition(self.broker, message.partition())
            self.acked.add((name, message.offset()))

    def end(self) -> None:
        self.is_over.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()


class Owning(NamedTuple):
    partition: str
    begin: float
    end: float
    owner: str
    is_lost: bool  # it went with its session, which may have ended before


class Run:
    def __init__(self, folder: Path, server: ZooKeeperServer, stack: ExitStack) -> None:
        self.folder, self.server, self.stack = folder, server, stack
        self.brokers: dict[NodeId, Serving] = {}
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        self.pumps: list[Pump] = []
        self.look = KazooClient(
            str(server.address), timeout=10, connection_retry={"max_tries": -1, "max_delay": 0.2}
        )
        self.look.start(DEADLINE_S)

    # brokers

    def start_broker(self, number: NodeId) -> None:
        settings = {
            "node.id": number,
            "zookeeper.format": "original",
            "zookeeper.connect": self.server.address,
            "zookeeper.session.timeout.ms": BROKER_SESSION_MS,
        }
        broker = WarmServing(self.folder / f"broker-{number}", **settings)
        self.stack.callback(broker.stop, signal.SIGKILL)
        self.brokers[number] = broker
        bootstrap = "{}:{}".format(*broker.kafka)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        if "t" not in admin.list_topics(timeout=DEADLINE_S).topics:
            admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(DEADLINE_S)
        self.pumps.append(Pump(number, bootstrap))

    def kill_broker(self, number: NodeId) -> None:
        self.brokers.pop(number).stop(signal.SIGKILL)

    # consumers

    def start_member(self, name: str) -> None:
        command = [sys.executable, "-m", "tests.support.group_member"]
        command += [str(self.server.address), "g", name, str(self.folder)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.members[name] = subprocess.Popen(command, stderr=log)
        self.stack.callback(self._end, self.members[name])

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def stop_member(self, name: str) -> None:
        process = self.members.pop(name)
        process.terminate()
        assert process.wait(DEADLINE_S) == 0, (self.folder / f"{name}.log").read_text()

    # what is seen

    def owners(self) -> dict[str, str]:
        found = {}
        with suppress(NoNodeError):
            for name in self.look.retry(self.look.get_children, "/consumers/g/owners/t"):
                with suppress(NoNodeError):
                    data, _ = self.look.retry(self.look.get, f"/consumers/g/owners/t/{name}")
                    found[name] = str(data or b"", "ascii")
        return found

    def becomes_the_table(self, *members: str, brokers: tuple[NodeId, ...] = (1, 2, 3)) -> None:
        there = [BrokerPartition(id_, n) for id_ in brokers for n in range(PARTITIONS)]
        table = assign({"t": there}, {name: {"t": 1} for name in members})
        wanted = {str(of.partition): str(by) for of, by in table.items()}
        eventually(lambda: self.owners() == wanted, lambda: self.story(wanted))

    def story(self, wanted: dict[str, str]) -> str:
        """What ZooKeeper has instead, and the end of everybody's log."""
        lines = [f"wanted {wanted}", f"owners {self.owners()}"]
        for path in ("/consumers/g/ids", "/brokers/ids", "/brokers/topics/t"):
            lines.append(f"{path} {self.look.retry(self.look.get_children, path)}")
        for file in sorted(self.folder.glob("*.log")):
            lines += [f"-- {file.name}", *file.read_text().splitlines()[-LOG_LINES:]]
        return "\n".join(lines)

    def read(self) -> Counter[tuple[BrokerPartition, int]]:
        """How often each message was handed out."""
        found: Counter[tuple[BrokerPartition, int]] = Counter()
        for file in self.folder.glob("*.read"):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    name, offset = line.split()
                    found[BrokerPartition.parse(name), int(offset)] += 1
        return found

    def some_more_is_read(self) -> None:
        before = len(self.read())
        eventually(lambda: len(self.read()) > before + 200)

    def times_of_owning(self) -> Iterator[Owning]:
        for file in self.folder.glob("*.owns"):
            since: dict[str, float] = {}
            for line in file.read_text().splitlines():
                when, what, partition = line.split()
                if what == "claimed":
                    since[partition] = float(when)
                else:
                    begin = since.pop(partition)
                    yield Owning(partition, begin, float(when), file.stem, what == "lost")
            for partition, begin in since.items():
                yield Owning(partition, begin, float("inf"), file.stem, is_lost=False)

    def overlaps(self) -> list[tuple[str, str, str]]:
        """Who owned a partition while another did. One whose session has ended is told so late
        (ZooKeeper was away, or it stood still itself), and reads on until then: that is meant."""
        found = []
        for one, other in pairwise(sorted(self.times_of_owning())):
            if one.partition == other.partition and other.begin < one.end and not one.is_lost:
                found.append((one.partition, one.owner, other.owner))
        return found

    def finish(self) -> None:
        """All that was acknowledged is read."""
        eventually(lambda: sum(len(pump.acked) for pump in self.pumps) > 1000)
        for pump in self.pumps:
            pump.end()
        acked = set().union(*(pump.acked for pump in self.pumps))
        eventually(lambda: acked <= self.read().keys())
        for name in [*self.members]:
            self.stop_member(name)
        assert self.owners() == {}


@contextmanager
def three_brokers(folder: Path) -> Iterator[Run]:
    with ExitStack() as stack:
        server = stack.enter_context(serving_zookeeper_in(folder / "zookeeper"))
        run = Run(folder, server, stack)
        try:
            for number in (1, 2, 3):
                run.start_broker(number)
            yield run
        finally:
            for pump in run.pumps:
                pump.is_over.set()
            run.look.stop()
            run.look.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with three_brokers(tmp_path) as run:
        yield run


def test_one_two_five_three_consumers(run: Run) -> None:
    run.start_member("c")
    run.becomes_the_table("c")
    run.some_more_is_read()
    run.start_member("a")
    run.becomes_the_table("a", "c")
    run.some_more_is_read()
    for name in ("b", "d", "e"):
        run.start_member(name)
    run.becomes_the_table("a", "b", "c", "d", "e")
    run.some_more_is_read()
    run.stop_member("c")
    run.becomes_the_table("a", "b", "d", "e")
    run.stop_member("a")
    run.becomes_the_table("b", "d", "e")
    run.some_more_is_read()
    run.finish()
    assert run.overlaps() == []
    moves = len([*run.times_of_owning()])
    again = [count - 1 for count in run.read().values() if count > 1]
    assert sum(again) <= moves, "at most the message that was worked on when a partition moved"


def test_zookeeper_restarts_sessions_expire_and_brokers_die(run: Run) -> None:
    for name in ("a", "b", "c"):
        run.start_member(name)
    run.becomes_the_table("a", "b", "c")
    run.some_more_is_read()

    run.server.kill()
    run.some_more_is_read()  # nobody needs it to read on
    run.server.start()
    run.server.wait_until_serving()
    run.becomes_the_table("a", "b", "c")
    run.some_more_is_read()

    run.members["b"].send_signal(signal.SIGSTOP)  # for longer than its session lives
    run.becomes_the_table("a", "c")
    run.some_more_is_read()
    run.members["b"].send_signal(signal.SIGCONT)
    run.becomes_the_table("a", "b", "c")
    run.some_more_is_read()

    run.members.pop("c").kill()
    run.becomes_the_table("a", "b")
    run.start_member("c")
    run.becomes_the_table("a", "b", "c")

    run.kill_broker(2)
    run.becomes_the_table("a", "b", "c", brokers=(1, 3))
    run.some_more_is_read()
    run.start_broker(2)
    run.becomes_the_table("a", "b", "c")
    run.some_more_is_read()
    run.finish()
    assert {owner for _, owner, _ in run.overlaps()} <= {"c"}, "the killed cannot say that it ended"


def test_two_owners_at_a_time_are_found(tmp_path: Path) -> None:
    claimed = "1.0 claimed 1-0\n1.0 claimed 1-1\n1.0 claimed 1-2\n"
    (tmp_path / "a.owns").write_text(claimed + "2.0 let-go 1-0\n4.0 lost 1-2\n")
    (tmp_path / "b.owns").write_text("2.1 claimed 1-0\n3.0 claimed 1-1\n3.0 claimed 1-2\n")
    run = Run.__new__(Run)
    run.folder = tmp_path
    assert run.overlaps() == [("1-1", "a", "b")]
