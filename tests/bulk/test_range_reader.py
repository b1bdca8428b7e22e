"""Reading in bulk from disk lets commits go first, and nothing else makes it wait."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.bulk._range_reader import RangeReader
from appliance.bulk.reader_threads import Reading
from appliance.config import ExportConfig
from appliance.data_dir.log_dir import LogDir
from tests.support.logs import STORAGE, batch, log_config, until

IOPRIO_GET = {"x86_64": 252, "aarch64": 31}  # the kernel's number of it
IOPRIO_WHO_THREAD, IOPRIO_CLASS_SHIFT, IOPRIO_CLASS_IDLE = 1, 13, 3
VALUES = [os.urandom(60_000) for _ in range(200)]


@contextmanager
def committing(log: Log) -> Iterator[None]:
    """A commit is at the disk nearly all the time."""
    ends = threading.Event()

    def commit() -> None:
        while not ends.is_set():
            log.append_durable(batch("v"))

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def read(log: Log) -> RangeReader:
    """To its end."""
    reader = RangeReader(log, 0, log.log_end_offset, "end")
    while len(reader.read()):
        pass
    assert reader.next_offset == log.log_end_offset
    return reader


def drop(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    found = LogDir.open(tmp_path, STORAGE)
    yield found
    found.close()


def filled(log_dir: LogDir, name: str) -> Log:
    log = log_dir.create(name, 0, log_config())
    for value in VALUES:
        log.append(batch(value))
    log.append_durable(batch("last"))
    return log


def test_a_cold_read_waits_for_commits_and_ends(log_dir: LogDir, tmp_path: Path) -> None:
    cold, hot = filled(log_dir, "cold"), log_dir.create("hot", 0, log_config())
    (path,) = tmp_path.glob("cold-0/*.log")

    def read_cold() -> RangeReader | None:
        """None: who commits got no processor meanwhile."""
        drop(path)
        reader = read(cold)
        return reader if reader.waited_ns > 0 else None

    with committing(hot):
        reader = until(read_cold)
    assert reader.bytes > len(VALUES) * len(VALUES[0])


def test_nobody_waits_for_what_is_in_the_page_cache(log_dir: LogDir) -> None:
    warm, hot = filled(log_dir, "warm"), log_dir.create("hot", 0, log_config())
    with committing(hot):
        assert read(warm).waited_ns == 0


def test_nobody_waits_without_commits(log_dir: LogDir, tmp_path: Path) -> None:
    cold = filled(log_dir, "cold")
    drop(next(tmp_path.glob("cold-0/*.log")))
    assert read(cold).waited_ns == 0


def io_class() -> int:
    """Of the calling thread."""
    found: int = ctypes.CDLL(None).syscall(IOPRIO_GET[platform.machine()], IOPRIO_WHO_THREAD, 0)
    return found >> IOPRIO_CLASS_SHIFT


def test_the_reading_threads_come_last_at_the_disk() -> None:
    reading = Reading(ExportConfig())
    assert asyncio.run(reading.on_thread(io_class)) == IOPRIO_CLASS_IDLE != io_class()
    reading.close()
