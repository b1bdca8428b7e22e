"""The table of damages at the head of `_recovery.pyx`, a row each, and the directory around it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.data_dir.creation import LogExists
from appliance.data_dir.log_dir import LogDir
from appliance.errors import LogClosed, OffsetInHole
from appliance.process import spoken
from appliance.record import _batch_check
from tests.support.damaged import (
    BASES,
    END,
    EPOCH,
    POINT,
    SETTINGS,
    Damaged,
    Wanted,
    build,
    check,
    served,
    up_to,
    without,
)
from tests.support.logs import (
    NOW,
    STORAGE,
    batch,
    copied,
    end_txn,
    everything,
    log_config,
    one_log,
    opened,
    produced,
    values,
)
from tests.support.watermarks import note

ALL = up_to(END)
Damage = Callable[[Damaged], object]


@pytest.fixture(scope="module")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("recovery") / "data"
    return Damaged(path, build(path))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("recovery") / "data"
    return Damaged(path, build(path, cleanly=True))


@pytest.fixture
def damaged(unclean: Damaged, tmp_path: Path) -> Damaged:
    return Damaged(copied(unclean.path, tmp_path / "data"), unclean.batches)


@pytest.fixture
def unfinished(damaged: Damaged) -> Damaged:
    """The same, where nothing behind the recovery point was ever acknowledged."""
    note(damaged.path, "t-0", POINT)
    return damaged


def stale(offset: int, epoch: int = EPOCH) -> bytes:
    """A whole batch with a good CRC that an earlier use of the blocks left behind."""
    data = bytearray(produced(offset))
    _batch_check.stamp(data, offset, epoch)
    return bytes(data)


def torn_with_a_hole(d: Damaged) -> None:
    """The second half of the last batch reached the disk, the first did not."""
    first, end = d.spans[20]
    d.write(d.segment(18), first, bytes((end - first) // 2))


def foreign_swap(d: Damaged) -> None:
    d.segment(0, ".log.swap").write_bytes(d.batches[0])
    d.segment(0, ".index.swap").write_bytes(bytes(8))


TAIL: list[tuple[str, Damage, Wanted]] = [
    ("nothing", lambda d: None, ALL),
    ("last batch cut in half", lambda d: d.cut(20, 35), up_to(20, is_cut=True)),
    ("last batch a byte short", lambda d: d.cut(21 - 1, len(d.batches[20]) - 1),
     up_to(20, is_cut=True)),
    ("last batch only a byte", lambda d: d.cut(20, 1), up_to(20, is_cut=True)),
    ("last batch without its begin", torn_with_a_hole, up_to(20, is_cut=True)),
    ("last batch flipped", lambda d: d.flip(20), up_to(20, is_cut=True)),
    ("zeros behind the end", lambda d: d.add(18, bytes(5000)), up_to(END, is_cut=True)),
    ("zeros beyond a megabyte", lambda d: d.add(18, bytes(3 << 20)), up_to(END, is_cut=True)),
    ("garbage behind the end", lambda d: d.add(18, os.urandom(5000)), up_to(END, is_cut=True)),
    ("stale batch, offset too high", lambda d: d.add(18, stale(30)), up_to(END, is_cut=True)),
    ("stale batch, offset repeated", lambda d: d.add(18, stale(20)), up_to(END, is_cut=True)),
    ("stale batch, offset from before", lambda d: d.add(18, stale(3)), up_to(END, is_cut=True)),
    ("stale batch of an older epoch at the right offset",
     lambda d: d.add(18, stale(END, EPOCH - 1)), up_to(END, is_cut=True)),
    ("whole batch behind a flipped one", lambda d: d.flip(19), up_to(19, is_cut=True, aside=1)),
    ("segment behind a flipped batch", lambda d: d.flip(17), up_to(17, is_cut=True, aside=1)),
    ("batch and segment behind a flipped one", lambda d: d.flip(15),
     up_to(15, is_cut=True, aside=2)),
    ("segment behind a missing batch", lambda d: d.cut(17), up_to(17, aside=1)),
    ("empty segment behind a flipped batch", lambda d: (d.flip(17), d.cut(18)),
     up_to(17, is_cut=True)),
    ("last segment empty", lambda d: d.cut(18), up_to(18)),
    ("last segment missing", lambda d: d.remove(18), up_to(18)),
    ("last segment all zeros", lambda d: d.write(d.segment(18), 0, bytes(3 * len(d.batches[18]))),
     up_to(18, is_cut=True)),
]  # fmt: skip

BELOW: list[tuple[str, Damage, Wanted]] = [
    ("recovery segment missing", lambda d: d.remove(12), without(12, 17)),
    ("recovery segment empty", lambda d: d.cut(12), without(12, 17)),
    ("recovery segment short, a batch torn", lambda d: d.cut(13, 40), without(13, 17)),
    ("recovery segment short by whole batches", lambda d: d.cut(14), without(14, 17)),
    ("recovery segment and all behind it missing", lambda d: d.remove(12, 18),
     without(12, 20)),
    ("recovery segment short, nothing behind it", lambda d: (d.cut(13, 40), d.remove(18)),
     without(13, 20)),
    ("every segment missing", lambda d: d.remove(*BASES), without(0, 20)),
    ("first segment missing", lambda d: d.remove(0), without(0, 5)),
    ("middle segment missing", lambda d: d.remove(6), without(6, 11)),
]  # fmt: skip


def rows(table: list[tuple[str, Damage, Wanted]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("damage", "wanted"), [row[1:] for row in table], ids=[row[0] for row in table]
    )


@rows(TAIL)
def test_the_tail_is_cut_and_nothing_durable_with_it(
    damage: Damage, wanted: Wanted, unfinished: Damaged
) -> None:
    damage(unfinished)
    check(unfinished, wanted)


@rows(BELOW)
def test_durable_records_that_are_gone_are_reported_and_the_rest_is_served(
    damage: Damage, wanted: Wanted, damaged: Damaged
) -> None:
    damage(damaged)
    check(damaged, wanted)


def test_the_tail_may_be_torn_at_every_byte(unclean: Damaged, tmp_path: Path) -> None:
    last = unclean.batches[20]
    for size in range(len(last)):
        damaged = Damaged(copied(unclean.path, tmp_path / str(size)), unclean.batches)
        damaged.cut(20, size)
        note(damaged.path, "t-0", 20)
        with opened(damaged.path, **SETTINGS) as log_dir:
            assert served(log_dir.log("t", 0), damaged) == list(range(20)), size
            assert log_dir.log("t", 0).log_end_offset == 20
            assert log_dir.report.cut_bytes == size
            assert damaged.aside == []
        shutil.rmtree(damaged.path)


def test_what_stood_behind_the_cut_is_kept_whole(unfinished: Damaged) -> None:
    damaged = unfinished
    damaged.flip(15)
    rest = damaged.segment(12).read_bytes()[damaged.spans[15][0] :]
    behind = damaged.segment(18).read_bytes()
    with opened(damaged.path, **SETTINGS) as log_dir:
        log_dir.report.text()
    found = [(damaged.folder / name).read_bytes() for name in damaged.aside]
    assert sorted(found) == sorted([rest, behind])


def test_a_hole_is_told_and_passed(damaged: Damaged) -> None:
    damaged.remove(12)
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.holes() == [(12, 18)]
        for offset in (12, 15, 17):
            with pytest.raises(OffsetInHole, match=f"offset {offset}"):
                log.read(offset)
        # What is before the hole ends there; what is behind it begins again.
        assert values(log.read(6)) == [f"7.0.{i}" for i in range(6, 12)]
        assert values(log.read(18)) == [f"7.0.{i}" for i in range(18, 21)]


def test_what_is_before_a_lost_recovery_segment_is_not_deleted_as_empty(damaged: Damaged) -> None:
    damaged.remove(6, 12, 18)
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.segments()[0].end_offset >= 6
        log_dir.checkpoint()
        assert (log.retain(NOW), served(log, damaged)) == (0, list(range(6)))


# Derived files

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


# Names that are not what they seem


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.symlink_to(path.with_name(f"{0:020d}.log"))


@pytest.mark.parametrize("make", [make_pipe, make_link, Path.mkdir])
@pytest.mark.parametrize("base", [3, 40])
def test_a_segment_that_is_no_plain_file_is_left_alone(
    base: int, make: Callable[[Path], object], damaged: Damaged
) -> None:
    make(damaged.segment(base))
    with OpenedInTime(damaged, damaged.segment(base)) as log_dir:
        assert log_dir.report.failures == []
        assert served(log_dir.log("t", 0), damaged) == list(range(END))
        log_dir.close()
    assert os.path.lexists(damaged.segment(base))


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_pipe_in_the_place_of_a_derived_file_does_not_stop_the_start(
    suffix: str, damaged: Damaged
) -> None:
    path = damaged.segment(12, suffix)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with OpenedInTime(damaged, path) as log_dir:
        assert log_dir.report.failures == []
        assert served(log_dir.log("t", 0), damaged) == list(range(END))
        log_dir.close()


class OpenedInTime:
    """Opens on a thread; one that hangs on a pipe is let go by opening the pipe's other end."""

    def __init__(self, damaged: Damaged, pipe: Path) -> None:
        self.path, self.pipe = damaged.path, pipe
        self.found: list[LogDir] = []
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        config = log_config(**SETTINGS)
        self.found.append(LogDir.open(self.path, STORAGE, log_config=lambda t, p: config))

    def __enter__(self) -> LogDir:
        self.thread.start()
        self.thread.join(3)
        hung = self.thread.is_alive()
        while self.thread.is_alive():
            os.close(os.open(self.pipe, os.O_RDWR))
            self.thread.join(0.1)
        assert not hung, f"{self.pipe.name} is a pipe, and opening it waits for ever"
        return self.found[0]

    def __exit__(self, *error: object) -> None:
        self.found[0].abandon()


