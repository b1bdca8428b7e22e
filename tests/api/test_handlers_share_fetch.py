"""ShareFetch over the control plane: what is acquired and sent, of transactions too."""

from __future__ import annotations

import pytest

from tests.support.control import Control
from tests.support.share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    ShareClient,
    other,
    write,
    write_many,
)
from tests.support.txn_client import TxnClient

INVALID_REQUEST = 42
INVALID_RECORD_STATE = 121


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 3)
    return control


# Records


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acquired_and_acknowledged(
    control: Control, member: ShareClient, version: int
) -> None:
    write_many(control, 20)
    got = member.fetch(0, version=version)[0]
    assert got == ([(0, 19, 1)], [f"v{i}" for i in range(20)], 0, 0)
    assert member.acknowledge((0, 19, [ACCEPT]), version=version) == 0
    own = control.broker.share_partitions.states
    assert own.start_offset("g", member.topic_id(), 0) == 20


def test_members_share_a_partition(control: Control, member: ShareClient) -> None:
    write_many(control, 30)
    second = other(control)
    assert member.fetch(0, most=10)[0].values == [f"v{i}" for i in range(10)]
    assert second.fetch(0, most=10)[0].values == [f"v{i}" for i in range(10, 20)]
    assert member.acquire() == [(20, 29, 1)]
    assert second.acquire() == []


def test_only_batches_with_acquired_records_are_sent(
    control: Control, member: ShareClient
) -> None:
    write_many(control, 30)
    assert member.acquire() == [(0, 29, 1)]
    member.acknowledge((0, 4, [RELEASE]), (25, 29, [RELEASE]))
    answer = member.answer()
    (row,) = answer.responses[0].partitions
    whole = control.broker.topics["t"].logs[0].read(0)
    assert [a.first_offset for a in row.acquired_records] == [0, 25]
    assert 0 < len(row.records) < len(whole) * 0.7


def test_acknowledgements_may_ride_along(control: Control, member: ShareClient) -> None:
    write_many(control, 20)
    assert member.acquire(most=10) == [(0, 9, 1)]
    got = member.fetch(acks={0: [(0, 4, [ACCEPT]), (5, 9, [ACCEPT, REJECT, RELEASE] + [1] * 2)]})
    assert got[0].acquired == [(10, 19, 1)]
    assert got[0].acknowledge_error == 0
    assert member.acquire() == [(7, 7, 2)]


def test_a_bad_acknowledgement_does_not_keep_from_fetching(
    control: Control, member: ShareClient
) -> None:
    write_many(control, 20)
    member.acquire(most=10)
    got = member.fetch(acks={0: [(5, 12, [ACCEPT])], 1: [(0, 0, [ACCEPT])]})
    assert got[0].acquired == [(10, 19, 1)]
    assert got[0].acknowledge_error == INVALID_REQUEST
    assert (got[1].acquired, got[1].acknowledge_error) == ([], INVALID_RECORD_STATE)


def test_the_acquire_mode_may_be_strict(control: Control, member: ShareClient) -> None:
    write_many(control, 20)
    assert member.acquire(most=3, is_strict=True) == [(0, 2, 1)]
    assert member.acquire(most=3, is_strict=False) == [(3, 9, 1)]


def test_a_fetch_has_a_limit_of_bytes(control: Control, member: ShareClient) -> None:
    write_many(control, 100)
    size = len(control.broker.topics["t"].logs[0].read(50, 1))
    assert member.acquire(bytes_max=3 * size + 1) == [(0, 29, 1)]
    assert member.acquire(bytes_max=1) == [(30, 39, 1)], "one batch comes whole"
    assert member.acquire(bytes_max=0) == []


def test_every_partition_has_its_turn(control: Control, member: ShareClient) -> None:
    for partition in range(3):
        write_many(control, 40, partition=partition)
    seen = [*member.fetch(0, 1, 2, most=10)]
    for _ in range(5):
        seen += member.fetch(most=10)
    assert sorted(seen) == [0, 0, 1, 1, 2, 2]


def test_large_reads_go_in_steps(control: Control, member: ShareClient) -> None:
    """Several steps, of 64 KiB and more."""
    for i in range(40):
        write(control, *[f"{i:03d}{'x' * 3000}"] * 5)
    got = member.fetch(0, most=150)[0]
    assert got.acquired == [(0, 149, 1)]
    assert [each[:3] for each in got.values[::5]] == [f"{i:03d}" for i in range(30)]


# Transactions


def transactions(control: Control) -> None:
    """0-1 aborted, 3-4 committed, 6 plain, 7 not ended."""
    producer = TxnClient(control)
    assert producer.init() == 0
    producer.write("a", "b")
    assert producer.end(is_commit=False) == 0
    producer.write("c", "d")
    assert producer.end() == 0
    write(control, "e")
    producer.write("f")


def test_without_isolation_everything_but_markers_is_read(
    control: Control, member: ShareClient
) -> None:
    transactions(control)
    got = member.fetch(0)[0]
    assert got.acquired == [(0, 1, 1), (3, 4, 1), (6, 7, 1)]
    assert got.values == [*"abcdef"]


def test_of_committed_records_the_aborted_are_passed_over(
    control: Control, member: ShareClient
) -> None:
    control.run(control.broker.group_configs.set("g", {"share.isolation.level": "read_committed"}))
    transactions(control)
    got = member.fetch(0)[0]
    assert (got.acquired, got.values) == ([(3, 4, 1), (6, 6, 1)], [*"cde"])
    own = control.broker.share_partitions.states
    assert own.start_offset("g", member.topic_id(), 0) == 3
    assert member.acknowledge((3, 4, [ACCEPT]), (6, 6, [ACCEPT])) == 0
    assert own.start_offset("g", member.topic_id(), 0) == 7


def test_a_fetch_waits_for_a_transaction_to_end(control: Control, member: ShareClient) -> None:
    control.run(control.broker.group_configs.set("g", {"share.isolation.level": "read_committed"}))
    producer = TxnClient(control)
    producer.init()
    producer.write("a")
    sent = member.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    assert producer.end() == 0
    assert member.got(sent)[0].values == ["a"]


def test_only_aborted_records_are_nothing_to_wake_for(
    control: Control, member: ShareClient
) -> None:
    control.run(control.broker.group_configs.set("g", {"share.isolation.level": "read_committed"}))
    producer = TxnClient(control)
    producer.init()
    sent = member.send(0, wait_ms=20_000)
    for _ in range(3):
        producer.write("a")
        assert producer.end(is_commit=False) == 0
    assert not control.is_answered(sent)
    write(control, "x")
    assert member.got(sent)[0].values == ["x"]
    own = control.broker.share_partitions.states
    assert own.start_offset("g", member.topic_id(), 0) == 6
