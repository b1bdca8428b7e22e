"""Group commit: fewer syncs than appends, waiters woken by success, failure and closing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.config import StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, LogClosed, LogFailed, TimedOut
from tests.support.logs import (
    NOW,
    batch,
    break_file,
    everything,
    log_config,
    one_log,
    opened,
    until,
    values,
)

QUIET = {"checkpoint_interval_ms": 3_600_000, "reserve_bytes": 0, "low_water_bytes": 0}


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Results in order; the first error is raised."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def outcome(work: Callable[[], Any]) -> str:
    try:
        work()
    except ApplianceError as error:
        return type(error).__name__
    return "ok"


@pytest.mark.parametrize("sync", ["auto", "files", "filesystem"])
@pytest.mark.parametrize("threads", [1, 4])
def test_many_threads_on_many_partitions_are_all_made_durable(
    threads: int, sync: str, tmp_path: Path
) -> None:
    config = StorageConfig(**QUIET, sync=sync, sync_threads=threads)
    log_dir = LogDir.open(tmp_path, config)
    logs = [log_dir.create("t", i, log_config()) for i in range(12)]

    def produce(worker: int) -> None:
        for i in range(15):
            log = logs[(worker + i) % len(logs)]
            appended = log.append_durable(batch(f"{worker}.{i}"))
            assert log.durable_offset > appended.last_offset

    in_threads(8, produce)
    found = [value for log in logs for value in values(everything(log, "visible"))]
    assert sorted(found) == sorted(f"{worker}.{i}" for worker in range(8) for i in range(15))
    log_dir.abandon()
    with opened(tmp_path) as again:
        assert sum(log.log_end_offset for log in again.logs().values()) == 120


def test_appends_that_wait_together_share_a_sync(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("first"))
        before, barrier = log_dir.counters(), threading.Barrier(8)

        def produce(worker: int) -> None:
            for i in range(25):
                appended = log.append(batch(f"{worker}.{i}"))
                barrier.wait(20)  # all wait together, however fast the disk is
                log.await_durable(appended.last_offset)

        in_threads(8, produce)
        syncs = log_dir.counters()["syncs"] - before["syncs"]
        assert (log.durable_offset, 1 <= syncs < 150) == (201, True)


def test_appends_before_one_flush_cost_one_sync(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("first"))
        before = log_dir.counters()
        for _ in range(100):
            log.append(batch("a"))
        log.flush()
        after = log_dir.counters()
        assert after["syncs"] - before["syncs"] == 1
        assert after["logs_committed"] - before["logs_committed"] == 1
        log.flush()
        assert log_dir.counters() == after


def test_one_commit_covers_the_partitions_that_wait(tmp_path: Path) -> None:
    """While one commit is at the disk the others gather for the next."""
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", i, log_config()) for i in range(40)]
        before = log_dir.counters()
        for log in logs:
            log.append(batch("a"))
        for log in logs:
            log.ask_commit()
        for log in logs:
            log.await_durable(0)
        after = log_dir.counters()
        assert after["logs_committed"] - before["logs_committed"] >= 40
        assert after["commits"] - before["commits"] < 40


def test_a_commit_makes_every_segment_durable_that_was_rolled_meanwhile(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=200) as log_dir:
        log = log_dir.create("t", 0, log_config(segment_bytes=200))
        for i in range(30):
            log.append(batch(str(i)))
        assert len(log.segments()) == 15
        log.await_durable(29)
        log_dir.checkpoint()
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert log_dir.report.scanned_bytes == 0
        assert values(everything(log_dir.log("t", 0))) == [str(i) for i in range(30)]


def test_a_roll_is_committed_without_being_asked(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        log.roll()
        until(lambda: log.durable_offset == 1)


def test_waiters_at_different_offsets_are_all_woken(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for i in range(8):
            log.append(batch(str(i)))
        in_threads(8, lambda i: log.await_durable(i, 20.0))
        assert log.durable_offset == 8


def test_a_waiter_for_the_next_record_is_woken_when_it_comes(tmp_path: Path) -> None:
    with one_log(tmp_path) as log, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.await_durable, 0, 20.0)
        log.append(batch("a"))
        log.ask_commit()
        waiting.result(20)
        assert log.durable_offset == 1


def test_a_deadline_is_kept_and_the_record_stays(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        with pytest.raises(TimedOut):
            log.await_durable(0, timeout_s=0.01)
        assert log.append_durable(batch("a")).base_offset == 0


# Failure


def test_a_failed_sync_wakes_every_waiter_with_the_error(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log, other = (log_dir.create("t", i, log_config()) for i in range(2))
        log.append_durable(batch("kept"))
        for i in range(6):
            log.append(batch(str(i)))
        break_file(log)
        found = in_threads(6, lambda i: outcome(lambda: log.await_durable(1 + i, 20.0)))
        assert found == ["LogFailed"] * 6
        assert (log.failed, log.durable_offset, log.high_watermark) == ("StorageIoFailed", 1, 1)
        check_failed_for_good(log)
        # The neighbour lives.
        assert other.append_durable(batch("fine")).base_offset == 0
        assert log_dir.retain(NOW) == 0
        log_dir.close()
    with opened(tmp_path) as log_dir:
        assert not log_dir.report.was_clean
        assert values(everything(log_dir.log("t", 0)))[0] == "kept"
        assert log_dir.log("t", 0).failed is None


def check_failed_for_good(log: Log) -> None:
    for attempt in (
        lambda: log.append(batch("late")),
        lambda: log.await_durable(5, 20.0),
        lambda: log.flush(20.0),
        log.roll,
        lambda: log.truncate(1),
    ):
        with pytest.raises(LogFailed):
            attempt()
    assert (log.read(1), log.read(1, up_to="stable")) == (b"", b"")


def test_a_failed_log_with_visibility_appended_shows_only_what_is_durable(tmp_path: Path) -> None:
    with opened(tmp_path, visibility="appended") as log_dir:
        log = log_dir.create("t", 0, log_config(visibility="appended"))
        log.append_durable(batch("kept"))
        log.append(batch("phantom"))
        break_file(log)
        with pytest.raises(LogFailed):
            log.flush()
        assert (log.high_watermark, log.last_stable_offset, log.read(1)) == (1, 1, b"")
        log_dir.close()


def test_a_failed_log_is_not_synced_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("kept"))
        log.append(batch("lost"))
        break_file(log)
        with pytest.raises(LogFailed):
            log.flush()
        before = log_dir.counters()["syncs"]
        for _ in range(3):
            log.ask_commit()
            with pytest.raises(LogFailed):
                log.flush()
        log_dir.checkpoint()
        assert log_dir.counters()["syncs"] == before
        log_dir.close()


def test_a_waiter_is_told_when_its_log_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir, ThreadPoolExecutor(1) as pool:
        log = log_dir.create("t", 0, log_config())
        commits = log_dir.counters()["commits"]
        waiting = pool.submit(log.await_durable, 0, 10.0)
        # It asked for a commit, which came and brought nothing for it.
        until(lambda: log_dir.counters()["commits"] > commits)
        log_dir.delete("t", 0)
        with pytest.raises(LogClosed):
            waiting.result(20)


def test_a_waiter_is_told_when_the_directory_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir, ThreadPoolExecutor(1) as pool:
        log = log_dir.create("t", 0, log_config())
        commits = log_dir.counters()["commits"]
        waiting = pool.submit(log.await_durable, 0, 10.0)
        # It asked for a commit, which came and brought nothing for it.
        until(lambda: log_dir.counters()["commits"] > commits)
        log_dir.close()
        with pytest.raises(LogClosed):
            waiting.result(20)


def test_a_truncation_under_waiters_leaves_none_behind(tmp_path: Path) -> None:
    """It may have been durable before the cut; else there is nothing more to wait for."""
    with one_log(tmp_path) as log:
        for i in range(8):
            log.append(batch(str(i)))
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(outcome, lambda: log.await_durable(0, 0.1))
                log.truncate(0)
                assert waiting.result(20) in ("ok", "OffsetOutOfRange", "TimedOut")
            assert log.durable_offset == log.log_end_offset == 0


def test_checkpoint_returns_after_the_points_are_saved(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", i, log_config()) for i in range(3)]

        def work(worker: int) -> None:
            for _ in range(10):
                if worker < 3:
                    logs[worker].append_durable(batch("a" * 100))
                else:
                    log_dir.checkpoint()

        in_threads(5, work)
        log_dir.checkpoint()
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert log_dir.report.scanned_bytes == 0


def test_the_timer_saves_recovery_points_by_itself(tmp_path: Path) -> None:
    config = StorageConfig(**{**QUIET, "checkpoint_interval_ms": 20})
    log_dir = LogDir.open(tmp_path, config)
    log = log_dir.create("t", 0, log_config())
    log.append_durable(batch("a" * 20_000))
    journal = [tmp_path / f"checkpoint.{i}" for i in range(2)]
    point = log.log_end_offset.to_bytes(8, "big") + bytes(8) + log.size.to_bytes(8, "big")
    until(lambda: any(point in path.read_bytes() for path in journal))
    log_dir.abandon()
    with opened(tmp_path) as again:
        assert again.report.scanned_bytes == 0


def test_threads_that_append_to_one_log_get_each_its_own_offsets(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        barrier = threading.Barrier(4)

        def produce(worker: int) -> list[int]:
            barrier.wait(20)
            return [log.append(batch(f"{worker}")).base_offset for _ in range(200)]

        offsets = in_threads(4, produce)
        assert sorted(itertools.chain(*offsets)) == list(range(800))
        assert all(each == sorted(each) for each in offsets)
        found = values(everything(log))
        assert all(found[at] == str(worker) for worker in range(4) for at in offsets[worker])
