"""What a share group did is on disk before it is told, and is known after a restart."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from appliance.config import ShareStateConfig
from appliance.errors import StorageFull
from appliance.record import _batch
from appliance.topics.internal_topic import InternalTopic, Write
from appliance.topics.topic import SHARE_STATE
from tests.support.control import Control
from tests.support.share_client import ACCEPT, REJECT, RELEASE, ShareClient, write_many

COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR = 15, 56


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 3)
    return control


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

    def fail(self: InternalTopic) -> None:
        raise StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_hand_over", fail)
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

    def fail(self: InternalTopic) -> None:
        raise StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "_hand_over", fail)
        assert member.fetch(0)[0].error == KAFKA_STORAGE_ERROR
    assert control.broker.share_partitions.states.start_offset("g", member.topic_id(), 0) == -1
    assert member.acquire() == []
    assert control.broker.share_partitions.states.start_offset("g", member.topic_id(), 0) == 10


def test_where_a_group_begins_is_written_for_all_partitions_together(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = ShareClient(control)
    member.initialize(0, 1, 2, start=-1)
    write, begin = InternalTopic.write, InternalTopic._begin
    asked: list[Write] = []
    waiting: list[asyncio.Future[None]] = []
    all_asked = asyncio.Event()

    def counted(self: InternalTopic, wanted: Write) -> None:
        asked.append(wanted)
        if len(asked) == 3:
            all_asked.set()
        write(self, wanted)

    async def begin_then(topic: InternalTopic) -> None:
        await all_asked.wait()
        begin(topic)

    def held(self: InternalTopic) -> None:
        """No write comes to its end before all have been asked for."""
        waiting.append(asyncio.ensure_future(begin_then(self)))

    with monkeypatch.context() as patch:
        patch.setattr(InternalTopic, "write", counted)
        patch.setattr(InternalTopic, "_begin", held)
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
