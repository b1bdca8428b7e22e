"""What becomes of reads that were refused: told at once, verified soon and not too often, and
forgotten when there is nothing to be told any more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from appliance._log import Log
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.loss_ledger import Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, StorageFull
from appliance.record import _batch_builder
from appliance.repair import refused_reads
from appliance.repair.refused_reads import RefusedReads
from appliance.repair.scrub import Finding, Round, Scrubber, SegmentKey, Verified
from tests.support.logs import batch, log_config, opened

NOTED_AT_ONCE = 256


class Counted(Scrubber):
    verified = 0

    def verify(self, place: SegmentKey, *, marks_refused: bool) -> Verified:
        self.verified += 1
        return super().verify(place, marks_refused=marks_refused)


class Box(NamedTuple):
    log_dir: LogDir
    log: Log
    scrubber: Counted
    refused: RefusedReads
    ledger: Ledger

    def reads(self, offset: int) -> bool:
        try:
            return bool(self.log.read(offset, 1))
        except ApplianceError:
            return False

    def path(self, slot: int) -> Path:
        return Path(self.log.segments()[slot].path)


@contextmanager
def box(path: Path, segments: int = 3) -> Iterator[Box]:
    """A batch in each segment."""
    with opened(path) as log_dir:
        catalog = Catalog.open(path / NAME)
        log_dir.ledger = Ledger(LedgerRows(catalog))
        log = log_dir.create("t", 0, log_config())
        for number in range(segments):
            log.append(batch(f"{number}" * 100))
            log.roll()
        log.flush()
        scrubber = Counted(log_dir)
        yield Box(log_dir, log, scrubber, RefusedReads(log_dir, scrubber), log_dir.ledger)
        catalog.close()


def spoil(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(16)
        file.write(b"\x7f")


def test_what_was_damaged_is_the_ledgers_and_is_told_there(tmp_path: Path) -> None:
    with box(tmp_path) as it:
        spoil(it.path(1))
        assert it.refused.texts() == []
        assert not it.reads(1)
        assert not it.reads(1)
        (text,) = it.refused.texts()
        assert "2 reads of t-0 from offset 1" in text
        assert "being verified" in text
        assert it.refused.look() == 1
        (entry,) = it.ledger.open()
        assert (entry.damage.first_offset, entry.damage.last_offset) == (1, 1)
        assert it.refused.texts() == []
        assert it.log.holes() == [(1, 2)]
        assert it.refused.count == 2


def test_one_segment_is_verified_once_a_minute_however_often_it_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with box(tmp_path) as it:
        for _ in range(100):
            it.log.note_damaged(1, b"no record batch")  # the segment is whole
            it.refused.look()
        assert it.scrubber.verified == 1
        (text,) = it.refused.texts()
        assert "100 reads" in text
        monkeypatch.setattr(refused_reads, "AGAIN_S", 0.0)
        it.refused.look()
        it.refused.look()
        assert it.scrubber.verified == 2  # nothing was met since


def test_damage_that_cannot_be_stored_is_verified_once_a_minute_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(rows: object) -> None:
        raise StorageFull("the disk is full")

    with box(tmp_path) as it:
        spoil(it.path(1))
        monkeypatch.setattr(LedgerRows, "add", lambda self, rows: refuse(rows))
        for _ in range(20):
            assert not it.reads(1)
            it.refused.look()
        assert (it.scrubber.verified, it.scrubber.damages) == (1, 1)
        assert it.refused.texts() == []  # the ledger tells, also what it could not store yet
        monkeypatch.setattr(refused_reads, "AGAIN_S", 0.0)
        assert not it.reads(1)
        it.refused.look()
        assert (it.scrubber.verified, it.scrubber.damages) == (2, 1)


def test_a_refusal_that_passed_is_not_the_first_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole over good records, for an error that passes with a cable, is made by no single one."""
    marks, refusals = [], [True, False, True, True]

    def verify(place: SegmentKey, *, marks_refused: bool) -> Verified:
        marks.append(marks_refused)
        course, is_refused = Round(0), refusals.pop(0)
        if is_refused:
            course.note(Finding("t", 0, "damaged", 1, 2, "the disk refuses it"))
        return Verified(course, is_through=True, was_refused=is_refused)

    monkeypatch.setattr(refused_reads, "AGAIN_S", 0.0)
    with box(tmp_path) as it:
        monkeypatch.setattr(it.scrubber, "verify", verify)
        while refusals:
            it.log.note_damaged(1, b"no record batch")
            it.refused.look()
    assert marks == [False, True, False, True]


def test_what_is_whole_when_it_is_verified_is_told_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with box(tmp_path) as it:
        path = it.path(1)
        whole = path.read_bytes()
        it.log.rest(0)
        spoil(path)
        assert not it.reads(1)
        path.write_bytes(whole)
        it.refused.look()
        (text,) = it.refused.texts()
        assert "BatchCorrupt" in text
        assert "verified since, and whole" in text
        assert it.ledger.open() == []
        assert it.reads(1)
        monkeypatch.setattr(refused_reads, "TOLD_S", 0.0)
        assert it.refused.texts() == []


def test_a_segment_that_is_gone_since_is_not_told_of(tmp_path: Path) -> None:
    with box(tmp_path) as it:
        spoil(it.path(0))
        assert not it.reads(0)
        it.log_dir.checkpoint()
        it.log.delete_before(1)
        it.refused.look()
        assert it.refused.texts() == []
        assert it.ledger.open() == []


def test_records_that_a_client_wrote_so_are_no_damage(tmp_path: Path) -> None:
    """Their checksum is right: nobody can read them, and the disk is well."""
    with box(tmp_path) as it:
        good = _batch_builder.batch([(0, b"k", b"v")])
        it.log.note_damaged(1, good)
        assert it.refused.count == 0
        it.log.note_damaged(1, good[:-1])
        assert it.refused.count == 1


def test_a_file_that_was_cut_is_no_end_of_the_log(tmp_path: Path) -> None:
    """A reader that was given nothing would take it for the end."""
    with box(tmp_path) as it:
        os.truncate(it.path(1), 70)
        with pytest.raises(ApplianceError):
            it.log.read(1, 1)
        it.refused.look()
        assert len(it.ledger.open()) == 1


def test_more_than_can_be_noted_is_told(tmp_path: Path) -> None:
    with box(tmp_path, segments=NOTED_AT_ONCE + 2) as it:
        for slot in range(NOTED_AT_ONCE + 1):
            spoil(it.path(slot))
            assert not it.reads(slot)
        found = it.refused.texts()
        assert len(found) == NOTED_AT_ONCE + 1
        assert "more than" in found[-1]


def test_damage_that_was_met_in_two_ways_is_one_entry(tmp_path: Path) -> None:
    with box(tmp_path) as it:
        spoil(it.path(1))
        assert not it.reads(1)
        it.scrubber.start([])
        it.refused.look()
        it.scrubber.close()
        assert len(it.ledger.open()) == 1
        assert it.log.holes() == [(1, 2)]