def test_two_brokers_cannot_have_one_directory(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(LogClosed, match=f"{tmp_path} is in use"):
        LogDir.open(tmp_path, STORAGE)
    with opened(tmp_path):
        pass


def test_a_log_whose_directory_is_gone_is_lost_and_goes_on_where_it_ended(
    damaged: Damaged,
) -> None:
    shutil.rmtree(damaged.folder)
    for _ in range(2):  # it is missing until somebody makes it anew
        with opened(damaged.path) as log_dir:
            (loss,) = log_dir.report.losses
            assert (loss.topic, loss.partition, loss.first_offset, loss.last_offset) == (
                "t", 0, 0, END - 1,
            )  # fmt: skip
            told = f"LOST t-0: offsets 0 to {END - 1}: the directory is gone."
            assert told in log_dir.report.text()
            assert log_dir.logs() == {}
            log_dir.abandon()
    with opened(damaged.path) as log_dir:
        log = log_dir.create("t", 0)
        assert (log.log_start_offset, log.log_end_offset) == (END, END)
        assert log.append_durable(batch("a")).base_offset == END
    with opened(damaged.path) as log_dir:
        assert log_dir.report.losses == []


def test_a_directory_without_records_that_is_gone_is_an_interrupted_creation(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0)
        log_dir.abandon()
    shutil.rmtree(tmp_path / "t-0")
    with opened(tmp_path) as log_dir:
        assert (log_dir.report.losses, log_dir.missing) == ([], {})
        assert log_dir.create("t", 0).log_end_offset == 0


def test_other_names_in_the_directory_are_left_alone(damaged: Damaged) -> None:
    names = ["notes", "t-00", "t-", "-0", "t-1.bak", "lost+found", "a b-0", "t-123456"]
    for name in names:
        (damaged.path / name).mkdir()
        (damaged.path / name / f"{0:020d}.log").write_bytes(b"not ours")
    (damaged.path / "file-0").write_bytes(b"a file")
    (damaged.path / "link-0").symlink_to(damaged.folder)
    with opened(damaged.path) as log_dir:
        assert list(log_dir.logs()) == [("t", 0)]
    left = [(damaged.path / name / f"{0:020d}.log").read_bytes() for name in names]
    assert left == [b"not ours"] * len(names)


def test_one_bad_log_does_not_stop_the_others(damaged: Damaged) -> None:
    with opened(damaged.path, **SETTINGS) as log_dir:
        log_dir.create("good", 0).append_durable(batch("a"))
    shutil.rmtree(damaged.folder)
    damaged.folder.mkdir()
    damaged.segment(POINT).mkdir()
    damaged.segment(END).mkdir()
    with opened(damaged.path) as log_dir:
        assert values(everything(log_dir.log("good", 0))) == ["a"]
        (failure,) = log_dir.report.failures
        assert failure.startswith("t-0: ")
        assert f"NOT OPENED {failure}" in log_dir.report.text()
        with pytest.raises(LogExists, match="exists but is not open"):
            log_dir.create("t", 0)


# Without a journal


def foreign(folder: Path, *segments: tuple[int, list[bytes]]) -> None:
    folder.mkdir(parents=True)
    for base, batches in segments:
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))


