"""Times in a log: the search by time, stamps, and which timestamps are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import ApplianceError, BatchTimestampInvalid
from appliance.record import _batch, _batch_builder
from tests.support.batch_model import resealed
from tests.support.logs import (
    DAY_MS,
    LONG,
    NOW,
    batch,
    end_txn,
    everything,
    log_config,
    one_log,
    opened,
    produced,
)

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
        log.append_durable(_batch_builder.batch(records))
        log.append_durable(batch("b", timestamp=NOW + 50))
        log.delete_before(2)
        assert log.offset_for_timestamp(NOW + 15) == (2, NOW + 20)
        assert log.offset_for_timestamp(NOW + 30) == (4, NOW + 50)


def test_a_search_by_time_looks_inside_a_compressed_batch(tmp_path: Path) -> None:
    with one_log(tmp_path, visibility="appended") as log:
        log.append(batch(*"abcd", step=10, codec="zstd"))
        assert log.offset_for_timestamp(NOW + 15) == (2, NOW + 20)


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
    batch = _batch_builder.batch([(NOW + each, None, b"v") for each in (0, 51, 0)])
    with one_log(tmp_path, message_timestamp_after_max_ms=50) as log:
        with pytest.raises(BatchTimestampInvalid):
            log.append(batch, now_ms=NOW)
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
