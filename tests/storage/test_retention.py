"""What shortens a log: retention by time and size, deletion up to an offset, truncation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, OffsetOutOfRange
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

HOUR_MS = 3_600_000
KEPT_MS = 24 * HOUR_MS
HOW = pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    """A log of five sealed segments of two batches each, and an active one; an hour a segment."""
    with opened(tmp_path / "data") as each:
        fill(each)
        yield each


def fill(log_dir: LogDir, topic: str = "t") -> Log:
    log = log_dir.create(topic, 0, log_config())
    for hour in range(6):
        for i in range(2):
            log.append(batch(f"{hour}.{i}", timestamp=NOW + hour * HOUR_MS + i))
        if hour < 5:
            log.roll()
    log.flush()
    log_dir.checkpoint()
    return log


def files(log_dir: LogDir) -> list[str]:
    return sorted(path.name for path in (log_dir.path / "t-0").iterdir())


def logs_on_disk(log_dir: LogDir) -> list[int]:
    return [int(name[:20]) for name in files(log_dir) if name.endswith(".log")]


# Time


@pytest.mark.parametrize(
    ("now", "first"),
    [
        (NOW, 0),
        (NOW + 1 + KEPT_MS, 0),
        (NOW + 2 + KEPT_MS, 2),
        (NOW + 4 * HOUR_MS + 1 + KEPT_MS, 8),
        (NOW + 4 * HOUR_MS + 2 + KEPT_MS, 10),
    ],
)
def test_a_segment_goes_when_its_youngest_record_is_too_old(
    now: int, first: int, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    log.configure(log_config(retention_ms=KEPT_MS))
    assert log.retain(now) == first // 2
    assert (log.log_start_offset, segment_bases(log)[0]) == (first, first)
    assert logs_on_disk(log_dir) == segment_bases(log)
    assert log.retain(now) == 0


def test_a_segment_behind_a_younger_one_waits_for_it(tmp_path: Path) -> None:
    """Retention works from the front: a log has one start."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(retention_ms=10))
        for timestamp in (NOW, NOW + 1000, NOW):
            log.append_durable(batch("a", timestamp=timestamp))
            log.roll()
        log.flush()
        log_dir.checkpoint()
        assert log.retain(NOW + 500) == 1
        assert log.log_start_offset == 1


def test_the_active_segment_is_rolled_when_all_in_it_is_too_old(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.configure(log_config(retention_ms=KEPT_MS))
    late = NOW + 6 * HOUR_MS + KEPT_MS
    log.retain(late)
    assert segment_bases(log)[-1] == 12
    log.flush()
    log_dir.checkpoint()
    log.retain(late)
    assert (segment_bases(log), log.log_start_offset, log.log_end_offset) == ([12], 12, 12)
    assert log.read(12) == b""
    log.append_durable(batch("next", timestamp=late))
    assert values(log.read(12)) == ["next"]
    # The empty active segment was not rolled again and again.
    assert segment_bases(log) == [12]


def test_without_a_limit_nothing_goes(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    assert (log.retain(1 << 62), log_dir.retain(1 << 62)) == (0, 0)
    assert logs_on_disk(log_dir) == [0, 2, 4, 6, 8, 10]


def test_a_compacted_log_is_not_shortened_by_time_or_size(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.configure(log_config(retention_ms=1, retention_bytes=1, cleanup_policy="compact"))
    assert (log.retain(1 << 60), len(log.segments())) == (0, 6)
    log.configure(log_config(retention_bytes=1, cleanup_policy="compact,delete"))
    assert log.retain(NOW) == 5


@pytest.mark.parametrize("timestamp", [-1, 1 << 62], ids=["none", "far in the future"])
def test_unknown_and_future_timestamps_never_delete(timestamp: int, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(retention_ms=1))
        for _ in range(3):
            log.append_durable(batch("a", timestamp=timestamp))
            log.roll()
        log.flush()
        log_dir.checkpoint()
        assert (log.retain(NOW), log.log_start_offset) == (0, 0)


@pytest.mark.parametrize("damage", ["lost", "zeroed", "cut", "garbage", "of old records"])
@HOW
def test_a_wrong_time_index_does_not_delete_early(
    cleanly: bool, damage: str, tmp_path: Path
) -> None:
    """The youngest record is the last: an index that lost its tail must not hide it."""
    given = {"index_interval_bytes": 0, "retention_ms": 1000}
    with opened(tmp_path, **given) as log_dir:
        log = log_dir.create("t", 0, log_config(**given))
        for _ in range(2):
            for age in (5000, 4000, 3000, 0):
                log.append(batch("a", timestamp=NOW - age))
            log.roll()
        log.flush()
        log_dir.checkpoint()
        if not cleanly:
            log_dir.abandon()
    for path in (tmp_path / "t-0").glob("*.timeindex"):
        data = path.read_bytes()
        changed = {
            "zeroed": bytes(len(data)),
            "cut": data[:12],
            "garbage": b"\x07" * len(data),
            "of old records": data[:12] + bytes(12 * 9),
        }
        path.unlink() if damage == "lost" else path.write_bytes(changed[damage])
    with opened(tmp_path, **given) as log_dir:
        log = log_dir.log("t", 0)
        assert (log.retain(NOW + 900), log.log_start_offset) == (0, 0)
        # And it deletes when it should, unless the index invents younger records.
        if damage != "garbage":
            assert log.retain(NOW + 1001) == 2


def test_a_failed_look_at_one_log_leaves_the_others_alone(log_dir: LogDir) -> None:
    """A segment that cannot be read is not one to delete."""
    again = reopened(log_dir, cleanly=True, retention_ms=KEPT_MS)
    log = again.log("t", 0)
    path = Path(log.segments()[0].path)
    path.with_suffix(".timeindex").unlink(missing_ok=True)
    data = path.read_bytes()
    path.write_bytes(b"\xff" * 40 + data[40:])
    with pytest.raises(ApplianceError):
        log.retain(NOW + 2 * HOUR_MS + KEPT_MS)
    assert (log.log_start_offset, path.exists()) == (0, True)
    again.close()


# Size


@pytest.mark.parametrize(("batches_kept", "first"), [(12, 0), (11, 0), (10, 2), (5, 6), (1, 10)])
def test_the_oldest_segments_go_while_enough_is_left(
    batches_kept: int, first: int, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    limit = batches_kept * log.size // 12
    log.configure(log_config(retention_bytes=limit))
    log.retain(NOW)
    assert log.log_start_offset == first
    assert log.size >= limit
    assert logs_on_disk(log_dir) == segment_bases(log)


def test_the_active_segment_never_goes_for_its_size(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.configure(log_config(retention_bytes=0))
    log.retain(NOW)
    assert (segment_bases(log), values(everything(log))) == ([10], ["5.0", "5.1"])


# What must not go


def test_the_segment_that_recovery_begins_in_does_not_go(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(retention_bytes=0))
        for name in "abc":
            log.append_durable(batch(name))
            log.roll()
        log.flush()
        assert log.retain(NOW) == 0
        log_dir.checkpoint()
        assert log.retain(NOW) == 3


def test_files_of_a_deleted_segment_are_all_gone(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.delete_before(10)
    assert [name for name in files(log_dir) if not name.startswith(f"{10:020d}")] == []


def test_the_directory_retains_every_log_and_counts(log_dir: LogDir) -> None:
    fill(log_dir, "u")
    for log in log_dir.logs().values():
        log.configure(log_config(retention_ms=KEPT_MS))
    assert log_dir.retain(NOW + 2 * HOUR_MS + KEPT_MS) == 4


# The start of the log


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


# Truncation


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
