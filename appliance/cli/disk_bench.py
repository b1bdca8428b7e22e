"""What a disk does for the broker: the time until written bytes are durable, and the sustained
rates.

    growing        appended to a growing file, then fdatasync: a segment of a log
    preallocated   the same into space from fallocate: the length stays, but blocks must be marked
    prewritten     over bytes that are on disk already: only the bytes change
    O_DSYNC        appended to a growing file; each write is durable when it returns

These use single files. The group commit is the engine's own: every partition gets a batch, then all
are made durable together, by an fdatasync of each file or by one syncfs.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from appliance._log import Log
from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import StorageFull
from appliance.machine.mounts import MOUNTS, holding
from appliance.record import _batch_builder

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB)
PARTITIONS = (1, 4, 16, 64)
SYNCS = ("files", "filesystem")
BATCH_BYTES = 4 * KIB  # a partition's batch between two commits
BULK_PARTITIONS, BULK_BYTES = 4, MIB - 4 * KIB  # the largest batches of producers
SPACE_BYTES = 256 * MIB  # per measurement; a longer one starts again at the beginning of the file
DRAIN_BYTES = 8 * MIB  # written at a time outside the measurements
SAMPLES_MIN = 5  # for a disk too slow for as many in its share of the time
NO_FLUSH_US = 20.0  # faster than any flash memory without a capacitor
IN_MEMORY = ("tmpfs", "ramfs")


class Times(NamedTuple):
    """Many durable writes, one after the other."""

    samples: int
    p50_us: float
    p99_us: float
    per_s: float  # average, slow writes included

    @classmethod
    def of(cls, took_s: list[float]) -> Times:
        ordered = sorted(took_s)
        rate = len(ordered) / sum(ordered)
        return cls(len(ordered), at(ordered, 0.5) * 1e6, at(ordered, 0.99) * 1e6, rate)


class Write(NamedTuple):
    way: str
    size_bytes: int
    times: Times


class GroupCommit(NamedTuple):
    sync: str  # a value of commit.sync
    partitions: int
    times: Times

    @property
    def per_s(self) -> float:
        """Partitions made durable per second."""
        return self.partitions * self.times.per_s


class DiskFigures(NamedTuple):
    directory: str
    file_system: str
    free_bytes: int
    writes: list[Write]
    commits: list[GroupCommit]
    bulk_bytes_per_s: float

    @property
    def alone(self) -> Times:
        """The wait of a single producer."""
        alone = [each.times for each in self.commits if each.partitions == 1]
        return max(alone, key=lambda times: times.per_s)

    @property
    def together(self) -> GroupCommit:
        return max(self.commits, key=lambda each: each.per_s)


Tick = Callable[[int, int], None]


def at(ordered: list[float], part: float) -> float:
    """The quantile `part` of sorted values."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def measure(directory: Path, seconds: float, progress: Tick) -> DiskFigures:
    """Takes about `seconds`, and deletes its files afterwards."""
    check_space(directory)
    free = shutil.disk_usage(directory).free
    jobs = len(WAYS) * len(SIZES) + len(SYNCS) * len(PARTITIONS) + 1
    share, done = seconds / jobs, 0
    writes: list[Write] = []
    commits: list[GroupCommit] = []
    with tempfile.TemporaryDirectory(prefix=".bench-disk-", dir=directory) as name:
        folder = Path(name)
        for named, way in WAYS.items():
            for size in SIZES:
                took = way.durations(folder / "file", size, share)
                writes.append(Write(named, size, Times.of(took)))
                progress(done := done + 1, jobs)
        for sync in SYNCS:
            for count in PARTITIONS:
                with logs_of(folder / "group", sync, count) as logs:
                    took = rounds(logs, BATCH_BYTES, share)
                commits.append(GroupCommit(sync, count, Times.of(took)))
                progress(done := done + 1, jobs)
        with logs_of(folder / "bulk", "auto", BULK_PARTITIONS) as logs:
            took = rounds(logs, BULK_BYTES, share)
        progress(jobs, jobs)
    bulk = BULK_PARTITIONS * BULK_BYTES * len(took) / sum(took)
    return DiskFigures(str(directory), file_system(directory), free, writes, commits, bulk)


