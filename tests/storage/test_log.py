"""Append, read, roll, epochs, timestamps, durability of one log that nothing bad happens to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import (
    ApplianceError,
    BatchCorrupt,
    BatchInvalid,
    BatchLargerThanSegment,
    BatchTimestampInvalid,
    BatchTooLarge,
    BatchTorn,
    LeaderEpochOld,
    LogClosed,
    OffsetOutOfRange,
    TimedOut,
)
from appliance.record import _batch, _batch_check, _build
from tests.support.batch_model import resealed
from tests.support.logs import (
    DAY_MS,
    LONG,
    NOW,
    bases,
    batch,
    end_txn,
    everything,
    log_config,
    one_log,
    opened,
    produced,
    segment_bases,
    split,
    until,
    values,
)

# Reading


def test_a_batch_comes_back_stamped_and_otherwise_as_it_was(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a", "b"), leader_epoch=3)
        appended = log.append(batch("c", codec="lz4"), leader_epoch=3)
        assert appended == (2, 2, -1, False)
        wanted = bytearray(batch("c", codec="lz4"))
        _batch_check.stamp(wanted, 2, 3)
        assert log.read(2, up_to="end") == wanted
        assert values(log.read(0, up_to="end")) == ["a", "b", "c"]


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


def test_reading_starts_with_the_whole_batch_that_holds_the_offset(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for i in range(4):
            log.append(batch(*[f"{i}.{j}" for j in range(5)]))
        found = {offset: bases(log.read(offset, up_to="end")) for offset in (0, 4, 5, 7, 9, 19)}
    whole = [0, 5, 10, 15]
    assert found == {0: whole, 4: whole, 5: whole[1:], 7: whole[1:], 9: whole[1:], 19: [15]}


@pytest.mark.parametrize("max_bytes", [0, 1, 60, 61])
def test_the_first_batch_is_whole_however_small_the_limit(max_bytes: int, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a" * 500))
        log.append(batch("b"))
        assert values(log.read(0, max_bytes, "end")) == ["a" * 500]


def test_only_whole_batches_are_read_below_the_limit(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for name in "abc":
            log.append(batch(name))
        size = log.size // 3
        counts = [len(bases(log.read(0, size * 2 + more, "end"))) for more in (-1, 0, 1, size)]
        assert counts == [1, 2, 2, 3]


def test_a_read_stops_at_the_end_of_a_segment_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for i in range(6):
            log.append(batch(str(i)))
            if i % 2:
                log.roll()
        assert bases(log.read(0, up_to="end")) == [0, 1]
        assert bases(log.read(2, up_to="end")) == [2, 3]
        assert values(everything(log)) == list("012345")


def test_every_offset_is_found_through_a_dense_and_a_sparse_index(tmp_path: Path) -> None:
    for interval in (0, 500, 1 << 20):
        with one_log(tmp_path / str(interval), index_interval_bytes=interval) as log:
            for i in range(200):
                log.append(batch(*[f"{i}.{j}" for j in range(1 + i % 4)]))
            ends = [info.last_offset for info in _batch.headers(log.read(0, 1 << 20, "end"))]
            first = 0
            for end in ends:
                for offset in range(first, end + 1):
                    assert bases(log.read(offset, 1, "end")) == [first]
                first = end + 1


def test_reading_at_the_end_is_empty(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        assert log.read(0) == b""
        log.append_durable(batch("a"))
        assert log.read(1) == log.read(1, up_to="end") == log.read(1, up_to="stable") == b""


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [(-1, "offset -1"), (3, "offset 3"), (16, "offset 16"), (LONG, f"offset {LONG}")],
)
def test_out_of_range_is_refused_with_the_numbers(offset: int, wanted: str, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for _ in range(3):
            log.append_durable(batch(*"abcde"))
        log.delete_before(4)
        for read in (log.read, log.slice):
            with pytest.raises(OffsetOutOfRange) as error:
                read(offset)
            assert all(each in str(error.value) for each in (wanted, "start 4", "end 15", "t-0"))


# Limits


def test_consumers_see_what_is_durable_and_replicas_all(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a"))
        log.append(batch("b"))
        limits = (log.durable_offset, log.high_watermark, log.last_stable_offset)
        assert (*limits, log.log_end_offset) == (1, 1, 1, 2)
        assert (log.read(1), log.read(1, up_to="stable")) == (b"", b"")
        assert values(log.read(0)) == ["a"]
        assert values(log.read(1, up_to="end")) == ["b"]
        log.flush()
        assert values(log.read(0)) == values(log.read(0, up_to="stable")) == ["a", "b"]


def test_with_visibility_appended_consumers_see_what_is_written(tmp_path: Path) -> None:
    with one_log(tmp_path, visibility="appended") as log:
        log.append(batch("a"))
        assert (log.durable_offset, log.high_watermark, log.last_stable_offset) == (0, 1, 1)
        assert values(log.read(0)) == ["a"]


def test_visibility_can_be_changed_while_the_log_is_open(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        assert log.read(0) == b""
        log.configure(log_config(visibility="appended"))
        assert values(log.read(0)) == ["a"]


def test_a_transaction_is_hidden_from_stable_reads_until_it_ends(tmp_path: Path) -> None:
    with one_log(tmp_path, visibility="appended") as log:
        log.append(batch("a"))
        log.append(produced(0, txn=True))
        log.append(batch("b"))
        assert (log.last_stable_offset, log.high_watermark) == (1, 3)
        assert values(log.read(0, up_to="stable")) == ["a"]
        assert log.read(2, up_to="stable") == b""
        end_txn(log, "commit")
        assert log.last_stable_offset == 4
        assert values(log.read(0, up_to="stable")) == ["a", "7.0.0", "b"]


def test_a_batch_that_straddles_the_limit_is_not_shown(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a", "b"))
        log.append(batch("c", "d", "e"))
        assert bases(log.read(0)) == [0]
        assert log.slice(0).size == len(batch("a", "b"))


# Rolls


def test_a_segment_is_rolled_before_it_would_grow_beyond_its_size(tmp_path: Path) -> None:
    size = len(batch("a"))
    with one_log(tmp_path, segment_bytes=3 * size) as log:
        for _ in range(7):
            log.append(batch("a"))
        assert segment_bases(log) == [0, 3, 6]
        assert [segment.size for segment in log.segments()] == [3 * size, 3 * size, size]


def test_a_segment_is_rolled_when_its_records_span_too_much_time(tmp_path: Path) -> None:
    with one_log(tmp_path, segment_ms=1000) as log:
        for timestamp in (0, 1000, 1001, 2001, 2002):
            log.append(batch("a", timestamp=NOW + timestamp), now_ms=NOW)
        assert segment_bases(log) == [0, 2, 4]


def test_a_segment_is_rolled_when_it_is_too_old_whatever_its_records_say(tmp_path: Path) -> None:
    with one_log(tmp_path, segment_ms=1000) as log:
        for elapsed in (0, 1000, 1001, 1002, 2002):
            log.append(batch("a", timestamp=NOW), now_ms=NOW + elapsed)
        assert segment_bases(log) == [0, 2, 4]


def test_the_age_of_a_segment_survives_a_reopen(tmp_path: Path) -> None:
    for cleanly in (True, False):
        path = tmp_path / str(cleanly)
        with opened(path, segment_ms=1000) as log_dir:
            log = log_dir.create("t", 0, log_config(segment_ms=1000))
            log.append_durable(batch("a"), now_ms=NOW)
            log_dir.checkpoint()
            if not cleanly:
                log_dir.abandon()
        with one_log(path, segment_ms=1000) as log:
            log.append(batch("b"), now_ms=NOW + 1000)
            log.append(batch("c"), now_ms=NOW + 1001)
            assert segment_bases(log) == [0, 2], cleanly


def test_a_segment_is_rolled_when_its_offset_index_is_full(tmp_path: Path) -> None:
    given = {"segment_index_bytes": 80, "index_interval_bytes": 0}
    with one_log(tmp_path, **given) as log:
        for _ in range(40):
            log.append(batch("a"))
        folder = Path(log.segments()[0].path).parent
        assert len(log.segments()) > 2
        assert values(everything(log)) == ["a"] * 40
    sizes = [path.stat().st_size for path in folder.glob("*.index")]
    assert max(sizes) <= 80
    assert max(path.stat().st_size for path in folder.glob("*.timeindex")) <= 80


def test_a_segment_is_rolled_when_its_time_index_is_full(tmp_path: Path) -> None:
    with one_log(tmp_path, segment_index_bytes=96, index_interval_bytes=0) as log:
        for i in range(60):
            log.append(batch("a", timestamp=NOW + i))
        folder = Path(log.segments()[0].path).parent
        assert len(log.segments()) > 2
    assert max(path.stat().st_size for path in folder.glob("*.timeindex")) <= 96


def test_a_segment_is_rolled_before_an_offset_leaves_31_bits(tmp_path: Path) -> None:
    """A compacted batch may span any number of offsets; here a directory begins with such a one."""
    folder = tmp_path / "t-0"
    folder.mkdir(parents=True)
    span = (1 << 31) - 3
    sparse = resealed(batch("a", "b"), last_offset_delta=span)
    (folder / f"{0:020d}.log").write_bytes(sparse)
    with one_log(tmp_path) as log:
        assert log.log_end_offset == span + 1
        log.append(batch("c"))
        log.append(batch("d"))
        log.append(batch("e", "f"))
        assert segment_bases(log) == [0, span + 3]
        assert values(everything(log)) == list("abcdef")


def test_a_roll_by_hand_begins_a_segment_and_an_empty_one_is_not_rolled(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.roll()
        log.append(batch("a"))
        log.roll()
        log.roll()
        assert segment_bases(log) == [0, 1]
        first, second = log.segments()
        assert (first.end_offset, second.end_offset, second.size) == (1, 1, 0)
        assert Path(first.path).stat().st_size == first.size


# Search by time


def test_the_first_record_at_or_after_a_time_is_found(tmp_path: Path) -> None:
    with one_log(tmp_path, index_interval_bytes=0, visibility="appended") as log:
        for i in range(12):
            log.append(batch("a", "b", timestamp=NOW + 20 * i, step=10))
            if i % 5 == 4:
                log.roll()
        for i in range(24):
            assert log.offset_for_timestamp(NOW + 10 * i) == (i, NOW + 10 * i)
            assert log.offset_for_timestamp(NOW + 10 * i - 9) == (i, NOW + 10 * i)
        assert log.offset_for_timestamp(0) == (0, NOW)
        assert log.offset_for_timestamp(NOW + 231) is None


def test_records_that_go_back_in_time_are_found_at_their_first(tmp_path: Path) -> None:
    times = [50, 10, 90, 20, 90, 30]
    with one_log(tmp_path, index_interval_bytes=0, visibility="appended") as log:
        for each in times:
            log.append(batch("a", timestamp=NOW + each))
        found = [log.offset_for_timestamp(NOW + each) for each in (10, 51, 90, 91)]
    assert found == [(0, NOW + 50), (2, NOW + 90), (2, NOW + 90), None]


def test_a_search_by_time_sees_no_further_than_its_reader(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a", timestamp=NOW))
        log.append(batch("b", timestamp=NOW + 10))
        assert log.offset_for_timestamp(NOW + 10) is None
        assert log.offset_for_timestamp(NOW + 10, up_to="end") == (1, NOW + 10)


def test_a_search_by_time_skips_records_below_the_log_start(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        records = [(NOW + each, b"k", b"v") for each in (10, 40, 20, 20)]
        log.append_durable(_build.batch(records))
        log.append_durable(batch("b", timestamp=NOW + 50))
        log.delete_before(2)
        assert log.offset_for_timestamp(NOW + 15) == (2, NOW + 20)
        assert log.offset_for_timestamp(NOW + 30) == (4, NOW + 50)


def test_a_search_by_time_looks_inside_a_compressed_batch(tmp_path: Path) -> None:
    with one_log(tmp_path, visibility="appended") as log:
        log.append(batch(*"abcd", step=10, codec="zstd"))
        assert log.offset_for_timestamp(NOW + 15) == (2, NOW + 20)


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


# Timestamps


def test_log_append_time_stamps_every_record_with_the_clock_of_the_log(tmp_path: Path) -> None:
    with one_log(tmp_path, message_timestamp_type="LogAppendTime") as log:
        appended = log.append(batch("a", "b", timestamp=5, step=1, codec="gzip"), now_ms=NOW)
        assert appended.append_time == NOW
        data = log.read(0, up_to="end")
        info = _batch.headers(data)[0]
        assert info.is_append_time
        assert [record.timestamp for record in _batch.records(data)] == [NOW, NOW]
        assert log.segments()[0].largest_timestamp == NOW
        assert log.offset_for_timestamp(NOW, "end") == (0, NOW)


def test_log_append_time_leaves_markers_as_they_are(tmp_path: Path) -> None:
    with one_log(tmp_path, message_timestamp_type="LogAppendTime") as log:
        log.append(produced(0, txn=True), now_ms=NOW + 7)
        end_txn(log, "commit")
        info = _batch.headers(log.read(1, up_to="end"))[0]
        assert (info.is_append_time, info.max_timestamp) == (False, NOW)


@pytest.mark.parametrize(
    ("timestamp", "is_legal"),
    [(NOW + 50, True), (NOW + 51, False), (NOW - 100, True), (NOW - 101, False), (-1, True)],
)
def test_timestamps_are_refused_outside_the_limits(
    timestamp: int, is_legal: bool, tmp_path: Path
) -> None:
    given = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 50}
    with one_log(tmp_path, **given) as log:
        if is_legal:
            log.append(batch("a", timestamp=timestamp), now_ms=NOW)
        else:
            with pytest.raises(BatchTimestampInvalid):
                log.append(batch("a", timestamp=timestamp), now_ms=NOW)
        assert log.log_end_offset == int(is_legal)


def test_no_record_of_a_batch_may_lie_in_the_future(tmp_path: Path) -> None:
    with one_log(tmp_path, message_timestamp_after_max_ms=50) as log:
        with pytest.raises(BatchTimestampInvalid):
            log.append(_build.batch([(NOW + each, None, b"v") for each in (0, 51, 0)]), now_ms=NOW)
        assert log.log_end_offset == 0


@pytest.mark.parametrize("timestamp", [LONG, -LONG - 1])
def test_extreme_timestamps_do_not_wrap_around(timestamp: int, tmp_path: Path) -> None:
    given = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 50}
    with one_log(tmp_path, **given) as log:
        data = resealed(batch("a"), base_timestamp=timestamp, max_timestamp=timestamp)
        with pytest.raises(ApplianceError):
            log.append(data, now_ms=NOW)
        assert log.log_end_offset == 0


def test_a_header_cannot_claim_a_time_that_no_record_has(tmp_path: Path) -> None:
    """Its CRC is right: the client computes it. A lie would keep the segment for centuries."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(resealed(batch("a", timestamp=NOW), max_timestamp=NOW + 1000 * DAY_MS))
        assert log.segments()[0].largest_timestamp == NOW
        log_dir.abandon()
    with one_log(tmp_path) as log:
        log.append(batch("b", timestamp=NOW + 1))
        assert log.segments()[0].largest_timestamp == NOW + 1
        assert [info.max_timestamp for info in _batch.headers(b"".join(everything(log)))] == [
            NOW,
            NOW + 1,
        ]


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
        (_build.control_batch("commit", 7, 0, 0, NOW), BatchInvalid),
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


