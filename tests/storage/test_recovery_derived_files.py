"""Indexes, leftovers and swap files at recovery: none hides, changes or invents a record."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.support.damaged import BASES, END, SETTINGS, Damaged, check, served, up_to
from tests.support.logs import (
    NOW,
    batch,
    copied,
    end_txn,
    everything,
    log_config,
    opened,
    produced,
)

ALL = up_to(END)


def foreign_swap(d: Damaged) -> None:
    d.segment(0, ".log.swap").write_bytes(d.batches[0])
    d.segment(0, ".index.swap").write_bytes(bytes(8))


FULL_OF = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(max(len(data), 48)),
    "ones": lambda data: b"\xff" * max(len(data), 48),
    "garbage": lambda data: os.urandom(max(len(data), 96)),
    "cut within an entry": lambda data: data[:-3],
    "only the first entry": lambda data: data[:8],
    "longer than the log": lambda data: data + data[-8:-1] + b"\x7f" + bytes([0, 0, 9, 9] * 30),
    "zeros behind the end": lambda data: data + bytes(4096),
    "falling": lambda data: data[::-1],
    "doubled": lambda data: data + data,
}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [*FULL_OF, "absent", "a link", "a directory"])
@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
def test_no_index_can_hide_or_change_a_record(
    cleanly: bool, content: str, suffix: str, unclean: Damaged, stopped: Damaged, tmp_path: Path
) -> None:
    source = stopped if cleanly else unclean
    damaged = Damaged(copied(source.path, tmp_path / "data"), source.batches)
    for base in BASES:
        path = damaged.segment(base, suffix)
        data = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        if content == "a link":
            path.symlink_to("/dev/null")
        elif content == "a directory":
            path.mkdir()
        elif content != "absent":
            path.write_bytes(FULL_OF[content](data))
    with opened(damaged.path, **SETTINGS) as log_dir:
        assert log_dir.report.failures == []
        log = log_dir.log("t", 0)
        assert served(log, damaged) == list(range(END))
        found = [log.offset_for_timestamp(NOW + i) for i in range(END)]
        if content not in ("garbage", "ones", "longer than the log", "doubled", "falling"):
            assert found == [(i, NOW + i) for i in range(END)]
        log.append_durable(produced(END))


@pytest.mark.parametrize("content", [*FULL_OF, "absent"])
def test_a_wrong_transaction_index_invents_nothing_and_stops_nothing(
    content: str, tmp_path: Path
) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for i in range(4):
            log.append(produced(i, txn=True))
            end_txn(log, "abort")
        log.flush()
        log_dir.checkpoint()
        wanted = log.aborted_transactions(0, 99)
        log_dir.abandon()
    path = tmp_path / "t-0" / f"{0:020d}.txnindex"
    data = path.read_bytes()
    path.unlink() if content == "absent" else path.write_bytes(FULL_OF[content](data))
    with opened(tmp_path) as log_dir:
        log = log_dir.log("t", 0)
        found = log.aborted_transactions(0, 99)
        assert [each for each in found if each not in wanted] == []
        assert len(everything(log)) == 8
        log.append(produced(4, txn=True))
        again = (7, 8, end_txn(log, "abort"))
        log.flush()
        assert log.aborted_transactions(0, 99) == [*found, again]


@pytest.mark.parametrize("is_known", [True, False], ids=["after the point", "every byte"])
def test_a_time_index_that_is_right_stays(is_known: bool, damaged: Damaged) -> None:
    files = [damaged.segment(base, ".timeindex") for base in BASES[:3]]
    before = [(each.stat().st_ino, each.read_bytes()) for each in files]
    if not is_known:
        for each in damaged.path.glob("checkpoint.?"):
            each.unlink()
    with opened(damaged.path, **SETTINGS) as log_dir:
        log_dir.abandon()
    assert [(each.stat().st_ino, each.read_bytes()) for each in files] == before
    assert all(data for _, data in before)


@pytest.mark.parametrize(("at", "by"), [(0, -1000), (0, 1000), (1, 1000), (2, 1000)])
def test_a_time_index_that_is_wrong_somewhere_goes(at: int, by: int, damaged: Damaged) -> None:
    """A time that no record has, in its place among the others."""
    path = damaged.segment(18, ".timeindex")
    times = [(NOW + 18 + i, i) for i in range(3)]
    times[at] = (times[at][0] + by, at)
    path.write_bytes(b"".join(struct.pack(">qi", *each) for each in times[: at + 1]))
    with opened(damaged.path, **SETTINGS) as log_dir:
        assert not path.exists()
        log_dir.abandon()
    with opened(damaged.path, **SETTINGS) as log_dir:
        found = [log_dir.log("t", 0).offset_for_timestamp(NOW + i) for i in range(END)]
        assert found == [(i, NOW + i) for i in range(END)]


def test_an_abort_that_was_cut_off_hides_nothing_later(tmp_path: Path) -> None:
    """A crash, or a file that could not be unlinked, left the index of a segment without it."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append(batch("a"))
        log.append(batch("b"))
        log.roll()
        log.append(produced(0, txn=True))
        end_txn(log, "abort")
        log.flush()
        log_dir.checkpoint()
        path = tmp_path / "t-0" / f"{2:020d}.txnindex"
        left = path.read_bytes()
        log.truncate(1)
        path.write_bytes(left)
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        log = log_dir.log("t", 0)
        for i in range(4):
            log.append(produced(i, pid=7))
    with opened(tmp_path) as log_dir:
        assert log_dir.log("t", 0).aborted_transactions(0, 99) == []
    assert not path.exists()


def test_a_new_segment_has_nothing_of_an_earlier_one_of_its_offset(tmp_path: Path) -> None:
    with opened(tmp_path, **SETTINGS) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        log.append(batch("a"))
        left = [tmp_path / "t-0" / f"{1:020d}{suffix}"
                for suffix in (".index", ".timeindex", ".txnindex", ".snapshot")]  # fmt: skip
        for each in left:
            each.write_bytes(struct.pack(">qi", NOW + 60_000, 0) * 3)
        log.roll()
        assert [each.name for each in left if each.exists()] == []


def test_leftovers_are_removed_and_what_is_aside_stays(damaged: Damaged) -> None:
    for suffix in (".log.cleaned", ".index.cleaned", ".log.swap", ".timeindex.swap", ".log.deleted",
                   ".index.deleted", ".txnindex.cleaned"):  # fmt: skip
        damaged.segment(6, suffix).write_bytes(b"left over")
    aside = damaged.segment(6, ".log.corrupt-1700000000000")
    aside.write_bytes(b"for the operator")
    with opened(damaged.path, **SETTINGS) as log_dir:
        assert served(log_dir.log("t", 0), damaged) == list(range(END))
        left = [path.name for path in damaged.folder.iterdir() if path.read_bytes() == b"left over"]
        assert (left, aside.read_bytes()) == ([], b"for the operator")


def test_a_swap_that_the_journal_does_not_know_is_undone(damaged: Damaged) -> None:
    foreign_swap(damaged)
    check(damaged, ALL)
    assert not damaged.segment(0, ".log.swap").exists()
