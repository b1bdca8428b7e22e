"""Transactions whose coordinator, partitions and groups are on different brokers, which are killed:
what was decided comes to its end on all of them, and nothing else does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.topics.internal_topic import partition_of
from appliance.topics.topic import OFFSETS, TRANSACTIONS
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.cluster_control import GROUP, ClusterControl, until_answered
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers
from tests.support.transactions_of_three import (
    ALL,
    PARTITIONS,
    SETTINGS,
    committed,
    committed_offset,
    make_topic,
    producer,
    producers_of,
    three_brokers,
    write,
)  # fmt: skip
from tests.support.txn_client import TxnClient


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    with three_brokers(server, request.node.name, tmp_path) as found:
        yield found


@pytest.fixture
def control(three: Brokers) -> Iterator[ClusterControl]:
    found = ClusterControl(three)
    yield found
    found.close()


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
