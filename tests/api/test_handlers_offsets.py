"""Offsets as clients ask for them: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.api.handlers import delete_records as delete_records_handler
from appliance.api.handlers import list_offsets as list_offsets_handler
from appliance.errors import TimedOut
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.support.control import Control
from tests.support.logs import NOW, batch, end_txn, log_config, produced

NONE = (0, -1, -1)  # no error, no offset, no timestamp


def list_offsets(
    control: Control,
    *timestamps: int,
    version: int = 11,
    topic: str = "t",
    first: int = 0,
    epoch: int = -1,
    isolation: int = 0,
) -> Any:
    """One answer a timestamp, each for a partition of its own from `first` on."""
    rows = [
        ListOffsetsRequest.ListOffsetsPartition(i, epoch, timestamp)
        for i, timestamp in enumerate(timestamps, first)
    ]
    asked = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsRequest.ListOffsetsTopic(topic, rows)],
    )
    (answer,) = control.ask(asked, version).topics
    assert answer.name == topic
    return answer.partitions


def found(control: Control, timestamp: int, **facts: Any) -> tuple[int, int, int]:
    (row,) = list_offsets(control, timestamp, **facts)
    return row.error_code, row.offset, row.timestamp


# ListOffsets


@pytest.mark.parametrize("version", range(1, 12))
def test_the_first_and_the_next_offset(control: Control, version: int) -> None:
    (log,) = control.create("t").logs
    assert found(control, -1, version=version) == (0, 0, -1)
    assert found(control, -2, version=version) == (0, 0, -1)
    log.append_durable(batch("a", "b", "c"))
    assert found(control, -1, version=version) == (0, 3, -1)
    assert found(control, -2, version=version) == (0, 0, -1)
    log.delete_before(2)
    assert found(control, -2, version=version) == (0, 2, -1)
    (row,) = list_offsets(control, -1, version=version)
    assert row.leader_epoch == (0 if version >= 4 else -1)


def test_what_was_written_is_made_durable_and_counts(control: Control) -> None:
    first, second = control.create("t", 2).logs
    for log in (first, second):
        log.append(batch("a", timestamp=NOW + 5))  # as acks=1 leaves it
        assert found(control, -2) == (0, 0, -1)
        assert (log.log_end_offset, log.high_watermark) == (1, 0)
    assert [each.offset for each in list_offsets(control, -1, -1)] == [1, 1]
    assert [log.durable_offset for log in (first, second)] == [1, 1]
    first.append(batch("b", timestamp=NOW + 9))
    assert found(control, NOW + 6) == (0, 1, NOW + 9)
    first.append(batch("c", timestamp=NOW + 10))
    assert found(control, -3) == (0, 2, NOW + 10)


def test_only_what_consumers_may_read_counts(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets_handler, "_commit", lambda jobs, call: None)
    (log,) = control.create("t").logs
    log.append_durable(batch("a"))
    log.append(batch("b", timestamp=NOW + 5))  # no commit yet
    assert (log.log_end_offset, log.high_watermark) == (2, 1)
    assert found(control, -1) == (0, 1, -1)
    assert found(control, NOW + 5) == NONE
    assert found(control, -3) == (0, 0, NOW)


@pytest.mark.parametrize("version", range(1, 12))
def test_the_first_record_of_a_time(control: Control, version: int) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a", "b", "c", timestamp=NOW, step=10))
    log.append_durable(batch("d", timestamp=NOW + 100))
    assert found(control, NOW - 1, version=version) == (0, 0, NOW)
    assert found(control, NOW, version=version) == (0, 0, NOW)
    assert found(control, NOW + 1, version=version) == (0, 1, NOW + 10)
    assert found(control, NOW + 21, version=version) == (0, 3, NOW + 100)
    assert found(control, NOW + 101, version=version) == NONE
    assert found(control, 0, version=version) == (0, 0, NOW)


def test_a_search_in_an_empty_log_finds_nothing(control: Control) -> None:
    control.create("t")
    assert found(control, NOW) == NONE
    assert found(control, -3) == NONE
    (row,) = list_offsets(control, NOW)
    assert row.leader_epoch == -1


@pytest.mark.parametrize("times", [[1, 2, 3], [3, 1, 2], [2, 3, 1], [3, 3, 1], [7, 9_000_000, 8]])
def test_the_record_with_the_largest_timestamp(control: Control, times: list[int]) -> None:
    (log,) = control.create("t").logs
    for each in times:
        log.append_durable(batch("v", timestamp=NOW + each))
    assert found(control, -3) == (0, times.index(max(times)), NOW + max(times))


def test_the_largest_timestamp_is_one_that_consumers_may_read(control: Control) -> None:
    (log,) = control.create("t").logs
    for sequence, each in enumerate((5, 90, 40)):
        log.append_durable(produced(sequence, timestamp=NOW + each, txn=sequence > 0))
    assert found(control, -3) == (0, 1, NOW + 90)
    assert found(control, -3, isolation=1) == (0, 0, NOW + 5)
    assert found(control, -1) == (0, 3, -1)
    assert found(control, -1, isolation=1) == (0, 1, -1)
    assert found(control, NOW + 30, isolation=1) == NONE
    end_txn(log, "commit")
    log.flush()
    assert found(control, -1, isolation=1) == (0, 4, -1)
    assert found(control, NOW + 30, isolation=1) == (0, 1, NOW + 90)


SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99}


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", SINCE)
def test_a_special_timestamp_is_known_from_its_version_on(
    control: Control, timestamp: int, version: int
) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a", "b"))
    log.delete_before(1)
    told = {-1: 2, -2: 1, -3: 1, -4: 1, -5: -1, -6: -1}
    code, offset, _ = found(control, timestamp, version=version)
    if version < SINCE[timestamp]:
        assert (code, offset) == (35, -1)
    else:
        assert (code, offset) == (0, told[timestamp])


def test_each_partition_has_its_own_error(control: Control) -> None:
    control.create("t", 2)
    rows = list_offsets(control, -1, -2, -1)
    assert [(each.partition_index, each.error_code) for each in rows] == [(0, 0), (1, 0), (2, 3)]
    assert [each.error_code for each in list_offsets(control, -1, first=-1)] == [3]
    assert [each.error_code for each in list_offsets(control, -1, topic="missing")] == [3]
    assert [each.offset for each in list_offsets(control, -1, topic="missing")] == [-1]


def test_a_partition_that_is_named_twice_is_refused(control: Control) -> None:
    control.create("t", 2)
    row = ListOffsetsRequest.ListOffsetsPartition
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = ListOffsetsRequest(
        topics=[topic("t", [row(0, -1, -1), row(1, -1, -1)]), topic("t", [row(0, -1, -2)])]
    )
    one, two = control.ask(asked, 5).topics
    assert [each.error_code for each in one.partitions] == [42, 0]
    assert [each.error_code for each in two.partitions] == [42]


@pytest.mark.parametrize("version", range(4, 12))
def test_a_client_with_another_leader_epoch_is_told(control: Control, version: int) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a"), leader_epoch=3)
    assert found(control, -1, epoch=3, version=version) == (0, 1, -1)
    assert found(control, -1, epoch=2, version=version) == (74, -1, -1)
    assert found(control, -1, epoch=4, version=version) == (75, -1, -1)


def test_the_leader_epoch_is_that_of_the_record(control: Control) -> None:
    (log,) = control.create("t").logs
    for epoch in (0, 2, 5):
        log.append_durable(batch("a", "b", timestamp=NOW + epoch), leader_epoch=epoch)
    by_time = [list_offsets(control, NOW + each)[0].leader_epoch for each in (0, 1, 2, 3, 5)]
    assert by_time == [0, 2, 2, 5, 5]
    assert [list_offsets(control, each)[0].leader_epoch for each in (-1, -2)] == [5, 0]
    log.delete_before(3)
    assert list_offsets(control, -2)[0].leader_epoch == 2


# OffsetForLeaderEpoch


def epoch_end(
    control: Control, epoch: int, *, version: int = 4, current: int = -1, topic: str = "t"
) -> tuple[int, int, int]:
    row = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, current, epoch)
    asked = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic, [row])]
    )
    ((answer,),) = [each.partitions for each in control.ask(asked, version).topics]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_where_an_epoch_ends(control: Control, version: int) -> None:
    (log,) = control.create("t").logs
    assert epoch_end(control, 0, version=version) == (0, 0, 0)
    for epoch in (0, 2, 5):
        log.append_durable(batch("a", "b"), leader_epoch=epoch)
    ends = [epoch_end(control, each, version=version) for each in (0, 1, 2, 3, 5, 6, -1)]
    assert ends == [
        (0, 0, 2),
        (0, 0, 2),
        (0, 2, 4),
        (0, 2, 4),
        (0, 5, 6),
        (0, -1, -1),
        (0, -1, -1),
    ]


def test_an_epoch_before_all_that_is_left_ended_at_the_start(control: Control) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a"), leader_epoch=4)
    assert epoch_end(control, 1) == (0, 1, 0)


def test_an_epoch_that_the_leader_has_not_heard_of_is_no_loss(control: Control) -> None:
    log = control.create("t").log(0)
    log.append_durable(batch("a"), leader_epoch=0)
    assert epoch_end(control, 1) == (0, -1, -1)  # alone: what it had may be gone
    log.lead(3, 1, [2], [2], 1)
    assert epoch_end(control, 3) == (0, 3, 1)
    assert epoch_end(control, 4) == (75, -1, -1)


def test_an_epochs_end_is_told_to_whom_it_concerns(control: Control) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a"), leader_epoch=3)
    assert epoch_end(control, 3, current=3) == (0, 3, 1)
    assert epoch_end(control, 3, current=2) == (74, -1, -1)
    assert epoch_end(control, 3, current=4) == (75, -1, -1)
    assert epoch_end(control, 0, topic="missing") == (3, -1, -1)


# DeleteRecords


def delete_records(
    control: Control,
    offset: int,
    *,
    version: int = 2,
    topic: str = "t",
    partition: int = 0,
    timeout_ms: int = 5000,
) -> tuple[int, int]:
    row = DeleteRecordsRequest.DeleteRecordsPartition(partition, offset)
    named = DeleteRecordsRequest.DeleteRecordsTopic(topic, [row])
    asked = DeleteRecordsRequest(topics=[named], timeout_ms=timeout_ms)
    ((answer,),) = [each.partitions for each in control.ask(asked, version).topics]
    assert answer.partition_index == partition
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset(control: Control, version: int) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a", "b", "c"))
    assert delete_records(control, 2, version=version) == (0, 2)
    assert log.log_start_offset == 2
    assert delete_records(control, 1, version=version) == (0, 2)
    assert delete_records(control, -1, version=version) == (0, 3)
    assert delete_records(control, 4, version=version) == (1, -1)
    assert delete_records(control, -2, version=version) == (1, -1)
    assert delete_records(control, 0, version=version, topic="missing") == (3, -1)
    assert delete_records(control, 0, version=version, partition=1) == (3, -1)


@pytest.mark.parametrize("offset", [2, -1])
def test_what_was_acknowledged_can_be_deleted(control: Control, offset: int) -> None:
    (log,) = control.create("t").logs
    log.append(batch("a", "b"))  # as acks=1 leaves it
    assert log.high_watermark == 0
    assert delete_records(control, offset) == (0, 2)


def test_a_deletion_waits_for_the_disk_no_longer_than_the_client_does(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def never_durable(log: Log, seconds: float) -> None:
        waits.append(seconds)
        raise TimedOut("the disk sleeps")

    (log,) = control.create("t").logs
    log.append(batch("a"))
    monkeypatch.setattr(delete_records_handler, "_make_durable", never_durable)
    assert delete_records(control, 1, timeout_ms=2000) == (7, -1)
    assert 0 < waits[0] <= 2
    assert delete_records(control, 0) == (0, 0), "which needs no waiting"
    assert len(waits) == 1


def test_who_asks_behind_a_deletion_finds_the_new_starts(control: Control) -> None:
    """On one connection, without waiting for the answer, as librdkafka's admin client can."""
    logs = control.create("t", 5).logs
    for log in logs:
        log.append_durable(batch("a", "b", "c"))
    deleted = [DeleteRecordsRequest.DeleteRecordsPartition(each, 2) for each in range(5)]
    asked = [ListOffsetsRequest.ListOffsetsPartition(each, -1, -2) for each in range(5)]
    control.send(
        DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic("t", deleted)]), version=2
    )
    sent = control.send(
        ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic("t", asked)]), version=11
    )
    (answer,) = control.answer(sent).topics
    assert [each.offset for each in answer.partitions] == [2, 2, 2, 2, 2]


