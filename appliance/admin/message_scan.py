"""Reads messages for people: a bounded search of logs, on a thread, with its progress.

A search step ends after enough matches, enough bytes or enough time, and returns its position. So a
search of a large topic is many steps with progress, and stops when nobody requests the next step.
`Ranges` is the rest: by partition, from an offset up to another.
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
from appliance.errors import ApplianceError, BatchCorrupt, BatchTorn, OffsetInHole
from appliance.record._batch import records
from appliance.record._records import Record
from appliance.record.batch_bounds import batches_in
from appliance.topics.known_end import knows_end
from appliance.topics.topic import Topic

LOOK_BYTES_MAX = 32 << 20  # read from logs in one step
LOOK_SECONDS_MAX = 2.0  # then the user sees the progress
READ_BYTES = 256 << 10  # of a log at once
BATCH_BYTES_MAX = 32 << 20  # of one batch, decompressed; a larger one is reported and skipped

BACK_OFFSETS = 500  # offsets per partition in each step of a search from the end backwards

# The thread sleeps between two reads: decompressing and decoding take the GIL, and requests on the
# event loop must not wait for it.
PAUSE_SECONDS = 0.0005


class Bounds(NamedTuple):
    messages: int
    bytes: int
    seconds: float


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
    deadline: float = 0.0

    def is_over(self, bounds: Bounds) -> bool:
        return len(self.found) >= bounds.messages or self.is_long(bounds)

    def is_long(self, bounds: Bounds) -> bool:
        return self.bytes >= bounds.bytes or time.monotonic() >= self.deadline


async def looked(
    call: Call, topic: Topic, ranges: list[Range], wanted: Filter, limit: int, is_backward: bool
) -> Look:
    bounds = Bounds(limit, LOOK_BYTES_MAX, LOOK_SECONDS_MAX)
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
            piece = now._replace(first=max(now.first, now.end - BACK_OFFSETS))
            rest = _read(log_of(now.partition), piece, wanted, None, seen)
            assert rest is None
            if piece.first > now.first:
                todo.append(now._replace(end=piece.first))
        else:
            rest = _read(log_of(now.partition), now, wanted, bounds, seen)
            if rest is not None:
                todo.insert(0, rest)
    seen.left = todo
    return seen


def _read(
    log: Log, piece: Range, wanted: Filter, bounds: Bounds | None, seen: Look
) -> Range | None:
    """The rest of the piece at the limits; without limits the whole piece is read."""
    first = piece.first
    aborted = log.aborted_transactions(piece.first, piece.end)
    while first < piece.end:
        if bounds is not None and seen.is_over(bounds):
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
            room = piece._replace(first=first)
            if not info.is_control and not any(
                p == info.producer_id and a <= info.base_offset < b for p, a, b in aborted
            ):
                first = _take(log, batch, room, info.next_offset, wanted, bounds, seen)
            if first < info.next_offset and bounds is not None and seen.is_over(bounds):
                seen.offsets += first - begin
                return piece._replace(first=first)
            first = max(first, info.next_offset)
        seen.offsets += min(first, piece.end) - begin
        seen.bytes += len(data)
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
    log: Log, batch: memoryview, piece: Range, next_offset: int, wanted: Filter,
    bounds: Bounds | None, seen: Look,
) -> int:  # fmt: skip
    """Takes what matches; returns the first unread offset."""
    try:
        found = records(batch, size_max=BATCH_BYTES_MAX)
    except ApplianceError as error:
        log.note_damaged(piece.first, batch)
        end = min(next_offset, piece.end)
        seen.problems.append(Problem(piece.partition, piece.first, str(error), end))
        return piece.first
    for record in found:
        if not piece.first <= record.offset < piece.end:
            continue
        if bounds is not None and len(seen.found) >= bounds.messages:
            return record.offset
        if wanted.fits(piece.partition, record):
            seen.found.append(ScannedRecord(piece.partition, record))
    return found[-1].offset + 1 if found else piece.first
