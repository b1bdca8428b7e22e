"""Compaction of what producers wrote: aborted data, open transactions, markers, last sequences."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import SequenceOutOfOrder
from tests.support.compaction import LATER, cleaned, compacted, put, settings, settle, transaction
from tests.support.compaction_model import batches, pairs
from tests.support.logs import LONG, end_txn, log_config, produced, reopened

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
