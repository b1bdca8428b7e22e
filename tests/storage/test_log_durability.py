"""When an append to a log is durable, waited for or not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from appliance.errors import TimedOut
from tests.support.logs import DAY_MS, LONG, batch, log_config, one_log, opened, until


def test_await_durable_returns_when_it_is(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        log.append(batch("b"))
        log.await_durable(0)
        assert log.durable_offset >= 1
        log.await_durable(1)
        assert log.durable_offset == 2


def test_awaiting_what_was_never_appended_times_out_with_the_numbers(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a"))
        with pytest.raises(TimedOut, match=r"offset 7 .* 0\.02 s.* up to 1, log end 1"):
            log.await_durable(7, timeout_s=0.02)


def test_the_age_of_unflushed_records_counts_from_the_oldest(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        assert log.unflushed_age_ms == 0
        log.append(batch("a"))
        until(lambda: log.unflushed_age_ms >= 20)
        log.append(batch("b"))
        assert log.unflushed_age_ms >= 20
        log.flush()
        assert log.unflushed_age_ms == 0


def test_after_m_records_a_log_is_committed_by_itself(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_messages=5) as log:
        log.append(batch("a", "b"))
        log.append(batch("c", "d"))
        assert log.durable_offset == 0
        log.append(batch("e"))
        until(lambda: log.durable_offset == 5)
        log.append(batch("f"))
        assert log.durable_offset == 5


def test_after_s_milliseconds_a_log_is_committed_by_itself(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=30) as log:
        for _ in range(3):
            log.append(batch("a"))
            until(lambda: log.durable_offset == log.log_end_offset)
            assert log.unflushed_age_ms == 0


def test_the_time_counts_from_the_oldest_record_while_others_follow(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=50) as log:
        log.append(batch("a"))
        ages = []

        def appended_until_durable() -> bool:
            ages.append(log.unflushed_age_ms)
            log.append(batch("b"))
            return log.durable_offset > 0

        until(appended_until_durable)
        assert max(ages) >= 30


def test_commits_by_count_leave_no_later_ones_behind(tmp_path: Path) -> None:
    """Each had a deadline, for records that it made durable itself."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(flush_messages=10, flush_ms=200))
        began, before = time.monotonic(), log_dir.counters()["commits"]
        for _ in range(20):
            log.append(batch("0"))
            log.append(batch(*"123456789"))
            until(lambda: log.durable_offset == log.log_end_offset)
        for _ in range(150):
            log.append(batch("a"))
            time.sleep(0.002)
        most = log.log_end_offset // 10 + (time.monotonic() - began) // 0.2
        assert log_dir.counters()["commits"] - before <= most


def test_a_record_behind_a_commit_has_its_own_time(tmp_path: Path) -> None:
    """The deadline on the list is that of the first, which a commit has overtaken."""
    with one_log(tmp_path, flush_ms=200) as log:
        log.append(batch("a"))
        log.flush()
        log.append(batch("b"))
        until(lambda: log.durable_offset == 2)


@pytest.mark.parametrize("long_ms", [DAY_MS, LONG])
def test_a_shorter_time_counts_for_what_is_unflushed(long_ms: int, tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=long_ms) as log:
        log.append(batch("a"))
        log.configure(log_config(flush_ms=30))
        until(lambda: log.durable_offset == 1)


def test_a_smaller_number_counts_for_what_is_unflushed(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_messages=100) as log:
        log.append(batch("a", "b"))
        log.configure(log_config(flush_messages=2))
        until(lambda: log.durable_offset == 2)


def test_a_longer_time_takes_nothing_back(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=200) as log:
        log.append(batch("a"))
        log.configure(log_config(flush_ms=DAY_MS))
        until(lambda: log.durable_offset == 1)


def test_a_longer_time_counts_from_the_next_record_on(tmp_path: Path) -> None:
    with one_log(tmp_path, flush_ms=30) as log:
        log.append(batch("a"))
        log.flush()
        log.configure(log_config(flush_ms=DAY_MS))
        log.append(batch("b"))
        until(lambda: log.unflushed_age_ms >= 60)
        assert log.durable_offset == 1
        log.configure(log_config(flush_ms=30))
        log.flush()
        log.append(batch("c"))
        until(lambda: log.durable_offset == 3)


def test_an_idle_log_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(flush_ms=DAY_MS))
        log.append(batch("a"))
        log_dir.engine.poll()
        before = log_dir.counters()
        until(lambda: log.unflushed_age_ms >= 50)
        assert (log.durable_offset, log_dir.counters()) == (0, before)
