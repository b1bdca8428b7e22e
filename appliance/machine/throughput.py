"""What a disk does in a row, and what at random places: the argument for a log.

Platters write hundreds of megabytes a second where the arm stays, and a hundred blocks where it
moves. Both are measured past the page cache, on one file without a name: blocks of 1 MiB one after
the other, and blocks of 4 KiB anywhere. Writes end with a sync, and its time counts.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from appliance.config import StorageConfig
from appliance.machine import nameless_file
from appliance.process.spoken import size

MIB = 1 << 20
FILE_BYTES = 256 * MIB
LARGE, SMALL = MIB, 4096
KEPT_BYTES = 2 * StorageConfig().low_water_bytes  # a broker there would refuse writes below
SECONDS = 8.0  # for all four


class Throughput(NamedTuple):
    """Bytes a second."""

    linear_writes: float
    random_writes: float
    linear_reads: float
    random_reads: float

    @property
    def times(self) -> float:
        """How many times as fast it writes in a row."""
        return self.linear_writes / self.random_writes if self.random_writes else 0.0


Tick = Callable[[int, int], None]
Work = Generator[int, None, None]
STEPS = 5


class Stopped(Exception):
    """Nobody wants it any more."""


def measure(
    directory: Path,
    seconds: float = SECONDS,
    file_bytes: int = FILE_BYTES,
    tick: Tick | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Throughput:
    """OSError: there is no room, or the file system cannot go past the page cache."""
    free = shutil.disk_usage(directory).free
    if free < file_bytes + KEPT_BYTES:
        wanted = f"{size(file_bytes + KEPT_BYTES)} wanted"
        raise OSError(errno.ENOSPC, f"{size(free)} free, {wanted}", str(directory))
    tell = tick or (lambda done, of: None)
    fd = nameless_file.opened(directory, os.O_DIRECT)
    try:
        os.posix_fallocate(fd, 0, file_bytes)
        with mmap.mmap(-1, LARGE) as block:  # aligned, as O_DIRECT wants it
            block.write(os.urandom(LARGE))
            # once, so that later writes change blocks that are there
            _timed(_writes(fd, block, LARGE, in_a_row(file_bytes)), None, fd, is_wanted)
            tell(1, STEPS)
            rates = []
            for number, (act, length, places) in enumerate((
                (_writes, LARGE, _again(file_bytes)), (_writes, SMALL, anywhere(file_bytes)),
                (_reads, LARGE, _again(file_bytes)), (_reads, SMALL, anywhere(file_bytes)),
            )):  # fmt: skip
                work = act(fd, block, length, places)
                rates.append(_timed(work, seconds / 4, fd, is_wanted))
                tell(number + 2, STEPS)
    finally:
        os.close(fd)
    return Throughput(*rates)


def _timed(work: Work, seconds: float | None, fd: int, is_wanted: Callable[[], bool]) -> float:
    """Bytes a second of what is done until then; None: until it ends."""
    begin, done = time.perf_counter(), 0
    with contextlib.closing(work):
        for length in work:
            done += length
            if not is_wanted():
                raise Stopped
            if seconds is not None and time.perf_counter() - begin > seconds:
                break
    os.fdatasync(fd)
    return done / (time.perf_counter() - begin)


def _writes(fd: int, block: mmap.mmap, length: int, places: Iterator[int]) -> Work:
    with memoryview(block)[:length] as data:
        for place in places:
            yield os.pwrite(fd, data, place)


def _reads(fd: int, block: mmap.mmap, length: int, places: Iterator[int]) -> Work:
    with memoryview(block)[:length] as into:
        for place in places:
            yield os.preadv(fd, [into], place)


def in_a_row(file_bytes: int) -> Iterator[int]:
    yield from range(0, file_bytes, LARGE)


def _again(file_bytes: int) -> Iterator[int]:
    while True:
        yield from in_a_row(file_bytes)


def anywhere(file_bytes: int) -> Iterator[int]:
    while True:
        yield random.randrange(file_bytes // SMALL) * SMALL
