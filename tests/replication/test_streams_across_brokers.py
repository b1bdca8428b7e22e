"""Kafka Streams, exactly once, with two instances of an application and three brokers, which are
killed one after the other, and an instance once: each word is counted once. With members of the
classic protocol, and with a group of its own kind.

KILLS_ROUNDS and KILLS_SEED ask for more rounds: other victims in another order.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import Popen

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException, Producer

from appliance.protocol.messages.list_transactions import ListTransactionsRequest
from appliance.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from appliance.zookeeper.server import ZooKeeperServer
from tests.interop.test_streams import PER_LINE, WORDS, Counts, word_count
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
LINES_AHEAD = 30  # so many more lines are counted after each kill and each return
PAUSE_S = 0.03
APPLICATION = "word-count"
CHANGELOG = f"{APPLICATION}-words-changelog"
REPARTITION = f"{APPLICATION}-words-repartition"
APPLICATION_SETTINGS = (
    "replication.factor=3",
    "topic.min.insync.replicas=2",
    "commit.interval.ms=200",
    "transaction.timeout.ms=10000",
)


class Lines:
    """Lines of random words, written by an idempotent producer until it is closed."""

    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.written: list[str] = []
        self.acknowledged = 0
        self.faults: list[str] = []
        self._dice = dice
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all",
            "reconnect.backoff.max.ms": 200, "log_level": 0,
        })  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._stop.wait(PAUSE_S):
            line = " ".join(self._dice.choices(WORDS, k=PER_LINE))
            partition = len(self.written) % PARTITIONS
            self._producer.produce("lines", line, partition=partition, on_delivery=self._told)
            self.written.append(line)
            self._producer.poll(0)

    def _told(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.faults.append(str(error))

    def close(self) -> None:
        """All are acknowledged."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(DEADLINE_S)
        assert (left, self.faults) == (0, [])


class Application:
    """Two instances, each a process."""

    def __init__(
        self, three: Brokers, control: ClusterControl, folder: Path, protocol: str
    ) -> None:
        self._three, self._folder, self._protocol = three, folder, protocol
        self._control = control
        self._stack = ExitStack()
        self.running: dict[str, Popen[bytes]] = {}
        for name in ("one", "two"):
            (folder / name).mkdir(parents=True)
            self.start(name)

    def start(self, name: str) -> None:
        self.running[name] = self._stack.enter_context(
            word_count(self._three.bootstrap, self._folder / name, *APPLICATION_SETTINGS,
                       f"group.protocol={self._protocol}"))

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def until_shared(self) -> None:
        until(self._is_shared, DEADLINE_S)

    def _is_shared(self) -> bool:
        """Both have work, as far as the group's coordinator knows."""
        self.check()
        if self._protocol == "streams":
            coordinator = self._control.at(self._control.coordinator(APPLICATION, GROUP))
            (told,) = coordinator.ask(StreamsGroupDescribeRequest([APPLICATION]), 0).groups
            return (told.group_state, len(told.members)) == ("Stable", 2)
        with contextlib.suppress(KafkaException):
            admin = self._three.admin()
            group = admin.describe_consumer_groups([APPLICATION])[APPLICATION].result(10)
            return group.state == ConsumerGroupState.STABLE and len(group.members) == 2
        return False

    def check(self) -> None:
        for name, each in self.running.items():
            said = (self._folder / name / "said").read_text()
            assert each.poll() is None, said
            assert "ERROR" not in said.split(), said  # the state of an instance that gave up

    def close(self) -> None:
        self._stack.close()
        assert {each.returncode for each in self.running.values()} == {0}


def coordinates_a_transaction(control: ClusterControl) -> int:
    """Of the application's: the first broker that has one, at whatever moment."""
    def found() -> int:
        asked = ListTransactionsRequest()
        for node in ALL:
            told = control.at(node).ask(asked, 0).transaction_states
            if any(each.transactional_id.startswith(APPLICATION) for each in told):
                return node
        return 0
    return int(until(found, DEADLINE_S))


VICTIMS = {
    "leads the input": lambda control: control.leader("lines", 0),
    "coordinates the instances": lambda control: control.coordinator(APPLICATION, GROUP),
    "coordinates their transactions": coordinates_a_transaction,
    "leads a changelog": lambda control: control.leader(CHANGELOG, 0),
    "leads what is counted": lambda control: control.leader(REPARTITION, 0),
}


@pytest.fixture
def three(server: ZooKeeperServer, tmp_path: Path) -> Iterator[Brokers]:
    with brokers(server, f"/tests/{tmp_path.name}", tmp_path) as found:
        found.start(*ALL, **SETTINGS)
        for topic in ("lines", "counts"):
            found.create(topic, partitions=PARTITIONS, min_insync_replicas="2")
        until_whole(found)
        yield found


@pytest.mark.release("tests/interop/test_streams.py has it with one broker, and within seconds")
@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_word_is_counted_once_while_brokers_and_an_instance_are_killed(
    three: Brokers, tmp_path: Path, seed: int, protocol: str
) -> None:
    dice = random.Random(seed)
    with ExitStack() as stack:
        control = stack.enter_context(closing(ClusterControl(three)))
        counts = stack.enter_context(closing(Counts(three.bootstrap, PARTITIONS)))
        application = stack.enter_context(closing(
            Application(three, control, tmp_path / "application", protocol)))
        with closing(Lines(three.bootstrap, random.Random(seed))) as lines:

            def goes_on() -> None:
                application.check()
                wanted = len(lines.written) + LINES_AHEAD
                until(lambda: lines.acknowledged >= wanted, DEADLINE_S)
                counts.read_up_to(wanted * PER_LINE, DEADLINE_S)

            def returns() -> None:
                application.start(killed)
                application.until_shared()

            application.until_shared()
            goes_on()
            killed = dice.choice([*application.running])
            KilledInTurn(three, control, VICTIMS, goes_on, dice).play(
                lambda: application.kill(killed), returns)
            application.until_shared()
        counts.read_up_to(len(lines.written) * PER_LINE, DEADLINE_S)
    check_counts(three, counts, lines.written)


def check_counts(three: Brokers, counts: Counts, lines: list[str]) -> None:
    """Each step of each word is there once, and in its order; also what came last of all."""
    wanted = Counter(" ".join(lines).split())
    assert counts.steps == {word: [*range(1, n + 1)] for word, n in wanted.items()}
    left = sum(len(read(three, number, "counts")) for number in range(PARTITIONS))
    assert left == wanted.total() == len(lines) * PER_LINE
    for topic in ("lines", "counts"):
        until_equal(three, topic, PARTITIONS)
