"""Tombstones that compaction removes: in a later round, after their horizon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.record import _batch_builder
from tests.support.compaction import LATER, cleaned, compacted, put
from tests.support.compaction_model import batches, pairs, shown
from tests.support.logs import DAY_MS, LONG, NOW

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


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
        log.append(_batch_builder.batch(records, codec=codec))
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
