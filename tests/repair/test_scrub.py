"""The scrub's table of damages (`_scrub.pyx`), a row each, under a log that is open; and what comes
and goes while a segment is verified.

The log is that of `support/damaged.py`: one record a batch, segments 0-5, 6-11, 12-17 and 18-20.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import OffsetInHole
from appliance.record import _batch, _batch_builder
from appliance.repair._scrub import ScrubFinding, SegmentScan
from tests.support.batch_model import stamped
from tests.support.damaged import BASES, END, SETTINGS, Damaged, build, served
from tests.support.logs import (
    NOW,
    batch,
    copied,
    end_txn,
    everything,
    log_config,
    one_log,
    opened,
    produced,
    segment_bases,
    split,
    values,
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("scrub") / "data"
    return Damaged(path, build(path, cleanly=True))


@pytest.fixture
def whole(stopped: Damaged, tmp_path: Path) -> Damaged:
    return Damaged(copied(stopped.path, tmp_path / "data"), [*stopped.batches])


@contextmanager
def running(damaged: Damaged) -> Iterator[Log]:
    with opened(damaged.path, **SETTINGS) as log_dir:
        yield log_dir.log("t", 0)


def scrubbed(log: Log, *bases: int) -> list[ScrubFinding]:
    found = []
    for base in bases or segment_bases(log):
        scan = SegmentScan(log, base)
        while scan.step(1 << 20):
            pass
        found += scan.settle()
        scan.mark()
    return found


def ranges(findings: list[ScrubFinding]) -> list[tuple[str, int, int]]:
    return [(each.what, each.first_offset, each.end_offset) for each in findings]


def others(*lost: int, end: int = END) -> list[int]:
    return [offset for offset in range(end) if offset not in lost]


def test_a_whole_log_has_no_findings_and_all_of_it_is_read(whole: Damaged) -> None:
    with running(whole) as log:
        for base in BASES:
            scan = SegmentScan(log, base)
            assert not scan.step(1 << 20)
            assert scan.is_direct
            assert scan.read_bytes == whole.segment(base).stat().st_size == scan.position
            assert scan.settle() == []
        assert log.holes() == []


@pytest.mark.parametrize("offset", [0, 3, 5, 8, 19], ids=lambda offset: f"batch {offset}")
def test_one_flipped_bit_anywhere_is_found_and_costs_one_batch(
    offset: int, stopped: Damaged, tmp_path: Path
) -> None:
    wrong = []
    for byte in range(len(stopped.batches[offset])):
        damaged = Damaged(copied(stopped.path, tmp_path / f"{byte}"), stopped.batches)
        with running(damaged) as log:
            damaged.flip(offset, byte)
            found = ranges(scrubbed(log))
            if found != [("damaged", offset, offset + 1)] or served(log, damaged) != others(offset):
                wrong.append((byte, found, served(log, damaged)))
            assert scrubbed(log) == []  # told once
    assert wrong == []


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
@pytest.mark.parametrize("byte", [3, 9, 16, 65], ids=["offset", "length", "format", "record"])
def test_what_is_behind_damage_stays_readable_after_a_restart(
    byte: int, cleanly: bool, whole: Damaged
) -> None:
    with opened(whole.path, **SETTINGS) as log_dir:
        whole.flip(7, byte)
        scrubbed(log_dir.log("t", 0))
        if not cleanly:
            log_dir.abandon()
    whole.remove(6, suffixes=(".index", ".timeindex"))
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log_dir.report.losses == []  # told when it was found
        assert log.holes() == [(7, 8)]
        assert served(log, whole) == others(7)
        assert log.offset_for_timestamp(NOW + 9) == (9, NOW + 9)


def zeros(d: Damaged) -> None:
    d.write(d.segment(6), d.spans[7][0], bytes(d.spans[9][1] - d.spans[7][0]))


def stale(d: Damaged) -> None:
    """A whole batch with a good CRC, of another place."""
    d.write(d.segment(6), d.spans[8][0], d.batches[4])


def gone_bytes(d: Damaged) -> None:
    """One batch vanished, as when a file is put together anew without it."""
    data = d.segment(6).read_bytes()
    d.segment(6).write_bytes(data[: d.spans[8][0]] + data[d.spans[8][1] :])


DAMAGES: list[tuple[str, Callable[[Damaged], object], list[tuple[str, int, int]]]] = [
    ("two batches in two segments", lambda d: (d.flip(1), d.flip(13)),
     [("damaged", 1, 2), ("damaged", 13, 14)]),
    ("two batches side by side", lambda d: (d.flip(7), d.flip(8)), [("damaged", 7, 9)]),
    ("two batches with a good one between", lambda d: (d.flip(7), d.flip(9)),
     [("damaged", 7, 8), ("damaged", 9, 10)]),
    ("two broken headers with a good batch between", lambda d: (d.flip(7, 16), d.flip(9, 16)),
     [("damaged", 7, 8), ("damaged", 9, 10)]),
    ("zeros over three batches", zeros, [("damaged", 7, 10)]),
    ("the first batch of a segment", lambda d: d.flip(6, 16), [("damaged", 6, 7)]),
    ("the last batch of a segment", lambda d: d.flip(11, 9), [("damaged", 11, 12)]),
    ("all batches of a segment", lambda d: [d.flip(i, 16) for i in range(6, 12)],
     [("damaged", 6, 12)]),
    ("a stale batch with a good CRC", stale, [("damaged", 8, 9)]),
    ("a file cut short", lambda d: d.cut(9, 10), [("damaged", 9, 12)]),
    ("a file cut between two batches", lambda d: d.cut(9), [("damaged", 9, 12)]),
    ("an empty file", lambda d: d.cut(6), [("damaged", 6, 12)]),
    ("a batch of the active segment", lambda d: d.flip(19), [("damaged", 19, 20)]),
    ("the last batch of the log", lambda d: d.flip(20), [("damaged", 20, 21)]),
    ("a file that is gone", lambda d: d.remove(6), [("lost", 6, 12)]),
]  # fmt: skip


@pytest.mark.parametrize(("_", "damage", "wanted"), DAMAGES, ids=[row[0] for row in DAMAGES])
def test_damage_is_a_hole_and_nothing_else_is_lost(
    _: str, damage: Callable[[Damaged], object], wanted: list[tuple[str, int, int]], whole: Damaged
) -> None:
    kept = others(*(i for _, first, end in wanted for i in range(first, end)))
    with running(whole) as log:
        damage(whole)
        assert ranges(scrubbed(log)) == wanted
        assert served(log, whole) == kept
        assert scrubbed(log) == []
        appended = log.append_durable(produced(END, timestamp=NOW + END))
        assert appended.base_offset == END
        whole.batches.append(log.read(END))
        first = wanted[0][1]
        with pytest.raises(OffsetInHole):
            log.read(first)
    with opened(whole.path, **SETTINGS) as log_dir:
        assert log_dir.report.losses == []
        assert served(log_dir.log("t", 0), whole) == [*kept, END]


def test_a_batch_that_vanished_is_lost_and_what_follows_is_served(whole: Damaged) -> None:
    gone_bytes(whole)
    whole.remove(6, suffixes=(".index", ".timeindex"))
    with running(whole) as log:
        found = ranges(scrubbed(log, 6))
        assert ("lost", 8, 9) in found
        assert {what for what, _, _ in found} == {"lost", "index"}
        assert served(log, whole) == others(8)


@pytest.mark.parametrize("is_kept", [True, False], ids=["and another took its name", "alone"])
def test_a_file_that_vanished_while_it_is_open_is_written_anew(
    is_kept: bool, whole: Damaged
) -> None:
    with running(whole) as log:
        held = [SegmentScan(log, base) for base in BASES]  # opens them
        for base in BASES:
            whole.remove(base)
            if is_kept:
                whole.segment(base).write_bytes(b"something else")
        for scan in held:
            scan.step(1 << 20)
        found = [each for scan in held for each in scan.settle()]
        assert [each.what for each in found] == ["restored"] * 4
        assert len(whole.aside) == 4 * is_kept
        log.append_durable(produced(END, timestamp=NOW + END))
    with opened(whole.path, **SETTINGS) as log_dir:
        assert log_dir.report.losses == []
        log = log_dir.log("t", 0)
        assert [split(log.read(i, 1))[0] for i in range(END)] == whole.batches
        assert log.log_end_offset == END + 1


INDEXES: list[tuple[str, str, Callable[[bytearray], object]]] = [
    ("a position", ".index", lambda data: data.__setitem__(15, data[15] ^ 1)),
    ("an offset", ".index", lambda data: data.__setitem__(11, data[11] ^ 1)),
    ("a timestamp", ".timeindex", lambda data: data.__setitem__(7, data[7] ^ 1)),
    ("an offset of a timestamp", ".timeindex", lambda data: data.__setitem__(23, data[23] ^ 1)),
    ("its end", ".index", lambda data: data.__delitem__(slice(12, None))),
    ("its rise", ".timeindex", lambda data: data.__setitem__(slice(0, 12), data[12:24])),
    ("all of it", ".index", lambda data: data.clear()),
]  # fmt: skip


@pytest.mark.parametrize(("_", "suffix", "change"), INDEXES, ids=[row[0] for row in INDEXES])
def test_a_wrong_index_is_built_anew_and_is_no_damage(
    _: str, suffix: str, change: Callable[[bytearray], object], whole: Damaged
) -> None:
    right = whole.segment(6, suffix).read_bytes()
    data = bytearray(right)
    change(data)
    whole.segment(6, suffix).write_bytes(data)
    with running(whole) as log:
        assert ranges(scrubbed(log)) == [("index", 6, 12)]
        assert whole.segment(6, suffix).read_bytes() == right
        assert scrubbed(log) == []
        assert served(log, whole) == others()
        assert log.holes() == []


def test_an_index_that_is_gone_is_built_anew(whole: Damaged) -> None:
    whole.remove(6, 12, suffixes=(".index", ".timeindex"))
    with running(whole) as log:
        assert ranges(scrubbed(log)) == [("index", 6, 12), ("index", 12, 18)]
        assert whole.segment(6, ".index").stat().st_size > 0


def test_a_transaction_index_that_is_gone_is_written_anew(tmp_path: Path) -> None:
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        log.append(produced(0, txn=True))
        end_txn(log, "abort")
        log.roll()
        log.append(batch("after"))
        log.flush()
        log_dir.checkpoint()
        path = tmp_path / "t-0" / f"{0:020d}.txnindex"
        right = path.read_bytes()
        path.unlink()
        assert ranges(scrubbed(log)) == [("index", 0, 2)]
        assert path.read_bytes() == right
        assert scrubbed(log) == []


def test_entries_below_the_start_of_the_log_are_no_finding(tmp_path: Path) -> None:
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        for sequence in range(2):
            log.append(produced(sequence, txn=True))
            end_txn(log, "abort")
        log.roll()
        log.append(batch("after"))
        log.flush()
        log.delete_before(2)
        assert scrubbed(log) == []
    with opened(tmp_path, **SETTINGS) as log_dir:
        assert scrubbed(log_dir.log("t", 0)) == []


@pytest.mark.parametrize(
    ("has_snapshot", "what", "first"), [(True, "index", 0), (False, "damaged", 2)]
)
def test_an_entry_of_another_producer_is_put_right_as_far_as_the_log_says(
    has_snapshot: bool, what: str, first: int, tmp_path: Path
) -> None:
    """The transaction began in the segment before: its snapshot of producers alone says so here."""
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        for sequence in range(4):
            log.append(produced(sequence, txn=True))
            if sequence == 1:
                log.roll()
        end_txn(log, "abort")
        log.append(batch("after"))
    path = tmp_path / "t-0" / f"{2:020d}.txnindex"
    data = bytearray(path.read_bytes())
    data[9] ^= 1
    path.write_bytes(data)
    if not has_snapshot:
        path.with_suffix(".snapshot").unlink()
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.aborted_transactions(0, 99) == [(6, 0, 4)]
        assert ranges(scrubbed(log)) == [(what, 2, 6)]
        assert log.aborted_transactions(0, 99) == [(7, first, 4)]
        assert scrubbed(log) == []


def test_an_entry_whose_marker_is_damaged_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        log.append(produced(0, txn=True))
        end_txn(log, "abort")
        log.append(batch("after"))
        log.roll()
        log.append(batch("behind"))
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(produced(0, txn=True)) + 65] ^= 1
    path.write_bytes(data)
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert ranges(scrubbed(log)) == [("damaged", 1, 2)]
        assert scrubbed(log) == []
        assert log.aborted_transactions(0, 99) == [(7, 0, 1)]


# What comes and goes meanwhile


@pytest.fixture
def under_way(whole: Damaged) -> Iterator[tuple[LogDir, Log, SegmentScan]]:
    """A damaged batch was read, and is not settled yet."""
    with opened(whole.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        whole.flip(3)
        scan = SegmentScan(log, 0)
        assert not scan.step(1 << 20)
        yield log_dir, log, scan


def test_a_segment_that_retention_took_is_no_finding(
    under_way: tuple[LogDir, Log, SegmentScan]
) -> None:
    _, log, scan = under_way
    log.delete_before(6)
    assert segment_bases(log) == [6, 12, 18]
    assert scan.settle() == []
    scan.mark()
    assert scan.is_moot
    assert log.holes() == []


def test_a_log_that_was_deleted_is_no_finding(under_way: tuple[LogDir, Log, SegmentScan]) -> None:
    log_dir, _, scan = under_way
    log_dir.delete("t", 0)
    assert scan.settle() == []
    scan.mark()
    assert "t-0" not in log_dir.engine.known()


def test_a_segment_that_was_truncated_away_is_no_finding(
    under_way: tuple[LogDir, Log, SegmentScan]
) -> None:
    _, log, scan = under_way
    log.truncate(2)
    assert scan.settle() == []
    scan.mark()
    assert log.holes() == []


def test_damage_below_the_log_start_is_told_to_nobody_and_hides_nothing(
    whole: Damaged, under_way: tuple[LogDir, Log, SegmentScan]
) -> None:
    _, log, scan = under_way
    log.delete_before(5)
    assert scan.settle() == []
    scan.mark()
    assert served(log, whole) == list(range(5, END))


def test_what_is_right_at_the_second_look_is_told_and_served(
    whole: Damaged, under_way: tuple[LogDir, Log, SegmentScan]
) -> None:
    _, log, scan = under_way
    whole.flip(3)  # back
    assert ranges(scan.settle()) == [("odd", 3, 4)]
    assert log.holes() == []
    assert served(log, whole) == others()


def test_retention_between_the_telling_and_the_marking_leaves_no_hole(
    under_way: tuple[LogDir, Log, SegmentScan]
) -> None:
    _, log, scan = under_way
    assert ranges(scan.settle()) == [("damaged", 3, 4)]
    log.delete_before(6)
    scan.mark()
    assert log.holes() == []


def test_damage_that_was_told_and_not_marked_is_told_again(
    under_way: tuple[LogDir, Log, SegmentScan]
) -> None:
    """As after a crash between the two."""
    _, log, scan = under_way
    told = scan.settle()
    assert scrubbed(log, 0) == told
    assert log.holes() == [(3, 4)]


def test_a_segment_that_is_not_durable_yet_waits_for_the_next_round(tmp_path: Path) -> None:
    with one_log(tmp_path, **SETTINGS) as log:
        log.append(batch("not synced"))
        assert SegmentScan(log, 0).position == 0
        assert scrubbed(log) == []
        log.flush()
        scan = SegmentScan(log, 0)
        scan.step(1 << 20)
        assert scan.position > 0


def test_damage_that_a_compacted_log_may_hide_is_found(tmp_path: Path) -> None:
    """Where offsets are missing by right, one that is too high shows only in what follows."""
    config = {**SETTINGS, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    with opened(tmp_path, **config) as log_dir:
        log = log_dir.create("t", 0, log_config(**config))
        for i in range(12):
            key = b"same" if i % 3 == 0 else f"{i}".encode()
            log.append(_batch_builder.batch([(NOW, key, b"value")]))
        log.roll()
        log.append(batch("active"))
        log.flush()
        log_dir.checkpoint()
        assert log.compact()
        kept = [_batch.headers(each)[0].base_offset for each in everything(log)]
        assert kept == [1, 2, 4, 5, 7, 8, 9, 10, 11, 12]
        assert scrubbed(log) == []
        path = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        at = next(each.position for each in _batch.headers(bytes(data)) if each.base_offset == 4)
        data[at + 7] = 9
        path.write_bytes(data)
        found = scrubbed(log)
        assert [each.what for each in found] == ["damaged"]
        assert found[0].first_offset <= 4 < found[0].end_offset <= 7
        for offset in (1, 2, 7, 9, 12):
            assert _batch.headers(log.read(offset, 1))[0].base_offset == offset


def test_bytes_in_a_record_that_look_like_a_batch_are_not_taken_for_one(tmp_path: Path) -> None:
    forged = stamped(batch("forged"), 2, 0)
    with one_log(tmp_path, index_interval_bytes=1 << 20) as log:
        for value in (b"zero", b"before " + forged + b" behind", b"two", b"three"):
            log.append(batch(value))
        log.roll()
        log.append(batch("four"))
        log.flush()
        path = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[len(batch("zero")) + 9] ^= 1  # the length of the batch that holds the forged one
        path.write_bytes(data)
        assert ranges(scrubbed(log, 0)) == [("damaged", 1, 2)]
        assert values(log.read(2, 1)) == ["two"]


def test_pages_of_the_cache_stay_as_they_are(tmp_path: Path) -> None:
    with one_log(tmp_path, **SETTINGS) as log:
        for _ in range(64):
            log.append(batch(os.urandom(60_000)))
        log.roll()
        log.append(batch("active"))
        log.flush()
        path = tmp_path / "t-0" / f"{0:020d}.log"
        warm = warmed(path)
        assert 0 < warm < 64 * 15
        assert scrubbed(log, 0) == []
        assert cached_pages(path) == warm


def warmed(path: Path) -> int:
    """A few pages are in the cache, and the kernel reads none ahead."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 100_000, 0)
    return cached_pages(path)