# Durability


def test_await_durable_returns_when_it_is(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        log.append(batch("b"))
        log.await_durable(0)
        assert log.durable_offset >= 1
        log.await_durable(1)
        assert log.durable_offset == 2


def test_awaiting_what_was_never_appended_times_out_with_the_numbers(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a"))
        with pytest.raises(TimedOut, match=r"offset 7 .* 0\.02 s.* up to 1, log end 1"):
            log.await_durable(7, timeout_s=0.02)


def test_the_age_of_unflushed_records_counts_from_the_oldest(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        assert log.unflushed_age_ms == 0
        log.append(batch("a"))
        until(lambda: log.unflushed_age_ms >= 20)
        log.append(batch("b"))
        assert log.unflushed_age_ms >= 20
        log.flush()
        assert log.unflushed_age_ms == 0


def test_after_m_records_a_log_is_committed_by_itself(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_messages=5) as log:
        log.append(batch("a", "b"))
        log.append(batch("c", "d"))
        assert log.durable_offset == 0
        log.append(batch("e"))
        until(lambda: log.durable_offset == 5)
        log.append(batch("f"))
        assert log.durable_offset == 5


def test_after_s_milliseconds_a_log_is_committed_by_itself(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=30) as log:
        for _ in range(3):
            log.append(batch("a"))
            until(lambda: log.durable_offset == log.log_end_offset)
            assert log.unflushed_age_ms == 0


def test_the_time_counts_from_the_oldest_record_while_others_follow(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=50) as log:
        log.append(batch("a"))
        ages = []

        def appended_until_durable() -> bool:
            ages.append(log.unflushed_age_ms)
            log.append(batch("b"))
            return log.durable_offset > 0

        until(appended_until_durable)
        assert max(ages) >= 30


def test_an_idle_log_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(flush_ms=DAY_MS))
        log.append(batch("a"))
        log_dir.poll_space()
        before = log_dir.counters()
        until(lambda: log.unflushed_age_ms >= 50)
        assert (log.durable_offset, log_dir.counters()) == (0, before)


# Slices


def content(found: Any) -> bytes:
    return os.pread(found.fd, found.size, found.position)


def test_a_slice_is_the_bytes_that_a_read_returns(tmp_path: Path) -> None:
    with one_log(tmp_path, index_interval_bytes=0) as log:
        for i in range(10):
            log.append(batch(str(i)))
        for offset in range(10):
            assert content(log.slice(offset, up_to="end")) == log.read(offset, up_to="end")
        empty = log.slice(10, up_to="end")
        assert (empty.size, empty.fd) == (0, -1)


def test_a_slice_stays_valid_while_its_segment_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        log.roll()
        log.append_durable(batch("b"))
        log_dir.checkpoint()
        held, wanted = log.slice(0), log.read(0)
        log.delete_before(1)
        assert not Path(log.segments()[0].path).with_name(f"{0:020d}.log").exists()
        assert content(held) == wanted
        log_dir.delete("t", 0)
        assert content(held) == wanted


@pytest.mark.parametrize("offset", [0, 3, 4])
def test_a_slice_stays_valid_while_the_log_is_truncated(offset: int, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for name in "abcdef":
            log.append_durable(batch(name))
            if name == "c":
                log.roll()
        held = [(log.slice(at), log.read(at)) for at in range(6)]
        log.truncate(offset)
        for _ in range(6):
            log.append_durable(batch("z" * 50))
        assert [content(found) == wanted for found, wanted in held] == [True] * 6


def test_a_slice_stays_valid_after_its_log_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        held, wanted = log.slice(0), log.read(0)
    del log, log_dir
    assert content(held) == wanted


def test_a_reader_opens_again_the_files_that_were_let_go(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(index_interval_bytes=0))
        for i in range(6):
            log.append_durable(batch(str(i)))
            log.roll()
        log_dir.checkpoint()
        open_before = len(os.listdir("/proc/self/fd"))
        log.rest(0)
        assert len(os.listdir("/proc/self/fd")) <= open_before - 5
        assert values(everything(log)) == list("012345")
        assert split(log.read(3)) == [log.read(3)]
