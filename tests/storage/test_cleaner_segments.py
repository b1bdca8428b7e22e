"""Segments and files of a compacted log."""

from __future__ import annotations

import os
from pathlib import Path

from appliance._log import Log
from appliance.record import _batch
from tests.support.compaction import HOUR_MS, LATER, cleaned, compacted, put, settle, transaction
from tests.support.compaction_model import pairs, shown
from tests.support.logs import NOW, segment_bases


def files(log: Log) -> set[str]:
    return set(os.listdir(Path(log.segments()[0].path).parent))


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
