"""Reads messages for people: a bounded search of logs, on a thread, with its progress.

A search step ends after enough matches, enough bytes or enough time, and returns its position. So a
search of a large topic is many steps with progress, and stops when nobody requests the next step.
`Ranges` is the rest: by partition, from an offset up to another.

A batch of a few KB may hold 32 MiB. So the limits are asked for after each batch, and what its
records take in memory counts, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance._log import Log
from appliance.admin.message_filter import Filter
from appliance.admin.message_ranges import Range
from appliance.admin.route import Call
from appliance.errors import ApplianceError, BatchCorrupt, BatchTorn, OffsetInHole, RequestInvalid
from appliance.record._batch import records
from appliance.record._records import Record
from appliance.record.batch_bounds import BatchBounds, batches_in
from appliance.topics.known_end import knows_end
from appliance.topics.topic import Topic

LOOK_BYTES_MAX = 32 << 20  # read from logs in one step
LOOK_SECONDS_MAX = 2.0  # then the user sees the progress
READ_BYTES = 256 << 10  # of a log at once
BATCH_BYTES_MAX = 32 << 20  # of one batch, decompressed; a larger one is reported and skipped
BATCH_RECORDS_MAX = 1_000_000  # the same: as objects, empty ones take 90 bytes each
RECORDS_COUNT = slice(57, 61)  # of a batch (docs/log-format.md)
# Of records that are kept by one step, and of those that are looked at by a piece of a search
# backwards. The last batch may go beyond it.
KEPT_BYTES_MAX = 32 << 20
RECORD_BYTES = 200  # of a record as an object, beside its data

BACK_OFFSETS = 500  # offsets per partition in each step of a search from the end backwards

# The thread sleeps between two reads: decompressing and decoding take the GIL, and requests on the
# event loop must not wait for it.
PAUSE_SECONDS = 0.0005


class Bounds(NamedTuple):
    messages: int
    bytes: int
    seconds: float
    kept_bytes: int = KEPT_BYTES_MAX


class ScannedRecord(NamedTuple):
    partition: int
    record: Record


class Problem(NamedTuple):
    """An unreadable batch."""

    partition: int
    offset: int
    what: str
    end_offset: int = 0  # from there on it was read again


@dataclass
class Look:
    """The result of one step."""

    found: list[ScannedRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    deleted: list[Range] = field(default_factory=list)  # before they were read
    left: list[Range] = field(default_factory=list)  # not read yet
    offsets: int = 0  # read
    bytes: int = 0
    kept_bytes: int = 0  # of `found`
    opened_bytes: int = 0  # of all records that were looked at
    deadline: float = 0.0

    def is_over(self, bounds: Bounds) -> bool:
        return len(self.found) >= bounds.messages or self.is_long(bounds)

    def is_long(self, bounds: Bounds) -> bool:
        return (
            self.bytes >= bounds.bytes
            or self.kept_bytes >= bounds.kept_bytes
            or self.is_late
        )

    @property
    def is_late(self) -> bool:
        """Asked within a batch, too: a filter may take long for each of its records."""
        return time.monotonic() >= self.deadline

    def add(self, piece: Look) -> None:
        self.found += piece.found
        self.problems += piece.problems
        self.deleted += piece.deleted
        self.offsets += piece.offsets
        self.bytes += piece.bytes
        self.kept_bytes += sum(size_of(each.record) for each in piece.found)


class PieceLook(Look):
    """Of a piece of a search backwards, which is read to its end, or again as a smaller one."""

    is_late = False

    def is_over(self, bounds: Bounds) -> bool:
        return max(self.bytes, self.opened_bytes) >= bounds.kept_bytes


def size_of(record: Record) -> int:
    """In memory."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


async def looked(
    call: Call, topic: Topic, ranges: list[Range], wanted: Filter, limit: int, is_backward: bool
) -> Look:
    bounds = Bounds(limit, LOOK_BYTES_MAX, LOOK_SECONDS_MAX, KEPT_BYTES_MAX)
    async with call.looks:
        return await asyncio.to_thread(
            look, topic.log, ranges, wanted, bounds, is_backward=is_backward
        )


def look(
    log_of: Callable[[int], Log],
    ranges: list[Range],
    wanted: Filter,
    bounds: Bounds,
    *,
    is_backward: bool = False,
) -> Look:
    """Reads partition by partition; backwards, a piece of each in turn, newest first."""
    seen = Look(deadline=time.monotonic() + bounds.seconds)
    todo = list(ranges)
    # the newest messages may be in any partition: each has its turn, even if one has enough
    turns_due = len(todo) if is_backward else 0
    while todo and not (seen.is_long(bounds) if turns_due > 0 else seen.is_over(bounds)):
        turns_due -= 1
        now = todo.pop(0)
        if is_backward:
            end = _read_back(log_of(now.partition), now, wanted, bounds, seen)
            if end > now.first:
                todo.append(now._replace(end=end))
        else:
            rest = _read(log_of(now.partition), now, wanted, bounds, seen)
            if rest is not None:
                todo.insert(0, rest)
    seen.left = todo
    return seen