def at(offset: int, *values: str, epoch: int = 0) -> bytes:
    return batch(*values, base_offset=offset, leader_epoch=epoch)


def test_a_foreign_directory_is_read_whole(tmp_path: Path) -> None:
    foreign(tmp_path / "t-0", (5, [at(5, "a", "b"), at(7, "c")]), (8, [at(8, "d", epoch=4)]))
    with one_log(tmp_path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (5, 9)
        assert values(everything(log)) == list("abcd")
        assert log.end_offset_for_epoch(0) == (0, 8)
        log.append_durable(batch("e"))
    with one_log(tmp_path) as log:
        assert values(everything(log)) == list("abcde")


def test_a_compacted_foreign_directory_may_have_gaps(tmp_path: Path) -> None:
    foreign(tmp_path / "t-0", (0, [at(3, "a"), at(9, "b")]), (20, [at(22, "c")]), (30, []))
    with opened(tmp_path) as log_dir:
        log = log_dir.log("t", 0)
        assert log_dir.report.losses == []
        assert (values(everything(log)), log.log_end_offset) == (list("abc"), 30)
        assert [values(log.read(offset, 1)) for offset in (0, 4, 10, 23)] == [
            ["a"],
            ["b"],
            ["c"],
            [],
        ]


def test_damage_in_a_foreign_directory_is_a_hole_and_not_an_end(tmp_path: Path) -> None:
    bad = bytearray(at(1, "x"))
    bad[-1] ^= 1
    foreign(tmp_path / "t-0", (0, [at(0, "a"), bytes(bad), at(2, "y")]), (3, [at(3, "b")]))
    for _ in range(2):
        with opened(tmp_path) as log_dir:
            log = log_dir.log("t", 0)
            assert (values(log.read(0)), values(log.read(3))) == (["a"], ["b"])
            for offset in (1, 2):
                with pytest.raises(OffsetInHole):
                    log.read(offset)
            log_dir.abandon()


def test_a_torn_end_of_a_foreign_directory_is_cut(tmp_path: Path) -> None:
    foreign(tmp_path / "t-0", (0, [at(0, "a"), at(1, "b")[:-1]]))
    with opened(tmp_path) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["a"]
        assert log_dir.report.cut_bytes == len(at(1, "b")) - 1


# The report


def test_the_report_of_a_clean_stop_has_nothing_to_tell(tmp_path: Path) -> None:
    build(tmp_path, cleanly=True)
    with opened(tmp_path) as log_dir:
        report = log_dir.report
        assert (report.was_clean, report.scanned_bytes, report.partitions) == (True, 0, 1)
        first, last = report.text().splitlines()
        assert first.startswith("Opened 1 partition")
        assert first.endswith("after a clean stop.")
        assert last.startswith("No acknowledged record was lost: every segment")


def test_the_report_of_a_new_directory_speaks_of_no_crash(tmp_path: Path) -> None:
    with opened(tmp_path / "new") as log_dir:
        assert not any(word in log_dir.report.text() for word in ("unclean", "crash", "LOST"))


def test_the_report_says_what_was_cut_and_set_aside(unfinished: Damaged) -> None:
    damaged = unfinished
    damaged.flip(15)
    size = sum(len(each) for each in damaged.batches[15:18])
    behind = damaged.segment(18).stat().st_size
    with opened(damaged.path, **SETTINGS) as log_dir:
        text = log_dir.report.text()
    assert "after an unclean end (crash, kill or power cut)." in text
    assert f"Cut {spoken.size(size)} of unfinished writes, none acknowledged as durable." in text
    assert f"Set {spoken.size(size + behind)} aside in files named *.corrupt-*." in text
    # 16 and 17, and the next segment's 18 to 20
    assert "Behind a torn write there were 5 whole records that were not noted as" in text
    assert "No acknowledged record was lost: all that was noted is there." in text


def test_the_report_says_what_was_lost(damaged: Damaged) -> None:
    damaged.remove(12)
    with opened(damaged.path, **SETTINGS) as log_dir:
        text = log_dir.report.text()
    assert "LOST t-0: offsets 12 to 17: a segment is missing." in text
    assert "No acknowledged record was lost" not in text


def test_progress_is_told_log_by_log(damaged: Damaged) -> None:
    with opened(damaged.path, **SETTINGS) as log_dir:
        for i in range(4):
            log_dir.create("u", i)
    told: list[tuple[int, int]] = []
    LogDir.open(damaged.path, STORAGE, progress=lambda *each: told.append(each)).close()
    assert told == [(i, 5) for i in range(1, 6)]
