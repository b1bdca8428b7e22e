"""Retention by time and size: which segments go, and which must not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError
from tests.support.hourly_log import HOUR_MS, files, fill, logs_on_disk
from tests.support.logs import (
    NOW,
    batch,
    everything,
    log_config,
    opened,
    reopened,
    segment_bases,
    values,
)

KEPT_MS = 24 * HOUR_MS
HOW = pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    """A log of five sealed segments of two batches each, and an active one; an hour a segment."""
    with opened(tmp_path / "data") as each:
        fill(each)
        yield each


def test_a_segment_that_cannot_be_unlinked_keeps_no_other_and_is_tried_again(
    log_dir: LogDir,
) -> None:
    log, late = log_dir.log("t", 0), NOW + 4 * HOUR_MS + 2 + KEPT_MS
    log.configure(log_config(retention_ms=KEPT_MS))
    first = Path(log.segments()[0].path)
    first.unlink()
    first.mkdir()
    for _ in range(2):
        with pytest.raises(ApplianceError):
            log.retain(late)
        assert (logs_on_disk(log_dir), log.log_start_offset) == ([0, 10], 10)
    log.delete_before(10)  # it has begun there: for readers all is done
    first.rmdir()
    assert log.retain(late) == 1
    assert log.retain(late) == 0


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
