"""A repair beside readers, writers and recovery points, and one that the journal cannot take;
what readers of committed records are told when a marker is in what they pass."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.errors import ApplianceError, OffsetInHole
from appliance.record import _batch, _batch_builder
from appliance.repair import _hole_repair, partition_repair
from tests.repair.test_partition_repair import ASIDE, Heard, put_back
from tests.repair.test_scrub import others, ranges, scrubbed
from tests.support.beside import beside
from tests.support.damaged import END, SETTINGS, Damaged, build
from tests.support.data_plane import Plane, make
from tests.support.logs import (
    NOW,
    batch,
    copied,
    end_txn,
    files_limited_to,
    log_config,
    opened,
    produced,
)

__all__ = ["make"]
ROUNDS = 6


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("beside") / "data"
    return Damaged(path, build(path, cleanly=True))


def with_aside(stopped: Damaged, path: Path) -> Damaged:
    damaged = Damaged(copied(stopped.path, path), [*stopped.batches])
    shutil.copy(damaged.segment(6), damaged.path / ASIDE)
    return damaged


def there(log: Log, damaged: Damaged) -> list[int]:
    """At which of the first offsets what was written is read, whatever was appended since."""
    kept = []
    for offset in range(END):
        with suppress(OffsetInHole):
            assert log.read(offset, 1) == damaged.batches[offset]
            kept.append(offset)
    return kept


def test_readers_meet_the_hole_or_the_records_and_nothing_else(
    stopped: Damaged, tmp_path: Path
) -> None:
    for each in range(ROUNDS):
        damaged = with_aside(stopped, tmp_path / f"{each}")
        with opened(damaged.path, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            damaged.flip(8)
            scrubbed(log)
            seen: Counter[str] = Counter()

            def read(log: Log = log, good: bytes = damaged.batches[8], seen: Any = seen) -> None:
                try:
                    seen["good" if log.read(8, 1) == good else "damaged bytes"] += 1
                except OffsetInHole:
                    seen["hole"] += 1

            def write(log: Log = log) -> None:
                log.append_durable(batch("more"))

            with beside(read, write, log_dir.checkpoint):
                put_back(log_dir, log)
            assert "damaged bytes" not in seen
            log_dir.abandon()
        with opened(damaged.path, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            assert log.holes() == []
            assert there(log, damaged) == others()


@pytest.mark.parametrize("is_saved", [True, False], ids=["a checkpoint follows", "none follows"])
def test_wherever_the_journal_fails_records_are_withheld_or_there_and_never_lost(
    is_saved: bool, stopped: Damaged, tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    for more in range(0, 1600, 100):
        damaged = with_aside(stopped, tmp_path / f"{more}")
        with opened(damaged.path, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            damaged.flip(7)
            assert ranges(scrubbed(log)) == [("damaged", 7, 8)]
            plan = partition_repair.plan_import(log_dir, log, ASIDE)
            newest = max(
                damaged.path.glob("checkpoint.?"), key=lambda each: each.stat().st_mtime_ns
            )
            journal = len(newest.read_bytes().rstrip(b"\0"))
            try:
                with files_limited_to(journal + more):
                    heard: Any = Heard()
                    partition_repair.put_back(log_dir, log, plan, heard, "ada")
                outcomes["done"] += 1
            except ApplianceError:
                outcomes["failed"] += 1
            whole_or_withheld(log, damaged)
            if is_saved:
                log.append(produced(END, timestamp=NOW + END))
                log_dir.checkpoint()
            log_dir.abandon()
        with opened(damaged.path, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            whole_or_withheld(log, damaged)
            if log.holes():
                put_back(log_dir, log)
            assert there(log, damaged) == others()
    assert set(outcomes) == {"done", "failed"}


def whole_or_withheld(log: Log, damaged: Damaged) -> None:
    assert log.holes() in ([], [(7, 8)])
    assert there(log, damaged) == others(*[first for first, _ in log.holes()])


# A marker in what readers pass


def lose_marker(path: Path, log: Log, offset: int) -> None:
    data = bytearray(path.read_bytes())
    (at,) = (each.position for each in _batch.headers(bytes(data)) if each.base_offset == offset)
    data[at + 30] ^= 1
    path.write_bytes(data)
    assert ranges(scrubbed(log)) == [("damaged", offset, offset + 1)]
    _hole_repair.skip(log, offset, offset + 1)


def test_behind_a_marker_that_readers_pass_nothing_is_told_as_aborted(make: Any) -> None:
    plane: Plane = make()
    log = plane.logs[0]
    log.append(produced(0, txn=True))
    end_txn(log, "abort")
    log.append(produced(0, epoch=1, txn=True))
    end_txn(log, "commit", epoch=1)
    log.flush()
    lose_marker(plane.log_dir.path / "t-0" / f"{0:020d}.log", log, 1)
    with plane.client() as client:
        first, behind = (client.fetch_one(offset, isolation=1) for offset in (0, 1))
    assert [each.producer_id for each in first.aborted_transactions] == [7]
    assert [each.base_offset for each in _batch.headers(first.records)] == [0]
    assert behind.aborted_transactions == []
    assert [each.base_offset for each in _batch.headers(behind.records)] == [2, 3]


def test_compaction_forgets_an_aborted_transaction_whose_marker_is_passed(tmp_path: Path) -> None:
    config = {**SETTINGS, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}

    def keyed(key: bytes, epoch: int) -> bytes:
        return _batch_builder.batch([(NOW, key, b"v")], producer_id=7, producer_epoch=epoch,
                            base_sequence=0, transactional=True)  # fmt: skip

    with opened(tmp_path, **config) as log_dir:
        log = log_dir.create("t", 0, log_config(**config))
        log.append(keyed(b"a", 0))
        end_txn(log, "abort")
        log.append(keyed(b"b", 1))
        end_txn(log, "commit", epoch=1)
        log.roll()
        log.append(batch("active"))
        log.flush()
        log_dir.checkpoint()
        lose_marker(tmp_path / "t-0" / f"{0:020d}.log", log, 1)
        assert log.aborted_transactions(0, 4) == [(7, 0, 1)]
        assert log.compact()
        assert [each.base_offset for each in _batch.headers(log.read(0))] == [2]
        assert log.aborted_transactions(0, 4) == []
        log_dir.abandon()
    with opened(tmp_path, **config) as log_dir:
        assert log_dir.log("t", 0).aborted_transactions(0, 4) == []
