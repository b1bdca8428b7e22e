"""Compaction: what stays, what goes and when; offsets, sequences and readers do not notice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, BatchCorrupt, BatchInvalid, SequenceOutOfOrder
from appliance.record import _batch, _build
from tests.support.batch_model import read_client_batch, resealed
from tests.support.compaction_model import batches, pairs, shown
from tests.support.logs import (
    DAY_MS,
    LONG,
    NOW,
    end_txn,
    everything,
    log_config,
    opened,
    produced,
    reopened,
    segment_bases,
    values,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS = 3_600_000
LATER = NOW + HOUR_MS


def settings(**given: Any) -> dict[str, Any]:
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0, "segment_bytes": 4096}
    return {**eager, **given}


@contextmanager
def compacted(path: Path, **given: Any) -> Iterator[tuple[LogDir, Log]]:
    with opened(path, **settings(**given)) as log_dir:
        log = log_dir.logs().get(("t", 0))
        yield log_dir, log or log_dir.create("t", 0, log_config(**settings(**given)))


def put(log: Log, text: str, timestamp: int = NOW, **given: Any) -> int:
    """The text "a=1 b=2 c" is one batch of two values and a tombstone. Its base offset."""
    fields = [each.partition("=") for each in text.split()]
    records = [
        (timestamp, key.encode(), value.encode() if sign else None) for key, sign, value in fields
    ]
    return log.append(_build.batch(records, **given)).base_offset


def settle(log_dir: LogDir, log: Log) -> None:
    """All so far is in sealed segments, durable, and recovery would begin after it."""
    log.roll()
    log.flush()
    log_dir.checkpoint()


def cleaned(log_dir: LogDir, log: Log, now_ms: int = LATER, **given: Any) -> bool:
    settle(log_dir, log)
    return log.compact(now_ms, **given)


def files(log: Log) -> set[str]:
    return set(os.listdir(Path(log.segments()[0].path).parent))


# What stays


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_record_of_each_key_stays_where_it_was(codec: str, tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1 b=1 c=1", codec=codec)
        put(log, "b=2 d=1", codec=codec)
        put(log, "a=2 b=3 b=4", codec=codec)
        assert cleaned(log_dir, log)
        assert pairs(log) == [(2, "c", "1"), (4, "d", "1"), (5, "a", "2"), (7, "b", "4")]
        assert [(info.base_offset, info.last_offset) for info in batches(log)] == [
            (0, 2),
            (3, 4),
            (5, 7),
        ]
        assert {info.codec for info in batches(log)} == {CODECS.index(codec)}
        assert (log.log_start_offset, log.log_end_offset) == (0, 8)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_which_all_stays_is_copied_byte_for_byte(codec: str, tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "x=1")
        put(log, "a=1 b=1", codec=codec)
        put(log, "x=2")
        before = everything(log)
        assert cleaned(log_dir, log)
        assert everything(log) == before[1:]


def test_headers_and_timestamps_of_a_rewritten_batch_stay(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        records = [
            (NOW + 50, b"a", b"1", [("h", b"x"), ("h", None)]),
            (NOW + 90, b"b", b"1"),
            (NOW - 70, b"c", b"1", [("", b"")]),
        ]
        log.append(_build.batch(records, base_timestamp=NOW))
        put(log, "b=2")
        assert cleaned(log_dir, log)
        first, third = shown(log)[:2]
        assert (first.timestamp, first.headers) == (NOW + 50, (("h", b"x"), ("h", None)))
        assert (third.offset, third.timestamp, third.headers) == (2, NOW - 70, (("", b""),))
        assert batches(log)[0].max_timestamp == NOW + 50


def test_append_time_of_a_rewritten_batch_stays(tmp_path: Path) -> None:
    with compacted(tmp_path, message_timestamp_type="LogAppendTime") as (log_dir, log):
        data = _build.batch([(NOW, b"a", b"1"), (NOW, b"b", None)])
        log.append(data, now_ms=NOW + 5)
        log.append(_build.batch([(NOW, b"a", b"2")]), now_ms=NOW + 6)
        assert cleaned(log_dir, log)
        assert [record.timestamp for record in shown(log)] == [NOW + 5, NOW + 6]
        assert batches(log)[0].max_timestamp == NOW + 5


def test_a_rewritten_batch_is_sound_for_another_reader(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1 b=1 a=2", leader_epoch=4)
        assert cleaned(log_dir, log)
        model_input = bytearray(everything(log)[0])
        assert _batch.headers(model_input)[0].records_count == 2
        with pytest.raises(Exception, match="offset"):
            read_client_batch(bytes(model_input))  # whole and summed right, but with a gap


def test_the_active_segment_is_left_alone(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1")
        put(log, "a=2")
        log.flush()
        log_dir.checkpoint()
        assert not log.compact(LATER)
        settle(log_dir, log)
        put(log, "a=3")
        log.flush()
        assert log.compact(LATER)
        assert pairs(log) == [(1, "a", "2"), (2, "a", "3")]


def test_what_is_not_durable_is_left_alone(tmp_path: Path) -> None:
    with compacted(tmp_path) as (_, log):
        put(log, "a=1")
        put(log, "a=2")
        log.roll()
        assert not log.compact(LATER)


def test_a_record_without_a_key_is_refused_and_an_old_one_dropped(tmp_path: Path) -> None:
    keyless = [(NOW, None, b"x"), (NOW, b"a", b"1")]
    with compacted(tmp_path, cleanup_policy="delete") as (_, log):
        log.append(_build.batch(keyless))
    with compacted(tmp_path) as (log_dir, log):
        for codec in CODECS:
            with pytest.raises(BatchInvalid):
                log.append(_build.batch(keyless, codec=codec))
            with pytest.raises(BatchInvalid):
                log.append_in_place(bytearray(_build.batch(keyless, codec=codec)))
        put(log, "b=1", codec="zstd")
        assert cleaned(log_dir, log)
        assert pairs(log) == [(1, "a", "1"), (2, "b", "1")]


# When


def test_the_dirty_ratio_is_a_strict_limit(tmp_path: Path) -> None:
    with compacted(tmp_path, min_cleanable_dirty_ratio=0.5) as (log_dir, log):
        put(log, "a=1")
        assert cleaned(log_dir, log)
        put(log, "a=2")
        assert not cleaned(log_dir, log)  # as many dirty bytes as clean ones
        put(log, "a=3 b=3")
        assert cleaned(log_dir, log)
        assert pairs(log) == [(2, "a", "3"), (3, "b", "3")]
        assert not log.compact(LATER)


def test_a_record_younger_than_the_minimal_lag_holds_back_all_after_it(tmp_path: Path) -> None:
    with compacted(tmp_path, min_compaction_lag_ms=1000) as (log_dir, log):
        put(log, "a=1 a=2", timestamp=NOW)
        settle(log_dir, log)
        put(log, "a=3 b=1", timestamp=NOW + 5000)
        settle(log_dir, log)
        put(log, "b=2", timestamp=NOW)
        settle(log_dir, log)
        assert log.compact(NOW + 5500)
        assert pairs(log)[0] == (1, "a", "2")
        assert log.compact(NOW + 6000)
        assert pairs(log) == [(2, "a", "3"), (4, "b", "2")]


def test_a_record_older_than_the_maximal_lag_makes_the_log_due(tmp_path: Path) -> None:
    given = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    with compacted(tmp_path, **given) as (log_dir, log):
        put(log, "a=1 a=2", timestamp=NOW)
        settle(log_dir, log)
        assert not log.compact(NOW + 1000)
        assert log.compact(NOW + 1001)
        assert not log.compact(NOW + 1001)


def test_the_maximal_lag_seals_a_segment_that_nobody_writes_to(tmp_path: Path) -> None:
    given = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    with compacted(tmp_path, **given) as (log_dir, log):
        put(log, "a=1 a=2", timestamp=NOW)
        log.compact(NOW + 1000)
        assert len(log.segments()) == 1
        log.compact(NOW + 1001)
        assert len(log.segments()) == 2
        log.flush()
        log_dir.checkpoint()
        assert log.compact(NOW + 1001)
        assert pairs(log) == [(1, "a", "2")]


def test_a_log_without_the_policy_is_never_compacted(tmp_path: Path) -> None:
    with compacted(tmp_path, cleanup_policy="delete") as (log_dir, log):
        put(log, "a=1 a=2")
        assert not cleaned(log_dir, log)
        assert pairs(log) == [(0, "a", "1"), (1, "a", "2")]


def test_how_far_it_came_is_known_after_a_restart(tmp_path: Path) -> None:
    with compacted(tmp_path, min_cleanable_dirty_ratio=0.5) as (log_dir, log):
        put(log, "a=1 b=1 c=1")
        put(log, "a=2")
        assert cleaned(log_dir, log)
    with compacted(tmp_path, min_cleanable_dirty_ratio=0.5) as (log_dir, log):
        put(log, "a=3")
        assert not cleaned(log_dir, log)


# Tombstones


def test_a_tombstone_goes_in_a_later_round_and_only_after_its_horizon(tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=1000) as (log_dir, log):
        put(log, "a=1 b=1")
        put(log, "a")
        assert cleaned(log_dir, log, LATER)
        assert pairs(log) == [(1, "b", "1"), (2, "a", None)]
        assert batches(log)[1].delete_horizon_ms == LATER + 1000
        assert [record.timestamp for record in shown(log)] == [NOW, NOW]
        put(log, "x=1")
        assert cleaned(log_dir, log, LATER + 999)
        assert (2, "a", None) in pairs(log)
        assert batches(log)[1].delete_horizon_ms == LATER + 1000
        put(log, "x=2")
        assert cleaned(log_dir, log, LATER + 1000)
        assert pairs(log) == [(1, "b", "1"), (4, "x", "2")]


@pytest.mark.parametrize("codec", CODECS)
def test_a_horizon_leaves_timestamps_as_they_were(codec: str, tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=DAY_MS) as (log_dir, log):
        stamps = [0, NOW, NOW + 7, 1]
        records = [(stamp, b"%d" % i, None) for i, stamp in enumerate(stamps)]
        log.append(_build.batch(records, codec=codec))
        assert cleaned(log_dir, log)
        assert [record.timestamp for record in shown(log)] == stamps
        assert batches(log)[0].max_timestamp == NOW + 7


def test_a_horizon_beyond_the_end_of_time_is_none(tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=LONG) as (log_dir, log):
        put(log, "a")
        assert cleaned(log_dir, log)
        assert batches(log)[0].delete_horizon_ms == LONG


def test_time_is_not_taken_from_the_file(tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=1000) as (log_dir, log):
        put(log, "a=1 a")
        assert cleaned(log_dir, log, LATER)
        os.utime(log.segments()[0].path, (0, 0))
        put(log, "x=1")
        assert cleaned(log_dir, log, LATER + 1)
        assert (1, "a", None) in pairs(log)


# Producers


def test_a_producer_is_still_recognised_after_compaction_and_restart(tmp_path: Path) -> None:
    for cleanly in (True, False):
        path = tmp_path / str(cleanly)
        log_dir = LogDir.open(path)
        log = log_dir.create("t", 0, log_config(**settings()))
        first = log.append(produced(0, 3))
        last = log.append(produced(3, 2))
        put(log, "k=2")
        assert cleaned(log_dir, log)
        kept = batches(log)[0]
        assert (kept.base_offset, kept.last_offset, kept.records_count) == (3, 4, 0)
        assert (kept.producer_id, kept.base_sequence, kept.size) == (7, 3, 61)
        log_dir = reopened(log_dir, cleanly, **settings())
        log = log_dir.log("t", 0)
        again = log.append(produced(3, 2))
        assert again.duplicate
        assert again.base_offset == last.base_offset == first.last_offset + 1
        with pytest.raises(SequenceOutOfOrder):
            log.append(produced(6))
        assert not log.append(produced(5)).duplicate
        log_dir.close()


def test_the_header_of_a_producers_last_batch_goes_when_it_wrote_again(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        log.append(produced(0))
        put(log, "k=2")
        assert cleaned(log_dir, log)
        assert [info.base_offset for info in batches(log)] == [0, 1]
        log.append(produced(1))
        put(log, "k=3")
        assert cleaned(log_dir, log)
        assert [(info.base_offset, info.records_count) for info in batches(log)] == [(2, 0), (3, 1)]


def test_the_last_offset_of_a_round_stays_visible(tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=0) as (log_dir, log):
        put(log, "a=1")
        put(log, "a")
        assert cleaned(log_dir, log)
        put(log, "b")
        assert cleaned(log_dir, log)
        assert [(info.last_offset, info.records_count) for info in batches(log)] == [(2, 1)]


# Transactions


def transaction(log: Log, text: str, sequence: int, kind: str, pid: int = 9) -> int:
    """A transaction of one batch; the offset of its marker."""
    producer = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequence}
    put(log, text, transactional=True, **producer)
    return end_txn(log, kind, pid)


def markers(log: Log) -> list[int]:
    return [info.base_offset for info in batches(log) if info.is_control and info.records_count]


def test_aborted_data_neither_stays_nor_replaces_anything(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1 b=1")
        transaction(log, "a=2 c=2", 0, "abort")
        transaction(log, "b=3", 2, "commit")
        assert cleaned(log_dir, log)
        assert pairs(log) == [(0, "a", "1"), (5, "b", "3")]
        assert markers(log) == [4, 6]
        assert log.aborted_transactions(0, LONG) == [(9, 2, 4)]


def test_an_open_transaction_holds_back_everything_after_its_start(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1")
        put(log, "a=2")
        settle(log_dir, log)
        producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
        put(log, "a=3", transactional=True, **producer)
        put(log, "a=4")
        assert cleaned(log_dir, log)
        assert pairs(log) == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]


@pytest.mark.parametrize("kind", ["abort", "commit"])
def test_a_marker_goes_two_rounds_after_its_data(kind: str, tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=1000) as (log_dir, log):
        transaction(log, "a=1", 0, kind)
        transaction(log, "z=1", 1, "commit")  # so that the batch above is not the producer's last
        put(log, "a=2")
        assert cleaned(log_dir, log, LATER)  # saw the data
        assert markers(log) == [1, 3]
        put(log, "x=1")
        assert cleaned(log_dir, log, LATER)  # saw none: the horizon is set
        assert markers(log) == [1, 3]
        assert log.aborted_transactions(0, LONG) == []
        put(log, "x=2")
        assert cleaned(log_dir, log, LATER + 999)
        assert markers(log) == [1, 3]
        put(log, "x=3")
        assert cleaned(log_dir, log, LATER + 1000)
        assert markers(log) == [3]


def test_a_forgotten_transaction_stays_forgotten_after_a_restart(tmp_path: Path) -> None:
    """A reader that is told of it would skip the producer's records up to a marker that is gone."""
    log_dir = LogDir.open(tmp_path)
    log = log_dir.create("t", 0, log_config(**settings(delete_retention_ms=0)))
    transaction(log, "a=1", 0, "abort")
    transaction(log, "b=1", 1, "abort")
    transaction(log, "c=1", 2, "commit")
    for number in range(3):
        put(log, f"x={number}")
        assert cleaned(log_dir, log, LATER + number)
        log_dir = reopened(log_dir, cleanly=number == 1, **settings(delete_retention_ms=0))
        log = log_dir.log("t", 0)
    assert markers(log) == [5]
    assert log.aborted_transactions(0, LONG) == []
    log_dir.close()


