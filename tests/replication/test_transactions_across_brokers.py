"""Transactions whose coordinator, partitions and groups are on different brokers, which are killed:
what was decided comes to its end on all of them, and nothing else does."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_producers import DescribeProducersRequest
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.topics.internal_topic import partition_of
from appliance.topics.topic import OFFSETS, TRANSACTIONS
from appliance.zookeeper.server import ZooKeeperServer
from tests.interop import kafka_jars
from tests.interop.kafka_tools import KafkaTools
from tests.support.cluster_control import GROUP, ClusterControl, until_answered
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers
from tests.support.txn_client import TxnClient

PARTITIONS = 3  # of the topic, and of the internal ones
SETTINGS = {
    "transaction.state.log.num.partitions": PARTITIONS, "offsets.topic.num.partitions": PARTITIONS,
}  # fmt: skip
ALL = (1, 2, 3)
SECONDS = float(os.environ.get("TRANSFERS_S", "40"))


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(*ALL, **SETTINGS)
        make_topic(found)
        yield found


@pytest.fixture
def control(three: Brokers) -> Iterator[ClusterControl]:
    found = ClusterControl(three)
    yield found
    found.close()


def make_topic(cluster: Brokers) -> None:
    """Each broker leads a partition."""
    cluster.create("t", partitions=PARTITIONS, min_insync_replicas="2")
    found = [cluster.until("t", lambda each: len(each.isrs) == len(ALL), number)
             for number in range(PARTITIONS)]  # fmt: skip
    assert {each.leader for each in found} == {*ALL}


def producer(cluster: Brokers, name: str = "id", **given: object) -> Producer:
    made = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, **given})
    made.init_transactions(DEADLINE_S)
    return made


def write(own: Producer, value: str) -> None:
    """To each partition."""
    for number in range(PARTITIONS):
        own.produce("t", value, partition=number)


def committed(cluster: Brokers) -> list[list[str]]:
    """What a reader of committed records sees of each partition, once nothing is open there."""
    return [read(cluster, number) for number in range(PARTITIONS)]


def read(cluster: Brokers, partition: int, topic: str = "t") -> list[str]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody",
                         "enable.auto.commit": False, "isolation.level": "read_committed",
                         "enable.partition.eof": True})  # fmt: skip
    try:
        end = time.monotonic() + DEADLINE_S
        while not is_stable(cluster, partition, topic):
            assert time.monotonic() < end, f"a transaction is open in partition {partition}"
            time.sleep(0.05)
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[str] = []
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                return found  # the end
            found.append(message.value().decode())
        raise AssertionError("no end was reached")
    finally:
        consumer.close()


def is_stable(cluster: Brokers, partition: int, topic: str) -> bool:
    return not any(each[2] >= 0 for each in producers_of(cluster, partition, topic))


def producers_of(
    cluster: Brokers, partition: int, topic: str = "t"
) -> list[tuple[int, int, int]]:
    """As the leader remembers them: id, epoch, and where its open transaction begins, or -1."""
    control = ClusterControl(cluster)
    try:
        rows = [DescribeProducersRequest.TopicRequest(topic, [partition])]
        at = control.at(control.leader(topic, partition))
        (found,) = at.ask(DescribeProducersRequest(rows), 0).topics
        (answer,) = found.partitions
        assert answer.error_code == 0, answer
        return [(each.producer_id, each.producer_epoch, each.current_txn_start_offset)
                for each in answer.active_producers]  # fmt: skip
    finally:
        control.close()


def test_what_is_committed_is_seen_in_partitions_of_all_brokers(three: Brokers) -> None:
    own = producer(three)
    for number in range(4):
        own.begin_transaction()
        write(own, f"{number}")
        if number % 2:
            own.abort_transaction(DEADLINE_S)
        else:
            own.commit_transaction(DEADLINE_S)
    assert committed(three) == [["0", "2"]] * PARTITIONS


# Brokers are killed


def a_name(control: ClusterControl, coordinator: int, kind: str = "id") -> str:
    """Of a transactional id that this broker coordinates."""
    control.coordinator("any")  # the topic is made
    led = [number for number in range(PARTITIONS)
           if control.leader(TRANSACTIONS, number) == coordinator]  # fmt: skip
    return next(name for name in (f"{kind}{number}" for number in range(100))
                if partition_of(name, PARTITIONS) in led)  # fmt: skip


def state_of(control: ClusterControl, name: str) -> str:
    answer = control.ask(DescribeTransactionsRequest([name]), 0).transaction_states[0]
    return str(answer.transaction_state if not answer.error_code else answer.error_code)


def until_state(control: ClusterControl, name: str, *wanted: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while (found := state_of(control, name)) not in wanted:
        assert time.monotonic() < end, f"{name} is {found}"
        time.sleep(0.01)


@pytest.mark.release("three brokers, and sessions that end")
@pytest.mark.parametrize("is_v2", [True, False], ids=["TV2", "TV1"])
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_coordinator_killed_between_decision_and_markers(
    server: ZooKeeperServer, tmp_path: Path, is_v2: bool, is_commit: bool
) -> None:
    """One leader is paused, so that a marker is missing when the coordinator dies."""
    root = f"/tests/decided-{is_v2}-{is_commit}"
    settings = {**SETTINGS, "default.replication.factor": 2,
                "zookeeper.session.timeout.ms": 6000}  # fmt: skip
    with brokers(server, root, tmp_path) as three:
        three.start(*ALL, **settings)
        make_topic(three)
        control = ClusterControl(three)
        control.coordinator("any")
        three.configure(TRANSACTIONS, **{"min.insync.replicas": "1"})  # one of two will be killed
        found = three.until(TRANSACTIONS, lambda each: len(each.isrs) == 2)
        coordinator = found.leader
        (paused,) = {*ALL} - {*found.replicas}
        name = next(each for each in (f"id{n}" for n in range(99))
                    if partition_of(each, PARTITIONS) == 0)  # fmt: skip
        client = TxnClient(control, name, is_v2=is_v2)
        assert until_answered(client.init) == 0
        for number in range(PARTITIONS):
            assert is_v2 or client.add(("t", number)) == [0]
            assert until_answered(partial(client.write, "a", partition=number)) == 0

        client.control = ending = ClusterControl(three)  # its answer may come late
        ending.paused = control.paused = {paused}
        os.kill(three.running[paused].process.pid, signal.SIGSTOP)
        client.send_end(is_commit)
        until_state(control, name, "PrepareCommit", "PrepareAbort")
        three.stop(coordinator, signal.SIGKILL)
        os.kill(three.running[paused].process.pid, signal.SIGCONT)
        control.paused = set()
        client.control = control

        wanted = "CompleteCommit" if is_commit else "CompleteAbort"
        until_state(control, name, wanted)
        assert committed(three) == [["a"] if is_commit else []] * PARTITIONS
        assert until_answered(lambda: client.end(is_commit)) == 0  # asked again
        control.close()
        ending.close()


@pytest.mark.release("three brokers, and sessions that end")
def test_a_leader_killed_in_an_open_transaction(three: Brokers, control: ClusterControl) -> None:
    own = producer(three, a_name(control, control.leader("t", 0)))
    own.begin_transaction()
    write(own, "a")
    own.flush(DEADLINE_S)
    three.stop(control.leader("t", 1), signal.SIGKILL)
    write(own, "b")
    own.commit_transaction(DEADLINE_S)
    own.begin_transaction()
    write(own, "c")
    own.abort_transaction(DEADLINE_S)
    assert committed(three) == [["a", "b"]] * PARTITIONS


@pytest.mark.release("three brokers, and sessions that end")
def test_a_coordinator_killed_in_an_open_transaction(
    three: Brokers, control: ClusterControl
) -> None:
    """Its successor has what was added, by clients and by leaders for them."""
    first = a_name(control, 1)
    second = a_name(control, 1, "other")
    own, client = producer(three, first), TxnClient(control, second)
    assert until_answered(client.init) == 0
    own.begin_transaction()
    write(own, "a")
    own.flush(DEADLINE_S)
    for number in range(PARTITIONS):
        assert until_answered(partial(client.write, "b", partition=number)) == 0
    three.stop(1, signal.SIGKILL)
    own.commit_transaction(DEADLINE_S)
    assert until_answered(client.end) == 0
    assert committed(three) == [["a", "b"]] * PARTITIONS


@pytest.mark.release("three brokers, and sessions that end")
def test_who_has_the_id_next_is_found_at_the_new_coordinator(
    three: Brokers, control: ClusterControl
) -> None:
    """And whoever had it before is fenced, with what it wrote."""
    name = a_name(control, 2)
    zombie = producer(three, name)
    zombie.begin_transaction()
    write(zombie, "zombie")
    zombie.flush(DEADLINE_S)
    three.stop(2, signal.SIGKILL)
    own = producer(three, name)
    own.begin_transaction()
    write(own, "a")
    own.commit_transaction(DEADLINE_S)
    write(zombie, "b")
    with pytest.raises(KafkaException) as told:
        zombie.commit_transaction(DEADLINE_S)
    assert told.value.args[0].fatal()
    assert committed(three) == [["a"]] * PARTITIONS


@pytest.mark.release("three brokers, and sessions that end")
def test_a_silent_transaction_is_aborted_by_who_coordinates_it_now(
    three: Brokers, control: ClusterControl
) -> None:
    name = a_name(control, 3)
    silent = producer(three, name, **{"transaction.timeout.ms": 5000})
    silent.begin_transaction()
    write(silent, "a")
    silent.flush(DEADLINE_S)
    three.stop(3, signal.SIGKILL)
    until_state(control, name, "CompleteAbort")
    assert committed(three) == [[]] * PARTITIONS


@pytest.mark.release("three brokers, and sessions that end")
def test_who_leads_next_knows_what_was_aborted(three: Brokers, control: ClusterControl) -> None:
    one, two = producer(three, "one"), producer(three, "two")
    for number in range(6):
        for each in (one, two):
            each.begin_transaction()
            write(each, f"{number}")
            each.flush(DEADLINE_S)
        one.commit_transaction(DEADLINE_S)
        two.abort_transaction(DEADLINE_S)
    one.begin_transaction()
    write(one, "open")
    one.flush(DEADLINE_S)
    before = [producers_of(three, number) for number in range(PARTITIONS)]
    three.stop(control.leader("t", 0), signal.SIGKILL)
    assert [sorted(producers_of(three, n)) for n in range(PARTITIONS)] == [*map(sorted, before)]
    one.commit_transaction(DEADLINE_S)
    wanted = [f"{number}" for number in range(6)]
    assert committed(three) == [[*wanted, "open"]] * PARTITIONS


@pytest.mark.release("three brokers")
def test_a_deleted_topic_needs_no_marker(three: Brokers) -> None:
    three.create("gone", partitions=PARTITIONS)
    own = producer(three)
    own.begin_transaction()
    write(own, "a")
    for number in range(PARTITIONS):
        own.produce("gone", "a", partition=number)
    own.flush(DEADLINE_S)
    three.delete("gone")
    own.commit_transaction(DEADLINE_S)
    own.begin_transaction()
    write(own, "b")
    own.commit_transaction(DEADLINE_S)
    assert committed(three) == [["a", "b"]] * PARTITIONS


# Groups


def group_elsewhere(control: ClusterControl, coordinator: int) -> str:
    control.coordinator("any", GROUP)
    led = [number for number in range(PARTITIONS)
           if control.leader(OFFSETS, number) != coordinator]  # fmt: skip
    return next(name for name in (f"g{number}" for number in range(100))
                if partition_of(name, PARTITIONS) in led)  # fmt: skip


@pytest.mark.release("three brokers, and sessions that end")
def test_what_was_read_and_what_was_made_of_it_count_together(
    three: Brokers, control: ClusterControl
) -> None:
    """The group's coordinator is another broker than the transaction's, and is killed."""
    three.create("in", partitions=1)
    three.produce("in", [f"{number}" for number in range(60)])
    name = a_name(control, 1)
    group = group_elsewhere(control, 1)
    own = producer(three, name)
    consumer = Consumer({
        "bootstrap.servers": three.bootstrap, "group.id": group, "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "session.timeout.ms": 10_000,
        "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.subscribe(["in"])
    done = 0
    while done < 60:
        if done == 30:
            three.stop(control.coordinator(group, GROUP), signal.SIGKILL)
        messages = [each for each in consumer.consume(10, 5.0) if each.error() is None]
        if not messages:
            continue
        own.begin_transaction()
        for each in messages:
            own.produce("t", each.value(), partition=int(each.value()) % PARTITIONS)
        places = [TopicPartition("in", 0, messages[-1].offset() + 1)]
        own.send_offsets_to_transaction(
            places, consumer.consumer_group_metadata(), DEADLINE_S
        )
        if done % 20 == 10 and messages[0].offset() == done:  # once: read again
            own.abort_transaction(DEADLINE_S)
            consumer.seek(TopicPartition("in", 0, messages[0].offset()))
            done += 1
            own.begin_transaction()
            for each in messages[:1]:
                own.produce("t", each.value(), partition=int(each.value()) % PARTITIONS)
            places = [TopicPartition("in", 0, messages[0].offset() + 1)]
            own.send_offsets_to_transaction(
                places, consumer.consumer_group_metadata(), DEADLINE_S
            )
            own.commit_transaction(DEADLINE_S)
            consumer.seek(TopicPartition("in", 0, messages[0].offset() + 1))
            continue
        own.commit_transaction(DEADLINE_S)
        done = messages[-1].offset() + 1
    (at,) = consumer.committed([TopicPartition("in", 0)], DEADLINE_S)
    assert at.offset == 60
    consumer.close()
    found = committed(three)
    assert sorted(int(each) for own_values in found for each in own_values) == [*range(60)]


@pytest.mark.release("three brokers")
def test_offsets_of_groups_at_two_brokers_end_with_their_markers(
    three: Brokers, control: ClusterControl
) -> None:
    name = a_name(control, 1)
    client = TxnClient(control, name)
    assert until_answered(client.init) == 0
    control.coordinator("any", GROUP)
    names = {partition_of(each, PARTITIONS): each for each in (f"g{n}" for n in range(50))}
    for is_commit, offset in ((True, 3), (False, 5), (True, 7)):
        for group in names.values():
            assert until_answered(partial(client.commit_offset, offset, group)) == 0
        assert until_answered(partial(client.end, is_commit)) == 0
        wanted = offset if is_commit else 3
        for group in names.values():
            assert committed_offset(three, group) == wanted


def committed_offset(cluster: Brokers, group: str, topic: str = "t") -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        (at,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
        return int(at.offset)
    finally:
        consumer.close()


# Apache Kafka's own

COPIES = 2000
COPIER_S = 240.0


@pytest.mark.release("a JVM, three brokers, and sessions that end")
def test_kafkas_copier_copies_each_once_while_brokers_are_killed(
    three: Brokers, control: ClusterControl
) -> None:
    """The Java client speaks KIP-890: leaders add their partitions at the coordinator."""
    for topic in ("in", "out"):
        three.create(topic, partitions=1, min_insync_replicas="2")
        three.until(topic, lambda each: len(each.isrs) == len(ALL))
    three.produce("in", [f"{number}" for number in range(COPIES)])
    words = [
        "--broker-list", three.bootstrap, "--input-topic", "in", "--input-partition", "0",
        "--output-topic", "out", "--transactional-id", "copier", "--consumer-group", "copier",
        "--transaction-size", "20", "--max-messages", str(COPIES), "--enable-random-aborts",
    ]  # fmt: skip
    command = kafka_jars.command("org.apache.kafka.tools.TransactionalMessageCopier", words)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as copier:
        assert copier.stdout is not None
        reader = ThreadPoolExecutor(1).submit(copier.stdout.read)
        try:
            for share, who in (
                (0.2, lambda: control.coordinator("copier")),
                (0.5, lambda: control.leader("out", 0)),
                (0.8, lambda: control.coordinator("copier", GROUP)),
            ):
                end = time.monotonic() + COPIER_S
                while copier.poll() is None and end_of(three, "out") < share * COPIES:
                    assert time.monotonic() < end, f"{end_of(three, 'out')} copies"
                    time.sleep(0.1)
                node = who()
                three.stop(node, signal.SIGKILL)
                three.start(node, **SETTINGS)
            assert copier.wait(COPIER_S) == 0, reader.result(5)
        finally:
            copier.kill()
    assert read(three, 0, "out") == [f"{number}" for number in range(COPIES)]
    assert committed_offset(three, "copier", "in") == COPIES


def end_of(cluster: Brokers, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody"})
    try:
        with suppress(KafkaException):
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 5)[1])
        return 0
    finally:
        consumer.close()


@pytest.mark.release("a JVM and three brokers")
def test_kafkas_tool_lists_describes_and_ends_transactions(
    three: Brokers, tmp_path: Path
) -> None:
    own = producer(three, "one"), producer(three, "two")
    for each in own:
        each.begin_transaction()
        write(each, "a")
        each.flush(DEADLINE_S)
    with closing(KafkaTools(three.bootstrap, tmp_path / "tools")) as tools:
        listed = tools.must("kafka-transactions", "list")
        assert [listed.count(f"{name} ") for name in ("one", "two")] == [1, 1], listed
        told = tools.must("kafka-transactions", "describe", "--transactional-id", "two")
        assert "Ongoing" in told
        assert {f"t-{number}" for number in range(PARTITIONS)} <= {*re.split(r"[\s,]+", told)}
        for number in range(PARTITIONS):
            tools.must("kafka-transactions", "abort", "--topic", "t", "--partition", str(number),
                       "--start-offset", "0")  # fmt: skip
    for number in range(PARTITIONS):
        assert len([each for each in producers_of(three, number) if each[2] >= 0]) == 1


# A history


class Transfers:
    """Moves amounts between accounts, which are partitions: each transfer is a transaction that
    takes from one and gives to another, or does nothing."""

    def __init__(self, cluster: Brokers, name: str, seed: int) -> None:
        self._cluster, self._name = cluster, name
        self._random = random.Random(seed)
        self.committed: set[str] = set()  # transfers of which the client knows it
        self.aborted: set[str] = set()
        self.faults: list[str] = []
        self.is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        own: Producer | None = None
        number = 0
        while not self.is_ending.is_set():
            number += 1
            try:
                own = own or producer(self._cluster, self._name)
                self._one(own, f"{self._name}-{number}")
            except KafkaException as error:
                own = self._after(own, error, f"{self._name}-{number}")

    def _one(self, own: Producer, transfer: str) -> None:
        own.begin_transaction()
        amount = self._random.randrange(1, 100)
        one, two = self._random.sample(range(PARTITIONS), 2)
        own.produce("t", f"{transfer} {-amount}", partition=one)
        own.produce("t", f"{transfer} {amount}", partition=two)
        if self._random.random() < 0.2:
            own.abort_transaction(60)
            self.aborted.add(transfer)
        else:
            own.commit_transaction(60)
            self.committed.add(transfer)

    def _after(
        self, own: Producer | None, error: KafkaException, transfer: str
    ) -> Producer | None:
        """What becomes of this one is not known, unless it was aborted."""
        told = error.args[0]
        if own is not None and told.txn_requires_abort():
            with suppress(KafkaException):
                own.abort_transaction(60)
                self.aborted.add(transfer)
                return own
        if told.code() not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            self.faults.append(str(told))
        return None  # another one aborts what this one left

    def end(self) -> None:
        self.is_ending.set()
        self._thread.join()


@pytest.mark.release("a history of transfers under faults")
def test_totals_balance_whoever_is_killed(three: Brokers) -> None:
    seed = int(os.environ.get("TRANSFERS_SEED", str(random.randrange(1 << 30))))
    print(f"TRANSFERS_SEED={seed}")
    fate = random.Random(seed)
    clerks = [Transfers(three, f"clerk{number}", seed + number) for number in range(3)]
    end = time.monotonic() + SECONDS
    kills = 0
    while time.monotonic() < end:
        time.sleep(fate.uniform(1, 4))
        node = fate.choice(ALL)
        three.stop(node, fate.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        time.sleep(fate.uniform(0, 4))
        three.start(node, **SETTINGS)
        kills += 1
        until_all(three)
    for each in clerks:
        each.end()
    for each in clerks:
        producer(three, each._name)  # what was left open is aborted
    found = committed(three)
    seen: dict[str, list[int]] = {}
    for values in found:
        for value in values:
            transfer, amount = value.split()
            seen.setdefault(transfer, []).append(int(amount))
    assert {name: rows for name, rows in seen.items() if sum(rows) or len(rows) != 2} == {}
    for each in clerks:
        assert each.committed <= seen.keys()
        assert not each.aborted & seen.keys()
    total = sum(len(each.committed) for each in clerks)
    print(f"{total} transfers committed, {sum(len(e.aborted) for e in clerks)} aborted, "
          f"{kills} brokers ended, clients were told {[e.faults for e in clerks]}")  # fmt: skip
    assert total > 0


def until_all(cluster: Brokers) -> None:
    for topic in ("t", TRANSACTIONS):
        for number in range(PARTITIONS):
            cluster.until(topic, lambda each: len(each.isrs) == len(ALL), number)


