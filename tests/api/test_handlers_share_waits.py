"""A ShareFetch that finds nothing waits, and is woken."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.record import _batch_builder
from tests.support.control import Control
from tests.support.share_client import ACCEPT, RELEASE, RENEW, ShareClient, other, write, write_many

INVALID_REQUEST = 42
INVALID_RECORD_STATE = 121


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 3)
    return control


def opened_again(control: Control) -> None:
    """Partition 0, as after a disk that failed and is well again."""
    control.run(control.broker.reopening.reopen("t", 0))


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
    control.broker.topics["t"].logs[0].append(_batch_builder.batch([(1, None, value.encode())]))


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