def test_an_aborted_transaction_that_has_data_is_known_after_a_restart(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path)
    log = log_dir.create("t", 0, log_config(**settings()))
    transaction(log, "a=1", 0, "abort")
    settle(log_dir, log)
    transaction(log, "b=1", 1, "abort")
    assert cleaned(log_dir, log)
    assert len(log.segments()) == 2
    log_dir = reopened(log_dir, cleanly=False, **settings())
    log = log_dir.log("t", 0)
    assert log.aborted_transactions(0, LONG) == [(9, 0, 1), (9, 2, 3)]
    log_dir.close()


def test_a_marker_keeps_the_epoch_of_a_living_producer(tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=0) as (log_dir, log):
        end_txn(log, "abort", pid=9, epoch=4)
        for number in range(3):
            put(log, f"x={number}")
            assert cleaned(log_dir, log, LATER + number)
        kept = batches(log)[0]
        assert (kept.producer_id, kept.producer_epoch, kept.records_count) == (9, 4, 0)
        assert kept.is_control


# Segments and files


def test_neighbours_become_one_segment_up_to_its_size(tmp_path: Path) -> None:
    with compacted(tmp_path, segment_bytes=1000) as (log_dir, log):
        for i in range(30):
            put(log, f"k{i}={'v' * 200}")
        count = len(log.segments())
        assert cleaned(log_dir, log)
        assert len(log.segments()) == count + 1  # full ones stay alone, and one begun by the test
        for i in range(29):
            put(log, f"k{i}=")
        assert cleaned(log_dir, log)
        assert cleaned(log_dir, log) is False
        put(log, "x=1")
        assert cleaned(log_dir, log)
        assert len(log.segments()) < count
        assert all(segment.size <= 1000 for segment in log.segments())
        assert [key for _, key, _ in pairs(log)] == ["k29", *(f"k{i}" for i in range(29)), "x"]


