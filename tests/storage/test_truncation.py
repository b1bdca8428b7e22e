"""Truncation: what is left of a log, also when it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch
from tests.support.logs import (
    NOW,
    bases,
    batch,
    everything,
    log_config,
    one_log,
    opened,
    reopened,
    segment_bases,
    values,
)


def shortened(log: Log, offset: int) -> list[bytes]:
    return [each for each in everything(log) if _batch.headers(each)[0].last_offset < offset]


def fill_for_truncation(log_dir: LogDir) -> Log:
    """Batches of three records, two a segment: 0, 3 | 6, 9 | 12, 15."""
    log = log_dir.create("t", 0, log_config(index_interval_bytes=0))
    for i in range(6):
        if i and i % 2 == 0:
            log.roll()
        log.append(batch(f"{i}a", f"{i}b", f"{i}c", timestamp=NOW + i), leader_epoch=i // 3)
    return log


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "not flushed"])
@pytest.mark.parametrize("offset", [0, 1, 3, 5, 6, 7, 9, 12, 14, 15, 17, 18, 25])
def test_a_truncated_log_holds_what_ends_below_the_offset(
    offset: int, is_durable: bool, tmp_path: Path
) -> None:
    with opened(tmp_path, index_interval_bytes=0) as log_dir:
        log = fill_for_truncation(log_dir)
        if is_durable:
            log.flush()
            log_dir.checkpoint()
        wanted = shortened(log, offset)
        log.truncate(offset)
        end = min(offset, 18) // 3 * 3
        assert (log.log_end_offset, log.log_start_offset) == (end, 0)
        assert everything(log) == wanted
        # Nothing moves when nothing is cut; what was cut into is durable again.
        assert log.durable_offset == (end if is_durable or offset < 18 else log.durable_offset)
        appended = log.append_durable(batch("new", timestamp=NOW + 9))
        assert appended.base_offset == end
        wanted.append(log.read(end))
        for cleanly in (False, True):
            log_dir = reopened(log_dir, cleanly, index_interval_bytes=0)
            assert everything(log_dir.log("t", 0)) == wanted
            assert log_dir.report.losses == []
            assert log_dir.report.cut_bytes == 0
        log_dir.close()


@pytest.mark.parametrize("offset", [0, 4, 6, 13])
def test_the_end_stays_where_truncation_put_it(offset: int, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = fill_for_truncation(log_dir)
        log.flush()
        log_dir.checkpoint()
        wanted = shortened(log, offset)
        log.truncate(offset)
        again = reopened(log_dir, cleanly=False)
        assert everything(again.log("t", 0)) == wanted
        again.close()


def test_truncation_takes_epochs_and_times_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = fill_for_truncation(log_dir)
        log.truncate(7)
        assert log.end_offset_for_epoch(9) == (0, 6)
        assert log.offset_for_timestamp(NOW + 1) == (3, NOW + 1)
        assert log.offset_for_timestamp(NOW + 2) is None
        assert log.segments()[-1].largest_timestamp in (None, -1)
        log.append_durable(batch("x", timestamp=NOW + 7), leader_epoch=4)
        assert [log.end_offset_for_epoch(each) for each in (0, 1, 4)] == [(0, 6), (0, 6), (4, 7)]
        assert log.offset_for_timestamp(NOW + 2) == (6, NOW + 7)


def test_a_truncated_log_rolls_as_if_it_had_never_been_longer(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = fill_for_truncation(log_dir)
        log.truncate(9)
        assert [(each.base_offset, each.end_offset) for each in log.segments()] == [(0, 6), (6, 9)]
        log.append(batch("a"))
        log.roll()
        log.append(batch("b"))
        assert segment_bases(log) == [0, 6, 10]
        assert values(everything(log))[-3:] == ["2c", "a", "b"]


def test_truncation_inside_the_batch_of_the_log_start_leaves_an_empty_log(tmp_path: Path) -> None:
    """The whole batch goes, and the start must not stay behind the end: appends would be lost."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a", "b", "c"))
        log.delete_before(1)
        log.truncate(2)
        assert (log.log_start_offset, log.log_end_offset, log.read(0)) == (0, 0, b"")
        log.append_durable(batch("new"))
        for cleanly in (False, True):
            assert values(everything(log)) == ["new"]
            log_dir = reopened(log_dir, cleanly)
            log = log_dir.log("t", 0)
        log_dir.close()


def test_truncation_drops_the_index_entries_of_what_it_cut(tmp_path: Path) -> None:
    with opened(tmp_path, index_interval_bytes=0) as log_dir:
        log = log_dir.create("t", 0, log_config(index_interval_bytes=0))
        for i in range(40):
            log.append(batch(str(i), timestamp=NOW + i))
        log.flush()
        log_dir.checkpoint()
        log.truncate(5)
        for i in range(40):
            log.append(batch("x" * i, timestamp=NOW + 100 + i))
        log.flush()
        for cleanly in (True, False):
            log_dir = reopened(log_dir, cleanly, index_interval_bytes=0)
            log = log_dir.log("t", 0)
            assert [bases(log.read(at, 1)) for at in range(45)] == [[at] for at in range(45)]
            assert log.offset_for_timestamp(NOW + 6) == (5, NOW + 100)
        log_dir.close()


