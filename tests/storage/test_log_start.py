"""The start of a log: deletion up to an offset, and where it stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.data_dir.log_dir import LogDir
from appliance.errors import OffsetOutOfRange
from tests.support.hourly_log import fill, logs_on_disk
from tests.support.logs import (
    NOW,
    bases,
    batch,
    everything,
    log_config,
    opened,
    reopened,
    segment_bases,
    values,
)

HOW = pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    """A log of five sealed segments of two batches each, and an active one; an hour a segment."""
    with opened(tmp_path / "data") as each:
        fill(each)
        yield each


@HOW
def test_the_log_start_survives_a_reopen(cleanly: bool, log_dir: LogDir) -> None:
    log_dir.log("t", 0).delete_before(5)
    again = reopened(log_dir, cleanly)
    log = again.log("t", 0)
    assert (log.log_start_offset, segment_bases(log)) == (5, [4, 6, 8, 10])
    with pytest.raises(OffsetOutOfRange):
        log.read(4)
    assert bases(log.read(5)) == [5]
    assert again.report.losses == []
    again.close()


@pytest.mark.parametrize(("offset", "kept"), [(0, 0), (1, 0), (2, 2), (3, 2), (11, 10), (12, 10)])
def test_delete_before_hides_records_at_once_and_drops_whole_segments(
    offset: int, kept: int, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    log.delete_before(offset)
    assert log.log_start_offset == offset
    assert logs_on_disk(log_dir)[0] == kept
    if offset:
        with pytest.raises(OffsetOutOfRange):
            log.read(offset - 1)


def test_delete_before_up_to_the_end_empties_the_log(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.delete_before(-1)
    assert (log.log_start_offset, log.log_end_offset, log.read(12)) == (12, 12, b"")
    assert log.append_durable(batch("a")).base_offset == 12
    again = reopened(log_dir, cleanly=False)
    assert values(everything(again.log("t", 0))) == ["a"]
    again.close()


@pytest.mark.parametrize("offset", [13, -2, 1 << 40])
def test_delete_before_takes_no_offset_that_consumers_were_not_shown(
    offset: int, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    log.append(batch("hidden"))
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset}; high watermark 12"):
        log.delete_before(offset)
    assert log.log_start_offset == 0


def test_the_log_start_never_moves_back(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.delete_before(7)
    log.delete_before(3)
    assert log.log_start_offset == 7


def test_retention_does_not_move_the_log_start_back(tmp_path: Path) -> None:
    """Segments that could not go with delete_before, as recovery began in them, go later."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for i in range(8):
            log.append(batch(str(i)))
            if i % 2:
                log.roll()
        log.flush()
        log.delete_before(5)
        log_dir.checkpoint()
        log.retain(NOW)
        assert log.log_start_offset == 5
        with pytest.raises(OffsetOutOfRange):
            log.read(4)
        assert logs_on_disk(log_dir) == [4, 6, 8]


def test_an_interrupted_deletion_is_finished_at_the_next_start(log_dir: LogDir) -> None:
    """The start is in the journal, the files are still there: a crash between the two."""
    names = [f"{base:020d}.log" for base in (0, 2, 4)]
    kept = {name: (log_dir.path / "t-0" / name).read_bytes() for name in names}
    log_dir.log("t", 0).delete_before(5)
    log_dir.abandon()
    for name, data in kept.items():
        (log_dir.path / "t-0" / name).write_bytes(data)
    with opened(log_dir.path) as again:
        log = again.log("t", 0)
        assert (log.log_start_offset, logs_on_disk(again)) == (5, [4, 6, 8, 10])
        assert values(everything(log))[-7:] == ["2.1", "3.0", "3.1", "4.0", "4.1", "5.0", "5.1"]


def test_truncation_below_the_log_start_is_refused(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.delete_before(5)
    with pytest.raises(OffsetOutOfRange, match="to offset 4; log start 5"):
        log.truncate(4)
    log.truncate(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    again = reopened(log_dir, cleanly=False)
    log = again.log("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert log.append_durable(batch("a")).base_offset == 5
    again.close()