def cached_pages(path: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = path.stat().st_size
    pages = ctypes.create_string_buffer((size + 4095) // 4096)
    with path.open("rb") as file:
        address = libc.mmap(None, size, 0, mmap.MAP_SHARED, file.fileno(), 0)
    assert libc.mincore(address, size, pages) == 0, os.strerror(ctypes.get_errno())
    libc.munmap(address, size)
    return sum(each & 1 for each in pages.raw)


def test_a_hole_that_is_truncated_away_hides_nothing_that_is_written_there(whole: Damaged) -> None:
    with running(whole) as log:
        whole.flip(13)
        assert ranges(scrubbed(log)) == [("damaged", 13, 14)]
        log.truncate(10)
        assert log.holes() == []
        for offset in range(10, END):
            log.append(produced(offset, timestamp=NOW + offset, pid=9 + offset))
        log.flush()
        assert [_batch.headers(each)[0].base_offset for each in everything(log)] == others()
    with running(whole) as log:
        assert [_batch.headers(each)[0].base_offset for each in everything(log)] == others()


def test_what_is_behind_damage_survives_a_truncation_of_its_segment(whole: Damaged) -> None:
    with running(whole) as log:
        whole.flip(13, 16)
        assert ranges(scrubbed(log)) == [("damaged", 13, 14)]
        log.truncate(16)
        assert log.log_end_offset == 16
        assert log.holes() == [(13, 14)]
        assert [log.read(i, 1) for i in (12, 14, 15)] == [whole.batches[i] for i in (12, 14, 15)]


@pytest.mark.parametrize("base", [6, 12, 18])
def test_a_damaged_segment_that_goes_takes_nothing_of_the_one_before_it_along(
    base: int, whole: Damaged
) -> None:
    with running(whole) as log:
        whole.flip(base + 1, 16)
        assert ranges(scrubbed(log)) == [("damaged", base + 1, base + 2)]
    end = min(base + 6, END)
    whole.remove(base)
    with running(whole) as log:
        assert log.holes() == [(base, end)]
        assert served(log, whole) == others(*range(base, end))
        assert ranges(scrubbed(log)) == []