Interruption = Callable[[Path, dict[str, bytes]], None]


def all_files_back(folder: Path, before: dict[str, bytes]) -> None:
    for name, data in before.items():
        (folder / name).write_bytes(data)


def last_segment_gone(folder: Path, before: dict[str, bytes]) -> None:
    all_files_back(folder, before)
    (folder / f"{12:020d}.log").unlink()


def copy_not_renamed(folder: Path, before: dict[str, bytes]) -> None:
    shorter = (folder / f"{6:020d}.log").read_bytes()
    last_segment_gone(folder, before)
    (folder / f"{6:020d}.log.cleaned").write_bytes(shorter)


def half_a_copy(folder: Path, before: dict[str, bytes]) -> None:
    copy_not_renamed(folder, before)
    (folder / f"{6:020d}.log.cleaned").write_bytes(b"\0" * 10)


def copy_renamed(folder: Path, before: dict[str, bytes]) -> None:
    return


@pytest.mark.parametrize(
    "interrupted",
    [all_files_back, last_segment_gone, copy_not_renamed, half_a_copy, copy_renamed],
)
def test_an_interrupted_truncation_is_finished_at_the_next_start(
    interrupted: Interruption, tmp_path: Path
) -> None:
    """The journal holds the limit; the files are made to look as at each later step."""
    with opened(tmp_path) as log_dir:
        log = fill_for_truncation(log_dir)
        log.flush()
        log_dir.checkpoint()
        wanted = shortened(log, 10)
        folder = log_dir.path / "t-0"
        before = {path.name: path.read_bytes() for path in folder.glob("*.log")}
        journal = limit_announced(log_dir, 10)
        log_dir.abandon()
    for path, data in journal.items():
        path.write_bytes(data)
    interrupted(folder, before)
    for _ in range(2):
        with opened(tmp_path) as log_dir:
            log = log_dir.log("t", 0)
            assert (everything(log), log.log_end_offset) == (wanted, 9)
            assert log_dir.report.losses == []
            assert list(folder.glob("*.cleaned")) == []
            log_dir.abandon()


def limit_announced(log_dir: LogDir, offset: int) -> dict[Path, bytes]:
    """The journal as it was between the two records that a truncation writes: the last one cut off.

    The records are found by their heads: size, CRC, generation, sequence."""
    paths = sorted(log_dir.path.glob("checkpoint.*"))
    before = {path: path.read_bytes() for path in paths}
    log_dir.log("t", 0).truncate(offset)
    changed = [path for path in paths if path.read_bytes() != before[path]]
    (path,) = changed
    ends = [end_of_records(data) for data in (before[path], path.read_bytes())]
    assert len(ends[1]) == len(ends[0]) + 2
    cut = ends[1][-2]
    data = path.read_bytes()
    return {**before, path: data[:cut] + bytes(len(data) - cut)}


def end_of_records(data: bytes) -> list[int]:
    ends, at = [], 0
    while size := int.from_bytes(data[at : at + 4], "big"):
        at += (24 + size + 7) // 8 * 8
        ends.append(at)
    return ends


def test_truncation_and_deletion_can_alternate(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for turn in range(6):
            for i in range(5):
                log.append_durable(batch(f"{turn}.{i}"))
            log.roll()
            log.truncate(log.log_end_offset - 2)
            log.delete_before(log.log_start_offset + 2)
        assert (log.log_start_offset, log.log_end_offset) == (12, 18)
        assert values(everything(log)) == ["4.0", "4.1", "4.2", "5.0", "5.1", "5.2"]


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_time_that_was_cut_off_keeps_no_segment(offset: int, tmp_path: Path) -> None:
    """Its entry is in the file of the index, and two crashes follow before the next checkpoint."""
    late, given = NOW + 60_000, {"index_interval_bytes": 0, "retention_ms": 1000}
    with opened(tmp_path, **given) as log_dir:
        log = log_dir.create("t", 0, log_config(**given))
        for i in range(4):
            log.append(batch(f"{i}", timestamp=late if i >= offset else NOW))
    with opened(tmp_path, **given) as log_dir:
        log = log_dir.log("t", 0)
        log.truncate(offset)
        for _ in range(3):
            log.append(batch("anew", timestamp=NOW))
        log.roll()
        log_dir.abandon()
    with opened(tmp_path, **given) as log_dir:
        log_dir.abandon()
    with opened(tmp_path, **given) as log_dir:
        log = log_dir.log("t", 0)
        assert log.offset_for_timestamp(NOW + 1) is None
        log.retain(NOW + 1001)
        assert segment_bases(log) == [offset + 3]
