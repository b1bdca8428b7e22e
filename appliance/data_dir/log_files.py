"""The segment files of a data directory, read only: for list, dump and verify.

Nothing is recovered, cut or written. So a damaged directory can be examined before a broker opens
it, and so can a directory of Apache Kafka. `promised_offsets.py` reads what only the journal knows
(log start offset, recovery point), and `log_verify.py` checks that the files keep it.
"""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError, BatchCorrupt, BatchTorn
from appliance.record import _batch

HEAD = struct.Struct(">qi")  # base offset, and the number of following bytes
HEADER_SIZE = 61  # of a batch


class DirectoryInUse(ApplianceError):
    """A broker has the data directory open and changes its files."""


@dataclass(frozen=True)
class Partition:
    topic: str
    partition: int
    path: Path

    @property
    def segments(self) -> list[Path]:
        return sorted(path for path in self.path.glob("*.log") if path.stem.isdecimal())


@dataclass(frozen=True)
class Batch:
    """The position of a batch; without data, the rest of a file that is no whole batch."""

    position: int
    size: int
    data: bytes

    @property
    def is_whole(self) -> bool:
        return bool(self.data)

    def check(self) -> _batch.BatchInfo:
        """Its header, if the checksum is right."""
        if not self.is_whole:
            raise BatchTorn(f"the last {self.size} bytes, from {self.position}, are no whole batch")
        (info,) = _batch.headers(self.data)
        return info


@dataclass(frozen=True)
class Damage:
    """`is_tail`: the damage is at the end of the last segment, where a power cut leaves
    unacknowledged bytes; the next start cuts them."""

    segment: Path
    position: int
    what: str
    is_tail: bool


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Keeps brokers out while the files are read; raises if a broker has it open."""
    lock = data_dir / "lock"
    if not lock.exists():  # Kafka's own directory, or a copy without the lock
        yield
        return
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryInUse(f"{data_dir}: a running broker uses it; stop it first") from None
        yield


def partitions(data_dir: Path) -> list[Partition]:
    partitions = []
    for path in data_dir.iterdir():
        topic, dash, number = path.name.rpartition("-")
        if path.is_dir() and dash and topic and number.isdecimal():
            partitions.append(Partition(topic, int(number), path))
    return sorted(partitions, key=lambda each: (each.topic, each.partition))


def batches(segment: Path) -> Iterator[Batch]:
    position, size = 0, segment.stat().st_size
    with segment.open("rb") as file:
        while position < size:
            head = file.read(HEAD.size)
            length = HEAD.unpack(head)[1] if len(head) == HEAD.size else 0
            whole = HEAD.size + length
            if whole < HEADER_SIZE or position + whole > size:
                yield Batch(position, size - position, b"")
                return
            yield Batch(position, whole, head + file.read(length))
            position += whole


def end_offset(segment: Path) -> int:
    """One past the last whole batch; without one, the segment's base offset."""
    last = None
    for batch in batches(segment):
        last = batch if batch.is_whole else last
    return last.check().last_offset + 1 if last else int(segment.stem)


def read(partition: Partition, offset: int) -> Iterator[Batch]:
    """Whole batches, starting with the one that has `offset`."""
    segments = partition.segments
    first = max((i for i, each in enumerate(segments) if int(each.stem) <= offset), default=0)
    for segment in segments[first:]:
        for batch in batches(segment):
            if batch.is_whole and batch.check().last_offset >= offset:
                yield batch


def check_place(batch: Batch, floor: int) -> int:
    """The least allowed next offset."""
    info = batch.check()
    if info.base_offset < floor:
        raise BatchCorrupt(f"base offset {info.base_offset}, wanted at least {floor}")
    return info.last_offset + 1
