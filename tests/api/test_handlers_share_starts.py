"""Where a share group begins, and what moves its start: the log, its coordinator."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from appliance.record import _batch_builder
from tests.support.control import Control
from tests.support.share_client import ACCEPT, REJECT, ShareClient, write, write_many

UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 3, 100
INVALID_RECORD_STATE = 121


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 3)
    return control


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
        log.append_durable(_batch_builder.batch([(now - age_ms, None, b"x")]))
    member = ShareClient(control)
    member.initialize(0, start=-1)
    assert member.acquire() == [(1, 2, 1)]


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
    control.run(control.broker.topics.delete("t"))
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
