"""Checks that a partition's files keep what was promised: each batch as it was written, each
durable offset of the journal, and no index entry that points to another batch.

Compaction loses nothing: below the journal's `gaps end` offsets may be missing. In a directory
without a journal every gap between batches is legal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.data_dir import log_files
from appliance.data_dir.log_files import Damage
from appliance.data_dir.promised_offsets import NO_LIMIT, Promise
from appliance.errors import ApplianceError
from appliance.record._batch import BatchInfo, control

INDEX_ENTRY = struct.Struct(">ii")
TXN_ENTRY = struct.Struct(">hqqqq")

UNKNOWN = Promise(0, 0, -1, 0, gaps_end=NO_LIMIT)


@dataclass(frozen=True)
class Missing:
    """Offsets that were durable and are in no batch."""

    partition: str
    first_offset: int
    last_offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.partition} offsets {self.first_offset} to {self.last_offset}: {self.what}"


Finding = Damage | Missing


def missing_partitions(names: Iterable[str], promised: dict[str, Promise]) -> Iterator[Missing]:
    """Directories that are gone."""
    for name in sorted(promised.keys() - set(names)):
        one = promised[name]
        if one.log_start < one.end:
            yield Missing(name, one.log_start, one.end - 1, "the directory is gone")


def verify(
    partition: log_files.Partition, promise: Promise | None, on_bytes: Callable[[int], None]
) -> Iterator[Finding]:
    walk = _Walk(partition, promise or UNKNOWN)
    segments = partition.segments
    for segment in segments:
        yield from walk.begin(segment)
        for batch in log_files.batches(segment):
            yield from walk.take(segment, batch, segment == segments[-1])
            on_bytes(batch.size)
        yield from walk.indexes(segment)
    yield from walk.end()


class _Walk:
    def __init__(self, partition: log_files.Partition, promise: Promise) -> None:
        self.name = f"{partition.topic}-{partition.partition}"
        self.promise = promise
        self.expected = promise.log_start  # the next expected offset
        self.is_damaged = False  # since the last good batch: the gap is reported already
        self.places: dict[int, int] = {}  # last offset by position, in the current segment
        self.writing: set[int] = set()  # producers with an open transaction in the data read so far
        self.aborted: set[tuple[int, int]] = set()  # producer and marker, in the current segment

    def begin(self, segment: Path) -> Iterator[Finding]:
        base = int(segment.stem)
        self.places, self.aborted = {}, set()
        if base > self.expected and not self.is_damaged:
            yield from self._gap(base, "no segment holds them")
        self.expected = max(self.expected, base)
        self.is_damaged = False

    def take(self, segment: Path, batch: log_files.Batch, is_last: bool) -> Iterator[Finding]:
        try:
            info = batch.check()
            floor = self.expected if self.places else int(segment.stem)
            if info.last_offset >= self.promise.log_start:
                log_files.check_place(batch, floor)
        except ApplianceError as error:
            is_tail = is_last and not batch.is_whole and self.expected >= self.promise.end
            self.is_damaged = batch.is_whole  # the next batch reports the whole gap
            yield Damage(segment, batch.position, str(error), is_tail)
            return
        if info.base_offset > self.expected and not self.is_damaged:
            yield from self._gap(info.base_offset, "no batch holds them")
        self.is_damaged = False
        self.places[batch.position] = info.last_offset
        self._note_transaction(info, batch.data)
        self.expected = max(self.expected, info.last_offset + 1)

    def _note_transaction(self, info: BatchInfo, data: bytes) -> None:
        if not info.is_transactional:
            return
        if not info.is_control:
            self.writing.add(info.producer_id)
        elif info.producer_id in self.writing:
            self.writing.remove(info.producer_id)
            ended = control(data)
            if ended is not None and ended[0] == "abort":
                self.aborted.add((info.producer_id, info.base_offset))

    def end(self) -> Iterator[Finding]:
        if self.expected < self.promise.end and not self.is_damaged:
            yield from self._gap(self.promise.end, "the files end before them")
        for first, end in self.promise.holes:
            if end > self.promise.log_start:
                yield Missing(self.name, first, end - 1, "a hole that an earlier start reported")

    def _gap(self, end: int, what: str) -> Iterator[Missing]:
        """The durable and unreported part between the expected offset and `end`."""
        first = max(self.expected, self.promise.gaps_end, self.promise.log_start)
        last = min(end, self.promise.end)
        self.expected = end
        for hole_first, hole_end in sorted(self.promise.holes):
            if hole_first <= first < hole_end:
                first = hole_end
        if first < last:
            yield Missing(self.name, first, last - 1, what)

    # Indexes of sealed segments, which no longer change

    def indexes(self, segment: Path) -> Iterator[Damage]:
        if int(segment.stem) >= self.promise.segment_base or self.is_damaged:
            return
        yield from self._offset_index(segment)
        yield from self._txn_index(segment)

    def _offset_index(self, segment: Path) -> Iterator[Damage]:
        base, path = int(segment.stem), segment.with_suffix(".index")
        data = path.read_bytes() if path.is_file() else b""
        for at in range(0, len(data) - INDEX_ENTRY.size + 1, INDEX_ENTRY.size):
            relative, position = INDEX_ENTRY.unpack_from(data, at)
            if self.places.get(position) != base + relative:
                text = f"entry {at // INDEX_ENTRY.size} names offset {base + relative} at position"
                yield Damage(path, at, f"{text} {position}, where no batch ends with it", False)
                return

    def _txn_index(self, segment: Path) -> Iterator[Damage]:
        path = segment.with_suffix(".txnindex")
        data = path.read_bytes() if path.is_file() else b""
        last, left = -1, set(self.aborted)
        for at in range(0, len(data), TXN_ENTRY.size):
            entry = data[at : at + TXN_ENTRY.size]
            whole = len(entry) == TXN_ENTRY.size and TXN_ENTRY.unpack(entry)
            if not whole or whole[0] != 0 or not last < whole[3] or whole[2] >= whole[3]:
                text = "an aborted transaction has no entry: its records may be shown"
                yield Damage(path, at, text, False)
                return
            last = whole[3]
            left.discard((whole[1], whole[3]))
        for producer, marker in sorted(left):
            text = f"the transaction that producer {producer} aborted at {marker} is not in it"
            yield Damage(path, len(data), f"{text}: its records are shown", False)
            return