def test_records_of_a_compacted_topic_stand_for_a_state(control: Control) -> None:
    control.create("compacted", cleanup_policy="compact")
    control.create("both", cleanup_policy="compact,delete")
    assert delete_records(control, 0, topic="compacted") == (44, -1)
    assert delete_records(control, 0, topic="both") == (0, 0)


def test_records_of_internal_topics_stay(control: Control) -> None:
    control.run(control.broker.group_places.make_offsets_topic())
    assert delete_records(control, 0, topic="__consumer_offsets") == (17, -1)


def test_a_log_of_many_segments_is_searched(tmp_path: Path) -> None:
    control = Control(tmp_path, log_config(segment_bytes=200))
    (log,) = control.create("t").logs
    for each in range(30):
        log.append_durable(batch("v" * 50, timestamp=NOW + 10 * each))
    assert len(log.segments()) > 5
    assert found(control, NOW + 195) == (0, 20, NOW + 200)
    assert found(control, -3) == (0, 29, NOW + 290)
    control.close()


# Replicas


@pytest.mark.parametrize(("version", "code"), [(4, 5), (5, 78), (11, 78)])
def test_the_end_is_told_when_the_replicas_have_told_theirs(
    control: Control, version: int, code: int
) -> None:
    (log,) = control.create("t").logs
    log.append_durable(batch("a", timestamp=NOW))
    log.lead(1, 1, [2], [2], 1)
    assert found(control, -1, version=version) == (code, -1, -1)
    assert found(control, NOW, version=version) == (code, -1, -1)
    assert found(control, -2, version=version) == (0, 0, -1)
    log.fetched_by(2, 1, 1, 1)
    assert found(control, -1, version=version) == (0, 1, -1)
    assert found(control, NOW, version=version) == (0, 0, NOW)
    log.append(batch("b", timestamp=NOW + 1))
    assert found(control, -1, version=version) == (0, 1, -1)
    assert found(control, NOW + 1, version=version) == NONE


@pytest.mark.parametrize("asked", [-1, -3, NOW])
def test_the_only_replica_tells_what_was_written_before(control: Control, asked: int) -> None:
    """As one box does: after acks=1 nothing has made it durable yet."""
    (log,) = control.create("t").logs
    log.lead(1, 1, [], [], 1)
    log.append(batch("a", timestamp=NOW))
    assert log.high_watermark == 0
    wanted = {-1: (0, 1, -1)}.get(asked, (0, 0, NOW))
    assert found(control, asked) == wanted


def test_a_leader_makes_its_own_durable_and_waits_for_nobody_else(control: Control) -> None:
    (log,) = control.create("t").logs
    log.lead(1, 1, [2], [2], 1)
    log.append(batch("a", timestamp=NOW))
    assert found(control, -1) == (0, 0, -1)
    assert log.durable_offset == 1
    log.fetched_by(2, 1, 1, 1)
    assert found(control, -1) == (0, 1, -1)


def test_offsets_of_a_partition_are_its_leaders(control: Control) -> None:
    (log,) = control.create("t").logs
    log.follow(1, 2)
    for timestamp in (-1, -2, NOW):
        assert found(control, timestamp) == (6, -1, -1)
