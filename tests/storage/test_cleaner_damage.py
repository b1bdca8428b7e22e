"""Rounds of compaction that damage or a full map ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, BatchCorrupt
from appliance.record import _batch, _batch_builder
from tests.support.batch_model import resealed
from tests.support.compaction import LATER, cleaned, compacted, put, settings, settle
from tests.support.compaction_model import batches, pairs, shown
from tests.support.logs import NOW, everything, log_config, opened, segment_bases, values


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
    rubbish = bytearray(_batch_builder.batch([(NOW, b"a", b"0" * 100)], codec="gzip"))
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
