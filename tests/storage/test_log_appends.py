"""What a log refuses to append, and the leader epochs of what it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import (
    ApplianceError,
    BatchCorrupt,
    BatchInvalid,
    BatchLargerThanSegment,
    BatchTooLarge,
    BatchTorn,
    LeaderEpochOld,
    LogClosed,
)
from appliance.record import _batch, _batch_builder
from tests.support.batch_model import resealed
from tests.support.logs import NOW, batch, log_config, one_log, opened, produced, values

# The caller's buffer


def test_append_in_place_stamps_the_callers_buffer(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        buffer = bytearray(batch("b"))
        log.append_in_place(buffer, leader_epoch=5)
        info = _batch.headers(buffer)[0]
        assert (info.base_offset, info.leader_epoch) == (1, 5)
        assert log.read(1, up_to="end") == buffer


def test_append_leaves_the_callers_bytes_alone(tmp_path: Path) -> None:
    with one_log(tmp_path, message_timestamp_type="LogAppendTime") as log:
        data = batch("a")
        kept = bytes(bytearray(data))
        log.append(batch("x"))
        log.append(data, now_ms=NOW + 5)
        assert data == kept


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_can_be_appended(kind: type, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(kind(batch("a")))
        assert values(log.read(0, up_to="end")) == ["a"]


# Leader epochs


def test_each_epoch_ends_where_the_next_begins(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for epoch, count in ((2, 3), (2, 1), (5, 2), (9, 1)):
            log.append(batch(*"x" * count), leader_epoch=epoch)
        found = [log.end_offset_for_epoch(epoch) for epoch in (1, 2, 3, 5, 8, 9)]
        assert found == [(-1, -1), (2, 4), (2, 4), (5, 6), (5, 6), (9, 7)]
        assert log.leader_epoch == 9


def test_an_older_epoch_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"), leader_epoch=4)
        with pytest.raises(LeaderEpochOld):
            log.append(batch("b"), leader_epoch=3)
        assert (log.log_end_offset, log.leader_epoch) == (1, 4)
        log.append(batch("c"))
        assert [each.leader_epoch for each in _batch.headers(log.read(0, up_to="end"))] == [4, 4]


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
def test_epochs_survive_a_reopen(cleanly: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for epoch in (1, 4):
            log.append_durable(batch("a", "b"), leader_epoch=epoch)
            log_dir.checkpoint()
        log.append_durable(batch("c"), leader_epoch=6)
        if not cleanly:
            log_dir.abandon()
    with one_log(tmp_path) as log:
        assert [log.end_offset_for_epoch(each) for each in (1, 4, 6)] == [(1, 2), (4, 4), (6, 5)]
        # After an unclean end a consumer may have seen more than is left: a new epoch tells it.
        assert log.leader_epoch == (6 if cleanly else 7)


# Refusals


def test_a_batch_above_max_message_bytes_is_refused(tmp_path: Path) -> None:
    size = len(batch("a" * 100))
    with one_log(tmp_path, max_message_bytes=size) as log:
        log.append(batch("a" * 100))
        with pytest.raises(BatchTooLarge, match=f"batch of {size + 1} bytes"):
            log.append(batch("a" * 101))
        assert log.log_end_offset == 1


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    size = len(batch("a" * 100))
    with one_log(tmp_path, segment_bytes=size) as log:
        log.append(batch("a" * 100))
        with pytest.raises(BatchLargerThanSegment):
            log.append(batch("a" * 101))
        assert (log.log_end_offset, len(log.segments())) == (1, 1)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", BatchTorn),
        (batch("a")[:-1], BatchTorn),
        (batch("a") + b"x", BatchInvalid),
        (batch("a") + batch("b"), BatchInvalid),
        (batch("a")[:-1] + b"x", BatchCorrupt),
        (resealed(batch("a"), attributes=0x20), BatchInvalid),
        (_batch_builder.control_batch("commit", 7, 0, 0, NOW), BatchInvalid),
    ],
    ids=["empty", "cut", "a byte more", "two", "a flipped byte", "control bit", "a marker"],
)
def test_what_is_not_one_good_batch_of_a_client_is_refused(
    data: bytes, error: type[ApplianceError], tmp_path: Path
) -> None:
    with one_log(tmp_path) as log:
        with pytest.raises(error, match=f"t-0: batch of {len(data)} bytes"):
            log.append(data)
        assert (log.log_end_offset, log.size) == (0, 0)


def test_a_refusal_names_what_the_header_says(tmp_path: Path) -> None:
    with one_log(tmp_path, max_message_bytes=61) as log:
        data = produced(12, 3, pid=99, epoch=4)
        with pytest.raises(BatchTooLarge) as error:
            log.append(data)
        for fact in (f"{len(data)} bytes", "3 records", "producer 99", "epoch 4", "sequence 12"):
            assert fact in str(error.value)


def test_a_closed_log_takes_no_append(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        log_dir.delete("t", 0)
        with pytest.raises(LogClosed):
            log.append(batch("b"))
        with pytest.raises(LogClosed):
            log.roll()
