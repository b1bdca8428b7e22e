"""ShareFetch and ShareAcknowledge over the control plane."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from appliance.config import ShareGroupsConfig, ShareStateConfig
from appliance.errors import StorageFull
from appliance.record import _batch, _build
from appliance.topics.internal_topic import InternalTopic, Write
from appliance.topics.topic import SHARE_STATE
from tests.support.control import Control
from tests.support.share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    ShareClient,
    write,
    write_many,
)
from tests.support.txn_client import TxnClient

INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 42, 3, 100
INVALID_RECORD_STATE, SESSION_NOT_FOUND, INVALID_EPOCH = 121, 122, 123
COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, SESSION_LIMIT_REACHED = 15, 56, 133


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    found = Control(tmp_path)
    found.create("t", 3)
    yield found
    found.close()


@pytest.fixture
def member(control: Control) -> ShareClient:
    found = ShareClient(control)
    found.initialize(0, 1, 2)
    return found


def other(control: Control, name: str = "b") -> ShareClient:
    return ShareClient(control, name, connection=2)


def opened_again(control: Control) -> None:
    """Partition 0, as after a disk that failed and is well again."""
    control.run(control.broker.reopening.reopen("t", 0))


async def stop_waiting(control: Control) -> None:
    control.dispatcher.stop_waiting()


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


# Waiting


def test_a_fetch_waits_for_new_records(control: Control, member: ShareClient) -> None:
    sent = member.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    write(control, "x")
    assert member.got(sent)[0].values == ["x"]


def test_a_waiting_fetch_hastens_the_disk(control: Control, member: ShareClient) -> None:
    """Records that are appended and not durable are not visible; nobody else asks for the flush."""
    log = control.broker.topics["t"].logs[0]
    sent = member.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    write_without_waiting(control, "x")
    assert member.got(sent)[0].values == ["x"]
    sent = member.send(wait_ms=20_000)
    assert not control.is_answered(sent)
    assert log.high_watermark == 1


def write_without_waiting(control: Control, value: str) -> None:
    control.broker.topics["t"].logs[0].append(_build.batch([(1, None, value.encode())]))


def test_a_fetch_that_found_nothing_is_answered_in_time(
    control: Control, member: ShareClient
) -> None:
    assert member.fetch(0, wait_ms=50) == {}


def test_a_fetch_waits_for_enough_bytes(control: Control, member: ShareClient) -> None:
    write(control, "x")
    size = len(control.broker.topics["t"].logs[0].read(0))
    sent = member.send(0, wait_ms=20_000, bytes_min=size + 1)
    assert not control.is_answered(sent)
    write(control, "y")
    assert member.got(sent)[0].values == ["x", "y"]
    write(control, "z")
    assert member.fetch(wait_ms=50, bytes_min=1 << 20)[0].values == ["z"]


def test_one_fetch_of_a_member_waits_at_a_time(control: Control, member: ShareClient) -> None:
    first = member.send(0, wait_ms=20_000)
    assert not control.is_answered(first)
    second = member.send(wait_ms=20_000)
    assert member.got(first) == {}
    assert not control.is_answered(second)
    write(control, "x")
    assert member.got(second)[0].values == ["x"]


def test_what_is_released_wakes_who_waits(control: Control, member: ShareClient) -> None:
    write_many(control, 10)
    member.acquire()
    second = other(control)
    sent = second.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    assert member.acknowledge((3, 5, [RELEASE])) == 0
    assert second.got(sent)[0].acquired == [(3, 5, 2)]


def test_of_many_that_wait_each_gets_something(control: Control, member: ShareClient) -> None:
    members = [ShareClient(control, f"m{i}", connection=i) for i in range(10)]
    sent = [each.send(0, most=10, wait_ms=20_000) for each in members]
    assert not any(control.is_answered(each) for each in sent)
    write_many(control, 100)
    got = [each.got(one)[0].acquired for each, one in zip(members, sent, strict=True)]
    assert sorted(row for each in got for row in each) == [(i, i + 9, 1) for i in range(0, 100, 10)]


def test_locks_time_out_and_wake_who_waits(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t")
    control.run(control.broker.group_configs.set("g", {"share.record.lock.duration.ms": "1000"}))
    member, second = ShareClient(control), other(control)
    member.initialize(0)
    write_many(control, 10)
    answer = member.answer(0)
    assert answer.acquisition_lock_timeout_ms == 1000
    assert second.fetch(0, wait_ms=20_000)[0].acquired == [(0, 9, 2)]
    assert member.acknowledge((0, 9, [ACCEPT])) == INVALID_RECORD_STATE
    control.close()


def test_a_lock_is_renewed(control: Control, member: ShareClient) -> None:
    write_many(control, 10)
    member.acquire()
    assert member.acknowledge((0, 9, [RENEW])) == INVALID_REQUEST
    assert member.acknowledge((0, 9, [RENEW]), is_renew=True) == 0
    got = member.fetch(
        acks={0: [(0, 4, [RENEW]), (5, 9, [ACCEPT])]}, is_renew=True, most=0, bytes_min=0,
        bytes_max=0,
    )  # fmt: skip
    assert (got[0].acquired, got[0].acknowledge_error) == ([], 0)
    answer = member.answer(acks={0: [(0, 4, [RENEW])]}, is_renew=True)
    assert answer.error_code == INVALID_REQUEST
    assert "min_bytes 1" in answer.error_message


# Sessions


def test_a_session_remembers_its_partitions(control: Control, member: ShareClient) -> None:
    write(control, "x", partition=1)
    assert member.fetch(0) == {}
    assert [*member.fetch(1)] == [1]
    write(control, "y", partition=0)
    write(control, "z", partition=1)
    assert [*member.fetch(forgotten=(1,))] == [0]
    write(control, "z", partition=1)
    assert member.fetch() == {}


@pytest.mark.parametrize("epoch", [5, 2, 2**31 - 1, -2])
def test_a_request_out_of_order_is_refused(
    control: Control, member: ShareClient, epoch: int
) -> None:
    member.fetch(0)
    assert member.answer(epoch=epoch).error_code == INVALID_EPOCH
    assert member.acknowledge((0, 0, [ACCEPT]), epoch=epoch) == INVALID_EPOCH


def test_without_a_session_there_is_nothing_to_go_on_with(
    control: Control, member: ShareClient
) -> None:
    for epoch in (1, -1):
        assert member.answer(0, epoch=epoch).error_code == SESSION_NOT_FOUND
        assert member.acknowledge((0, 0, [ACCEPT]), epoch=epoch) == SESSION_NOT_FOUND
    assert member.acknowledge((0, 0, [ACCEPT]), epoch=0) == INVALID_EPOCH


def test_a_session_does_not_begin_with_acknowledgements(
    control: Control, member: ShareClient
) -> None:
    answer = member.answer(acks={0: [(0, 0, [ACCEPT])]})
    assert answer.error_code == INVALID_REQUEST


@pytest.mark.parametrize("how", ["fetch", "acknowledge"])
def test_the_end_of_a_session_gives_back_what_it_had(
    control: Control, member: ShareClient, how: str
) -> None:
    write_many(control, 20)
    member.acquire()
    acks = (0, 4, [ACCEPT])
    if how == "fetch":
        assert member.fetch(acks={0: [acks]}, epoch=-1)[0].acknowledge_error == 0
    else:
        assert member.acknowledge(acks, epoch=-1) == 0
    assert other(control).acquire() == [(5, 19, 2)]
    assert member.answer(epoch=-1).error_code == SESSION_NOT_FOUND


def test_the_end_of_a_connection_gives_back_what_it_had(
    control: Control, member: ShareClient
) -> None:
    write_many(control, 10)
    member.acquire()
    second = other(control)
    sent = second.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    control.queue.hang_up(member.connection)
    assert second.got(sent)[0].acquired == [(0, 9, 2)]


def test_who_waits_on_a_connection_that_ended_acquires_nothing(
    control: Control, member: ShareClient
) -> None:
    sent = member.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    control.queue.hang_up(member.connection)
    assert not control.is_answered(sent)
    write_many(control, 10)
    assert other(control).acquire() == [(0, 9, 1)]


def test_a_member_that_is_gone_gives_back_what_it_had(
    control: Control, member: ShareClient
) -> None:
    write_many(control, 10)
    member.acquire()

    async def leave() -> None:
        control.broker.share_partitions.member_gone("g", "a")

    control.run(leave())
    assert other(control).acquire() == [(0, 9, 2)]
    assert member.answer().error_code == SESSION_NOT_FOUND


def test_sessions_are_limited(tmp_path: Path) -> None:
    """Who is refused waits first as it would for records, so that it does not ask all the time."""
    control = Control(tmp_path, share_groups=ShareGroupsConfig(max_share_sessions=1))
    control.create("t")
    member, second = ShareClient(control), other(control)
    member.fetch(0)
    sent = second.send(0, wait_ms=200)
    assert not control.is_answered(sent)
    assert control.answer(sent).error_code == SESSION_LIMIT_REACHED
    assert second.send(0, wait_ms=2**31 - 1)
    assert member.answer(epoch=-1).error_code == 0
    control.run(stop_waiting(control))
    control.close()


def test_who_waits_is_answered_when_the_broker_stops(
    control: Control, member: ShareClient
) -> None:
    sent = member.send(0, wait_ms=2**31 - 1)
    assert not control.is_answered(sent)
    control.run(stop_waiting(control))
    assert control.answer(sent).responses == []


# Requests that cannot be


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_a_member_has_an_id(control: Control, member_id: str) -> None:
    client = ShareClient(control, member_id)
    assert client.answer(0).error_code == INVALID_REQUEST
    assert client.acknowledge((0, 0, [ACCEPT])) == INVALID_REQUEST


def test_a_request_names_its_group(control: Control) -> None:
    assert ShareClient(control, group="").answer(0).error_code == INVALID_REQUEST


def test_partitions_that_are_not_there_say_so(control: Control, member: ShareClient) -> None:
    write(control, "x")
    answer = member.answer(0, 7)
    (row,) = answer.responses
    found = {each.partition_index: each.error_code for each in row.partitions}
    assert found == {7: UNKNOWN_TOPIC_OR_PARTITION, 0: 0}
    rows = member.answer(0, topic_id=UUID(int=99)).responses
    (row,) = [each for each in rows if each.topic_id == UUID(int=99)]
    assert [each.error_code for each in row.partitions] == [UNKNOWN_TOPIC_ID]
    stranger = ShareClient(control, group="other")
    assert stranger.fetch(0)[0].error == UNKNOWN_TOPIC_OR_PARTITION, "it was not initialized"


@pytest.mark.parametrize(
    "acks",
    [
        [(4, 3, [ACCEPT])],
        [(0, 4, [ACCEPT]), (4, 9, [ACCEPT])],
        [(5, 9, [ACCEPT]), (0, 4, [ACCEPT])],
        [(0, 9, [])],
        [(0, 9, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(-1, 0, [ACCEPT])],
        [(0, 2**63 - 1, [ACCEPT])],
    ],
)
def test_a_malformed_acknowledgement_changes_nothing(
    control: Control, member: ShareClient, acks: list[tuple[int, int, list[int]]]
) -> None:
    write_many(control, 10)
    member.acquire()
    assert member.acknowledge(*acks) == INVALID_REQUEST
    assert member.acknowledge((0, 9, [ACCEPT])) == 0


# Where a group begins


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("latest", 20), ("by_duration:PT1H", 20)]
)
def test_a_group_begins_where_it_says(control: Control, reset: str, first: int) -> None:
    control.run(control.broker.group_configs.set("g", {"share.auto.offset.reset": reset}))
    member = ShareClient(control)
    member.initialize(0, start=-1)
    own = control.broker.share_partitions.states
    assert own.start_offset("g", member.topic_id(), 0) == -1
    write_many(control, 20)  # years ago
    member.acquire()
    assert own.start_offset("g", member.topic_id(), 0) == first


def test_records_of_the_last_hour_are_read(control: Control) -> None:
    control.run(
        control.broker.group_configs.set("g", {"share.auto.offset.reset": "by_duration:PT1H"})
    )
    log, now = control.broker.topics["t"].logs[0], time.time_ns() // 1_000_000
    for age_ms in (7_200_000, 1_800_000, 0):
        log.append_durable(_build.batch([(now - age_ms, None, b"x")]))
    member = ShareClient(control)
    member.initialize(0, start=-1)
    assert member.acquire() == [(1, 2, 1)]


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


# The log


def test_a_log_that_begins_later_moves_the_group(control: Control, member: ShareClient) -> None:
    write_many(control, 30)
    member.acquire(most=10)
    log = control.broker.topics["t"].logs[0]
    log.delete_before(25)
    assert member.acquire(wait_ms=1000) == [(25, 29, 1)]
    assert member.acknowledge((0, 9, [ACCEPT])) == 0, "they are gone"
    assert member.acknowledge((25, 29, [ACCEPT])) == 0


def test_a_log_that_ends_sooner_moves_the_group(tmp_path: Path) -> None:
    """As one does that was damaged: what comes next has offsets that were done once."""
    control = Control(tmp_path)
    control.create("t")
    member = ShareClient(control)
    member.initialize(0)
    write_many(control, 20)
    member.acquire()
    assert member.acknowledge((0, 19, [ACCEPT])) == 0
    control.broker.topics["t"].logs[0].truncate(10)
    assert member.acquire(wait_ms=50) == []
    write(control, "new")
    assert member.acquire() == [(10, 10, 1)]
    own = control.broker.share_partitions.states
    assert own.start_offset("g", member.topic_id(), 0) == 10
    control.kill()
    control = Control(tmp_path)
    topic_id = control.broker.topics["t"].id
    assert control.broker.share_partitions.states.start_offset("g", topic_id, 0) == 10
    control.close()


def test_a_topic_that_is_deleted_is_forgotten(control: Control, member: ShareClient) -> None:
    topic_id = member.topic_id()
    sent = member.send(0, wait_ms=20_000)
    assert not control.is_answered(sent)
    control.run(control.broker.delete_topic("t"))
    (row,) = control.answer(sent).responses
    assert row.partitions[0].error_code in (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)
    assert control.broker.share_partitions.states.start_offset("g", topic_id, 0) is None


# What a group's coordinator asks


def test_a_start_is_set(control: Control, member: ShareClient) -> None:
    write_many(control, 30)
    member.acquire()
    own = control.broker.share_partitions.states
    control.run(own.set_start_offset("g", member.topic_id(), 0, 1, 12))
    assert own.start_offset("g", member.topic_id(), 0) == 12
    assert own.delivery_complete_count("g", member.topic_id(), 0) == 0
    assert member.acknowledge((20, 29, [ACCEPT])) == INVALID_RECORD_STATE
    assert member.acquire() == [(12, 29, 1)]


def test_a_share_partition_is_deleted(control: Control, member: ShareClient) -> None:
    own = control.broker.share_partitions.states
    member.acquire()
    control.run(own.delete("g", member.topic_id(), 0))
    control.run(own.delete("g", member.topic_id(), 0))
    assert own.start_offset("g", member.topic_id(), 0) is None
    assert own.delivery_complete_count("g", member.topic_id(), 0) == -1
    assert member.fetch()[0].error == UNKNOWN_TOPIC_OR_PARTITION


def test_what_is_done_past_the_start_is_counted(control: Control, member: ShareClient) -> None:
    write_many(control, 20)
    member.acquire()
    member.acknowledge((5, 9, [ACCEPT]), (12, 12, [REJECT]))
    own = control.broker.share_partitions.states
    assert own.delivery_complete_count("g", member.topic_id(), 0) == 6


# A restart


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_acknowledged_stays_so(tmp_path: Path, is_killed: bool) -> None:
    control = Control(tmp_path)
    control.create("t")
    member = ShareClient(control)
    member.initialize(0)
    write_many(control, 30)
    member.acquire()
    assert member.acknowledge((0, 4, [ACCEPT]), (10, 14, [RELEASE]), (20, 24, [REJECT])) == 0
    (control.kill if is_killed else control.close)()
    control = Control(tmp_path)
    again = ShareClient(control, "b")
    assert again.acquire() == [(5, 9, 1), (10, 14, 2), (15, 19, 1), (25, 29, 1)]
    control.close()


# The disk


def test_an_acknowledgement_that_cannot_be_written_is_told_and_does_not_count(
    control: Control, member: ShareClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_many(control, 10)
    member.acquire()

    async def fail(self: InternalTopic, writes: list[Any]) -> None:
        for each in writes:
            each.error = StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_write_some", fail)
        assert member.acknowledge((0, 9, [ACCEPT])) == COORDINATOR_NOT_AVAILABLE
    own = control.broker.share_partitions.states
    assert own.start_offset("g", member.topic_id(), 0) == 0
    assert member.acknowledge((0, 9, [ACCEPT])) == 0
    assert own.start_offset("g", member.topic_id(), 0) == 10


def test_where_a_group_begins_must_be_written_before_it_reads(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = ShareClient(control)
    member.initialize(0, start=-1)
    write_many(control, 10)

    async def fail(self: InternalTopic, writes: list[Any]) -> None:
        for each in writes:
            each.error = StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_write_some", fail)
        assert member.fetch(0)[0].error == KAFKA_STORAGE_ERROR
    assert control.broker.share_partitions.states.start_offset("g", member.topic_id(), 0) == -1
    assert member.acquire() == []
    assert control.broker.share_partitions.states.start_offset("g", member.topic_id(), 0) == 10


def test_where_a_group_begins_is_written_for_all_partitions_together(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = ShareClient(control)
    member.initialize(0, 1, 2, start=-1)
    write, write_some = InternalTopic.write, InternalTopic._write_some
    asked: list[Write] = []
    all_asked = asyncio.Event()

    def counted(self: InternalTopic, wanted: Write) -> None:
        asked.append(wanted)
        if len(asked) == 3:
            all_asked.set()
        write(self, wanted)

    async def held(self: InternalTopic, writes: list[Write]) -> None:
        """No write comes to its end before all have been asked for."""
        await all_asked.wait()
        await write_some(self, writes)

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "write", counted)
        patch.setattr(InternalTopic, "_write_some", held)
        member.fetch(0, 1, 2)
    assert len(asked) == 3


def test_acknowledgements_of_many_share_records(control: Control, member: ShareClient) -> None:
    """What comes while the disk is busy becomes one record of the share partition."""
    write_many(control, 50, batch=1)
    members = [ShareClient(control, f"m{i}", connection=i) for i in range(50)]
    for each in members:
        each.acquire(most=1)
    log = control.broker.topics[SHARE_STATE].logs[0]
    before = log.log_end_offset
    sent = [each.send_acks((i, i, [ACCEPT])) for i, each in enumerate(members)]
    assert [control.answer(each).responses[0].partitions[0].error_code for each in sent] == [0] * 50
    assert log.log_end_offset - before <= 5


def test_a_share_partition_is_written_anew_after_many_changes(tmp_path: Path) -> None:
    control = Control(tmp_path, share_state=ShareStateConfig(updates_per_snapshot=3))
    control.create("t")
    member = ShareClient(control)
    member.initialize(0)
    write_many(control, 100)
    member.acquire()
    for i in range(10):
        assert member.acknowledge((2 * i + 1, 2 * i + 1, [ACCEPT])) == 0
    log = control.broker.topics[SHARE_STATE].logs[0]
    kinds = [each.key[1] for each in _batch.records(log.read(0, 1 << 20, "end")) if each.key]
    assert kinds == [0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1]
    control.run(control.broker.share_partitions.states.prune())
    assert log.log_start_offset == 8
    control.kill()
    control = Control(tmp_path)
    own, topic_id = control.broker.share_partitions.states, control.broker.topics["t"].id
    assert own.delivery_complete_count("g", topic_id, 0) == 10
    control.close()


def test_what_seldom_changes_does_not_keep_the_rest(tmp_path: Path) -> None:
    config = ShareStateConfig(cold_interval_ms=1, updates_per_snapshot=2)
    control = Control(tmp_path, share_state=config)
    control.create("t", 2)
    member = ShareClient(control)
    member.initialize(0, 1)
    write_many(control, 20)
    member.acquire()
    own = control.broker.share_partitions.states
    control.run(own.prune())
    log = control.broker.topics[SHARE_STATE].logs[0]
    assert (log.log_start_offset, log.log_end_offset) == (0, 2), "all of it counts"
    for i in range(9):
        assert member.acknowledge((2 * i + 1, 2 * i + 1, [ACCEPT])) == 0
    end = log.log_end_offset
    control.run(asyncio.sleep(0.01))
    control.run(own.prune())
    assert log.log_start_offset == end, "nothing but two new snapshots"
    assert log.log_end_offset == end + 2
    control.kill()
    control = Control(tmp_path)
    own, topic_id = control.broker.share_partitions.states, control.broker.topics["t"].id
    assert [own.start_offset("g", topic_id, i) for i in range(2)] == [0, 0]
    assert own.delivery_complete_count("g", topic_id, 0) == 9
    control.close()


def test_a_topic_that_went_while_nobody_wrote_it_down_is_forgotten(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.create("t")
    ShareClient(control).initialize(0)
    topic_id = control.broker.topics["t"].id
    control.run(control.broker.topics.delete("t"))
    control.kill()
    control = Control(tmp_path)
    own, end = control.broker.share_partitions.states, time.monotonic() + 20
    while own.start_offset("g", topic_id, 0) is not None:
        assert time.monotonic() < end
        control.run(asyncio.sleep(0.01))
    control.close()


def test_the_state_topic_is_the_brokers_own(control: Control, member: ShareClient) -> None:
    topic = control.broker.topics[SHARE_STATE]
    assert topic.is_internal
    assert topic.configs["cleanup.policy"] == "delete"


# A partition that is opened again


def test_a_group_reads_on_from_a_log_that_was_opened_again(
    control: Control, member: ShareClient
) -> None:
    write(control, "a")
    assert member.acquire() == [(0, 0, 1)]
    opened_again(control)
    assert member.acknowledge((0, 0, [ACCEPT])) == 0  # what it had is still its own
    write(control, "b")
    assert member.fetch()[0] == ([(1, 1, 1)], ["b"], 0, 0)


def test_who_waits_at_a_log_that_is_opened_again_is_woken_by_the_next_who_comes(
    control: Control, member: ShareClient
) -> None:
    waiting = member.send(0, wait_ms=30_000)
    assert not control.is_answered(waiting)
    opened_again(control)
    next_one = other(control)
    next_one.fetch(0)
    write(control, "a")
    assert member.got(waiting)[0].values == ["a"]