def test_a_segment_that_needs_no_change_is_not_written_anew(tmp_path: Path) -> None:
    with compacted(tmp_path, segment_bytes=300) as (log_dir, log):
        put(log, f"a={'v' * 100}")
        settle(log_dir, log)
        put(log, f"b={'v' * 100} c={'v' * 100}")
        settle(log_dir, log)
        before = [os.stat(segment.path).st_ino for segment in log.segments()[:2]]
        put(log, "c=1")
        assert cleaned(log_dir, log)
        after = [os.stat(segment.path).st_ino for segment in log.segments()[:2]]
        assert before[0] == after[0]
        assert before[1] != after[1]


def test_an_emptied_log_keeps_its_first_segment(tmp_path: Path) -> None:
    with compacted(tmp_path, segment_bytes=200) as (log_dir, log):
        for _ in range(20):
            put(log, f"a={'v' * 100}")
        assert cleaned(log_dir, log)
        assert segment_bases(log)[0] == 0
        assert pairs(log)[0][0] == 19
        assert log.read(0) == log.read(19)
        put(log, "b=1")
        assert cleaned(log_dir, log)
        assert segment_bases(log)[0] == 0
    with compacted(tmp_path) as (log_dir, log):
        assert log.log_start_offset == 0
        assert [key for _, key, _ in pairs(log)] == ["a", "b"]


