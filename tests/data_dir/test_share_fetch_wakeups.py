"""Who waits at a log is told once when readers may read further, or nobody may any more."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir._share_fetch_wakeups import LogWaits
from tests.support.logs import batch, end_txn, one_log, produced


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


def told(waits: LogWaits, timeout_s: float = 20) -> list[int]:
    poll = select.poll()  # select.select ends at descriptor 1023, and a test run may have more
    poll.register(waits.fd, select.POLLIN)
    return waits.take() if poll.poll(timeout_s * 1000) else []


def test_a_wait_is_told_once_until_it_is_armed_again(log: Log) -> None:
    waits = LogWaits()
    assert not waits.arm(7, log, 0, False)
    assert told(waits, 0) == []
    log.append_durable(batch("a"))
    assert told(waits) == [7]
    log.append_durable(batch("b"))
    assert told(waits, 0) == []
    assert waits.arm(7, log, 1, False), "it is past that already"
    assert not waits.arm(7, log, 2, False)
    log.append_durable(batch("c"))
    assert told(waits) == [7]
    assert len(waits) == 1


def test_a_wait_hastens_the_disk(log: Log) -> None:
    """Nothing else asks for the flush of what is appended."""
    waits = LogWaits()
    waits.arm(1, log, 0, False)
    log.append(batch("a"))
    assert told(waits) == [1]
    assert log.high_watermark == 1


def test_a_wait_for_committed_records(log: Log) -> None:
    waits = LogWaits()
    assert not waits.arm(1, log, 0, True)
    assert not waits.arm(2, log, 0, False)
    log.append_durable(produced(0, txn=True))
    assert told(waits) == [2]
    end_txn(log, "commit")
    log.flush()
    assert told(waits) == [1]


def test_who_no_longer_waits_is_not_told(log: Log) -> None:
    waits = LogWaits()
    for number in range(3):
        waits.arm(number, log, 0, False)
    waits.remove(1)
    waits.remove(1)
    waits.remove(99)
    log.append_durable(batch("a"))
    assert sorted(told(waits)) == [0, 2]


def test_the_end_of_a_log_is_told(tmp_path: Path) -> None:
    waits = LogWaits()
    with one_log(tmp_path) as log:
        waits.arm(1, log, 0, False)
        log.close()
        assert told(waits) == [1]
    del log
    waits.remove(1)
    assert len(waits) == 0


def test_waits_that_are_dropped_leave_the_log(log: Log) -> None:
    waits = LogWaits()
    for number in range(100):
        waits.arm(number, log, 0, False)
    del waits
    log.append_durable(batch("a"))


def test_many_moves_and_many_waits_lose_none(log: Log) -> None:
    waits, seen, count = LogWaits(), 0, 300
    writer = threading.Thread(
        target=lambda: [log.append(batch("x")) for _ in range(count)] and log.flush()
    )
    waits.arm(5, log, 0, False)
    writer.start()
    while seen < count:
        assert told(waits) == [5], f"stuck at {seen}, the log is at {log.high_watermark}"
        seen = log.high_watermark
        while waits.arm(5, log, seen, False):
            seen = log.high_watermark
    writer.join()