def _read_back(log: Log, now: Range, wanted: Filter, bounds: Bounds, seen: Look) -> int:
    """Reads the newest piece, or of that what is not too much at once. Returns where it begins: of
    what is found there the newest alone are kept, as many as are wanted."""
    length = BACK_OFFSETS
    while True:
        first = max(now.first, now.end - length)
        read = PieceLook()
        every = bounds._replace(messages=length + 1)
        rest = _read(log, now._replace(first=first), wanted, every, read)
        if rest is None or length == 1:
            break
        length = max(1, min(length // 2, rest.first - first))
    if len(read.found) > bounds.messages:
        read.found = read.found[-bounds.messages :]
        first = read.found[0].record.offset
        read.problems = [each for each in read.problems if each.end_offset > first]
        read.deleted = [each for each in read.deleted if each.end > first]
    seen.add(read)
    return first


def _read(log: Log, piece: Range, wanted: Filter, bounds: Bounds, seen: Look) -> Range | None:
    """The rest of the piece at the limits."""
    first = piece.first
    aborted = log.aborted_transactions(piece.first, piece.end)
    while first < piece.end:
        if seen.is_over(bounds):
            return piece._replace(first=first)
        start = min(log.log_start_offset, piece.end)
        if first < start:  # retention may delete meanwhile
            seen.deleted.append(Range(piece.partition, first, start))
            first = start
        if first >= piece.end:
            return None
        knows_less = is_behind(log, piece.end)  # first: it may get known meanwhile
        try:
            data = log.read(first, READ_BYTES, "stable")
        except (OffsetInHole, BatchCorrupt, BatchTorn) as error:
            end = _behind(log, first)
            told = min(end, piece.end)
            seen.problems.append(Problem(piece.partition, first, str(error), told))
            first = end
            continue
        if not data:
            # Where what counts is known the asked end is too far.
            if knows_less:
                text = unknown(log, piece.end)
                seen.problems.append(Problem(piece.partition, first, text, piece.end))
            return None
        begin = first
        for info in batches_in(data):
            batch = memoryview(data)[info.position : info.end]
            if info.base_offset >= piece.end:
                first = piece.end
                break
            room, cut = piece._replace(first=first), None
            seen.bytes += len(batch)
            if not info.is_control and not any(
                p == info.producer_id and a <= info.base_offset < b for p, a, b in aborted
            ):
                cut = _take(log, batch, room, info, wanted, bounds, seen)
            first = max(first, info.next_offset) if cut is None else cut
            if seen.is_over(bounds):
                break
        seen.offsets += min(first, piece.end) - begin
        time.sleep(PAUSE_SECONDS)
    return None


def is_behind(log: Log, end: int) -> bool:
    """A replica, or a new leader, that knows no more just now."""
    return not knows_end(log) and log.last_stable_offset < end


def unknown(log: Log, end: int) -> str:
    return (f"{log.name}: what counts is known here up to {log.last_stable_offset}, wanted {end}; "
            "its leader knows it, or will when it has heard of the others: ask again")  # fmt: skip


def _behind(log: Log, offset: int) -> int:
    """The first offset after damage: its known end, or the next segment's start."""
    ends = [end for begin, end in log.holes() if begin <= offset < end]
    bases = [each.base_offset for each in log.segments() if each.base_offset > offset]
    return min([*ends, *bases], default=log.log_end_offset)


def _take(
    log: Log, batch: memoryview, piece: Range, info: BatchBounds, wanted: Filter,
    bounds: Bounds, seen: Look,
) -> int | None:  # fmt: skip
    """Takes what matches. Returns the first offset that there was no room for, if any."""
    try:
        found = _records(batch, info)
    except ApplianceError as error:
        log.note_damaged(piece.first, batch)
        end = min(info.next_offset, piece.end)
        seen.problems.append(Problem(piece.partition, piece.first, str(error), end))
        return None
    looked_at = 0
    for record in found:
        if not piece.first <= record.offset < piece.end:
            continue
        if len(seen.found) >= bounds.messages or (looked_at and seen.is_late):
            return record.offset
        looked_at += 1
        size = size_of(record)
        seen.opened_bytes += size
        if wanted.fits(piece.partition, record):
            seen.found.append(ScannedRecord(piece.partition, record))
            seen.kept_bytes += size
    return None


def _records(batch: memoryview, info: BatchBounds) -> list[Record]:
    count = int.from_bytes(batch[RECORDS_COUNT], "big")
    if count > BATCH_RECORDS_MAX:
        raise RequestInvalid(
            f"batch at offset {info.base_offset}: it has {count} records, and "
            f"{BATCH_RECORDS_MAX} at most are looked at here"
        )
    return records(batch, size_max=BATCH_BYTES_MAX)