def check_space(directory: Path) -> None:
    """Leaves enough space for a broker on the same disk."""
    free, kept = shutil.disk_usage(directory).free, StorageConfig().low_water_bytes
    if free < SPACE_BYTES + kept:
        raise StorageFull(
            f"{directory}: {free} bytes free, wanted {SPACE_BYTES + kept}: {SPACE_BYTES} to write, "
            f"and {kept} below which a broker refuses writes (storage.low.water.bytes)"
        )


def file_system(directory: Path) -> str:
    mount = holding(directory.resolve(), MOUNTS.read_text())
    return mount.kind if mount else "unknown"


# One file


@contextlib.contextmanager
def opened(path: Path, flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
        path.unlink()


def durations(
    fd: int, size: int, seconds: float, sync: Callable[[int], None], anew: Callable[[int], None]
) -> list[float]:
    """Times writes one after the other; `anew` resets the file to its state before the first."""
    data, position = os.urandom(size), 0
    took: list[float] = []
    anew(fd)
    end = time.perf_counter() + seconds
    while len(took) < SAMPLES_MIN or time.perf_counter() < end:
        if position + size > SPACE_BYTES // 4:
            anew(fd)
            position = 0
        begin = time.perf_counter()
        os.pwrite(fd, data, position)
        sync(fd)
        took.append(time.perf_counter() - begin)
        position += size
    return took


def emptied(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.fsync(fd)


def allocated(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.posix_fallocate(fd, 0, SPACE_BYTES // 4)
    os.fsync(fd)


def filled(fd: int) -> None:
    """Once: overwritten blocks stay written."""
    if os.fstat(fd).st_size == 0:
        for position in range(0, SPACE_BYTES // 4, DRAIN_BYTES):
            os.pwrite(fd, bytes(DRAIN_BYTES), position)
        os.fsync(fd)


class Way(NamedTuple):
    sync: Callable[[int], None]
    anew: Callable[[int], None]  # resets the file to its state before the first write
    flags: int = 0

    def durations(self, path: Path, size: int, seconds: float) -> list[float]:
        with opened(path, self.flags) as fd:
            return durations(fd, size, seconds, self.sync, self.anew)


WAYS = {
    "growing": Way(os.fdatasync, emptied),
    "preallocated": Way(os.fdatasync, allocated),
    "prewritten": Way(os.fdatasync, filled),
    "O_DSYNC": Way(lambda _: None, emptied, os.O_DSYNC),
}


# Many partitions


@contextlib.contextmanager
def logs_of(path: Path, sync: str, count: int) -> Iterator[list[Log]]:
    """New partitions, in a directory that is deleted afterwards."""
    log_dir = LogDir.open(path, StorageConfig(low_water_bytes=0, reserve_bytes=0, sync=sync))
    settings = LogConfig(flush_ms=600_000, flush_messages=1 << 40)  # commits only on request
    try:
        yield [log_dir.create("bench", number, settings) for number in range(count)]
    finally:
        log_dir.close()
        shutil.rmtree(path)


def rounds(logs: list[Log], size: int, seconds: float) -> list[float]:
    """Gives each partition batches of `size`, makes all durable, and returns the time."""
    empty = len(_batch_builder.batch([(0, None, b"")]))
    batch = _batch_builder.batch([(0, None, os.urandom(size - empty))])
    took: list[float] = []
    in_all = SPACE_BYTES // (len(batch) * len(logs))
    end = time.perf_counter() + seconds
    while len(took) < SAMPLES_MIN or (time.perf_counter() < end and len(took) < in_all):
        begin = time.perf_counter()
        for log in logs:
            log.append(batch)
        for log in logs:
            log.ask_commit()
        for log in logs:
            log.flush()
        took.append(time.perf_counter() - begin)
    return took