def test_nothing_but_segments_is_left_behind(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        for i in range(5):
            put(log, f"a={i}")
            transaction(log, f"b={i}", i, "abort" if i % 2 else "commit")
            settle(log_dir, log)
        assert log.compact(LATER)
        stems = {name.partition(".")[0] for name in files(log)}
        assert stems == {f"{base:020d}" for base in segment_bases(log)}
        assert not [name for name in files(log) if name.endswith((".cleaned", ".swap"))]


def test_the_indexes_of_a_compacted_segment_find_everything(tmp_path: Path) -> None:
    with compacted(tmp_path, index_interval_bytes=100, segment_bytes=1 << 20) as (log_dir, log):
        for i in range(300):
            put(log, f"k{i % 120}={i} once{i}=x", timestamp=NOW + i)
        assert cleaned(log_dir, log)
        found = shown(log)
        for record in found:
            assert _batch.headers(log.read(record.offset, 1))[0].last_offset >= record.offset
            at = log.offset_for_timestamp(record.timestamp)
            assert at is not None
            assert at[1] == record.timestamp


def test_a_reader_of_the_old_segment_reads_on(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        for i in range(10):
            put(log, f"a={i}")
            settle(log_dir, log)
        held = log.slice(0), log.slice(4)
        before = [log.read(0), log.read(4)]
        assert log.compact(LATER)
        for piece, wanted in zip(held, before, strict=True):
            assert os.pread(piece.fd, piece.size, piece.position)[: len(wanted)] == wanted


def test_retention_goes_on_in_a_log_that_is_also_compacted(tmp_path: Path) -> None:
    given = {"cleanup_policy": "compact,delete", "retention_ms": HOUR_MS, "segment_bytes": 300}
    with compacted(tmp_path, **given) as (log_dir, log):
        for i in range(8):
            put(log, f"k{i}={'v' * 60} a={i}{'v' * 60}", timestamp=NOW + i * HOUR_MS)
        assert cleaned(log_dir, log, NOW + 8 * HOUR_MS)
        log_dir.checkpoint()
        assert log.retain(NOW + 5 * HOUR_MS) > 0
        assert [key for _, key, _ in pairs(log)] == ["k4", "k5", "k6", "k7", "a"]
        assert log.log_start_offset == segment_bases(log)[0] > 0


# Limits and damage


def test_a_full_map_ends_the_round_and_the_next_goes_on(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1 b=1 a=2 c=1 d=1 b=2")
        put(log, "a=3 e=1")
        settle(log_dir, log)
        assert log.compact(LATER, keys_max=2)
        assert [each[0] for each in pairs(log)] == [1, 2, 3, 4, 5, 6, 7]
        assert log.compact(LATER, keys_max=2)
        assert [each[0] for each in pairs(log)] == [1, 2, 3, 4, 5, 6, 7]
        assert log.compact(LATER, keys_max=2)
        assert [each[0] for each in pairs(log)] == [3, 4, 5, 6, 7]
        assert log.compact(LATER, keys_max=2)
        assert not log.compact(LATER, keys_max=2)


def test_a_tombstone_beyond_a_full_map_gets_no_horizon_yet(tmp_path: Path) -> None:
    with compacted(tmp_path, delete_retention_ms=0) as (log_dir, log):
        put(log, "a=1")
        put(log, "b=1")
        put(log, "a")
        settle(log_dir, log)
        assert log.compact(LATER, keys_max=1)
        assert [info.delete_horizon_ms for info in batches(log)] == [None, None, None]
        assert log.compact(LATER, keys_max=4)
        assert pairs(log) == [(1, "b", "1"), (2, "a", None)]


def damage(log: Log, slot: int) -> None:
    """One bit of the last byte of a segment's file."""
    with open(log.segments()[slot].path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


def test_a_damaged_segment_ends_the_round_before_it(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path)
    log = log_dir.create("t", 0, log_config(**settings()))
    for i in range(4):
        put(log, f"a={i} k{i}=x")
        settle(log_dir, log)
    damage(log, 2)
    with pytest.raises(BatchCorrupt, match="segment 4"):
        log.compact(LATER)
    assert [record.offset for record in _batch.records(log.read(0))] == [1, 2, 3]
    assert segment_bases(log)[:2] == [0, 4]
    with pytest.raises(BatchCorrupt, match="segment 4"):  # said again, for whoever asks next
        log.compact(LATER)
    log_dir.abandon()


def test_damage_in_the_clean_part_costs_nothing(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path)
    log = log_dir.create("t", 0, log_config(**settings(segment_bytes=250)))
    for i in range(3):
        put(log, f"k{i}={'v' * 80} l{i}={'v' * 40}")
    assert cleaned(log_dir, log)
    damage(log, 1)
    put(log, "k0=2 k1=2 k2=2")
    with pytest.raises(BatchCorrupt):
        cleaned(log_dir, log)
    assert [record.offset for record in _batch.records(log.read(0))] == [1]
    assert values(log.read(4))[0] == "v" * 80
    log_dir.abandon()


def test_a_compressed_batch_that_nobody_can_read_is_not_dropped(tmp_path: Path) -> None:
    rubbish = bytearray(_build.batch([(NOW, b"a", b"0" * 100)], codec="gzip"))
    rubbish[70:80] = bytes(10)
    with compacted(tmp_path, cleanup_policy="delete") as (_, log):
        put(log, "a=1")
        put(log, "a=2")
        log.roll()
        log.append(resealed(rubbish))
        put(log, "a=3")
    with compacted(tmp_path) as (log_dir, log):
        with pytest.raises(ApplianceError, match="gzip"):
            cleaned(log_dir, log)
        assert values(log.read(0, 1)) == ["2"]
        assert len(everything(log)) == 3


def test_a_damaged_log_does_not_hold_up_the_others(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path)
    for topic in "abc":
        log = log_dir.create(topic, 0, log_config(**settings()))
        put(log, "a=1 a=2")
        settle(log_dir, log)
    damage(log_dir.log("a", 0), 0)
    with pytest.raises(BatchCorrupt, match="a-0: compaction stops before segment 0"):
        log_dir.compact(LATER)
    assert [len(shown(log_dir.log(topic, 0))) for topic in "bc"] == [1, 1]
    log_dir.abandon()


def test_a_directory_compacts_every_log_that_is_due(tmp_path: Path) -> None:
    with opened(tmp_path, **settings()) as log_dir:
        for number in range(3):
            log = log_dir.create("t", number, log_config(**settings()))
            put(log, "a=1 a=2")
            if number:
                log.roll()
            log.flush()
        log_dir.checkpoint()
        assert log_dir.compact(LATER) == 2
        assert log_dir.compact(LATER) == 0
