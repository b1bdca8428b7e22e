"""Copies one partition: what an earlier backup has is known again, the rest is read, in pieces.

sealed, same base, end, size, time   not read
the last one that was copied         read on from its last batch, which is compared
any other                            read whole

What is damaged at the broker is taken from earlier backups afterwards (`kept_records.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from appliance.backup.errors import ObjectDamaged
from appliance.backup.manifest import Blob, LastBatch, PartitionCopy, Piece, SegmentCopy
from appliance.backup.offset_ranges import Range, merged, within, without
from appliance.backup.point import LogAt, SegmentAt
from appliance.backup.source import Frame, RangeOf, Rate, Source
from appliance.backup.target import Target
from appliance.errors import ApplianceError
from appliance.record import _batch

# In memory, once for each thread: a name that is a checksum is known at the end only.
PIECE_BYTES = 16 << 20
# Of a sealed segment that was copied while it grew, and is read once more when it has more than it
# needs: each is an object.
PIECES_SPARE = 8


class HistoryDiffers(ApplianceError):
    """What was copied is not what the log has there: it was restored, or compacted."""


class Part(NamedTuple):
    """A segment, and what is left out of it because it is damaged."""

    segment: SegmentCopy
    last: LastBatch | None
    damaged: Sequence[Range]


@dataclass
class Copying:
    source: Source
    target: Target
    rate: Rate
    on_read: Callable[[int], None]
    on_segment: Callable[[PartitionCopy], None]

    def copy(self, log: LogAt, before: PartitionCopy | None) -> PartitionCopy:
        """`before`: what is known again."""
        before = same_topic(log, before)
        producers = self.target.put(log.producers) if log.producers else None
        parts: list[Part] = []
        found = copy_of(log, parts, producers)
        for each in log.segments:
            if each.end_offset > log.log_start_offset:
                parts.append(self._segment(log, each, before))
                found = copy_of(log, parts, producers)
                self.on_segment(found)
        return found

    def _segment(self, log: LogAt, now: SegmentAt, before: PartitionCopy | None) -> Part:
        old = self._with_lacks(log, part_at(before, now.base_offset))
        if old is not None and is_same(old.segment, now):
            return old
        if old is not None and may_go_on(old, now):
            try:
                return self._read_on(log, now, old)
            except HistoryDiffers:
                pass
        return self._read(log, now, None)

    def _with_lacks(self, log: LogAt, old: Part | None) -> Part | None:
        """With the holes that came to be known since. What was damaged after it had been copied is
        in a piece; what was damaged before is in none, and perhaps no backup has told of it. If a
        piece cannot tell because it is damaged itself, the segment is read again."""
        if old is None:
            return None
        span = old.segment.base, old.segment.end
        untold = without(within(holes_of(log), [span]), old.damaged)
        try:
            lacks = lacking(self.target, old.segment.pieces, untold, log.is_compacted)
        except ObjectDamaged:
            return None
        return old._replace(damaged=[*old.damaged, *lacks])

    def _read_on(self, log: LogAt, now: SegmentAt, old: Part) -> Part:
        found = self._read(log, now, old)
        if now.is_sealed and found.segment.copied != now.size_bytes:
            raise HistoryDiffers(
                f"{log.name}: segment {now.base_offset} has other bytes than before"
            )
        return found

    def _read(self, log: LogAt, now: SegmentAt, old: Part | None) -> Part:
        """Behind the last batch of `old`, which is read again; without one all of it."""
        last = None if old is None else old.last
        start = max(now.base_offset, log.log_start_offset) if last is None else last.base_offset
        wanted = RangeOf(self.source, self.rate, log, start, now.end_offset)
        cutter = Cutter(self.target)
        for frame in wanted.frames():
            self.on_read(len(frame.data))
            if last is not None and cutter.last is None:
                frame = behind(frame, last, log)
            cutter.take(frame)
        if last is not None and cutter.last is None:
            raise HistoryDiffers(f"{log.name}: the batch at {last.base_offset} is gone")
        cutter.end()
        pieces = (*(() if old is None else old.segment.pieces), *cutter.pieces)
        copied = SegmentCopy(*now[:4], pieces)
        holes = within(log.holes, [(start, now.end_offset)])
        damaged = (*(() if old is None else old.damaged), *wanted.damaged, *holes)
        return Part(copied, cutter.last, damaged)


def copy_of(log: LogAt, parts: Sequence[Part], producers: Blob | None) -> PartitionCopy:
    segments = [(each.base_offset, each.end_offset) for each in log.segments]
    damaged = [hole for each in parts for hole in each.damaged]
    damaged += without(holes_of(log), segments)
    return PartitionCopy(
        topic=log.topic,
        topic_id=log.topic_id,
        partition=log.partition,
        start=log.log_start_offset,
        end=log.end_offset,
        leader_epoch=log.leader_epoch,
        segments=tuple(each.segment for each in parts),
        last=parts[-1].last if parts else None,
        producers=producers,
        holes=tuple(merged(damaged)),
        fault=log.fault,
    )


class Cutter:
    """Makes pieces of frames, as they come."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._data = bytearray()
        self._start = self._records = 0
        self.pieces: list[Piece] = []
        self.last: LastBatch | None = None

    def take(self, frame: Frame) -> None:
        """The frame may have nothing left but the batch that was compared."""
        last = frame.batches[-1]
        self.last = LastBatch(last.base_offset, last.crc)
        if not frame.data:
            return
        if self._data and len(self._data) + len(frame.data) > PIECE_BYTES:
            self.end()
        if not self._data:
            self._start = frame.batches[0].base_offset
        self._data += frame.data
        self._records += sum(each.records_count for each in frame.batches)
        self._end = frame.end

    def end(self) -> None:
        if not self._data:
            return
        size, name = self._target.put(bytes(self._data))
        self.pieces.append(Piece(self._start, self._end, size, self._records, name))
        self._data, self._records = bytearray(), 0


def holes_of(log: LogAt) -> list[tuple[int, int]]:
    """Without what was deleted since. A log that lost its first segments begins behind them."""
    start = log.log_start_offset
    return [
        each if each[1] == start else (max(each[0], start), each[1])
        for each in log.holes if each[1] >= start
    ]  # fmt: skip


def same_topic(log: LogAt, copied: PartitionCopy | None) -> PartitionCopy | None:
    return copied if copied is not None and copied.topic_id == log.topic_id else None


def part_at(before: PartitionCopy | None, base: int) -> Part | None:
    for each in () if before is None else before.segments:
        if before is not None and each.base == base:
            damaged = within(before.holes, [(base, each.end)])
            return Part(each, before.last if each is before.segments[-1] else None, damaged)
    return None


def is_same(old: SegmentCopy, now: SegmentAt) -> bool:
    if now[:4] != old[:4]:  # base offset, end, size, time
        return False
    return not now.is_sealed or not has_too_many_pieces(old)


def lacking(
    target: Target, pieces: Sequence[Piece], holes: Sequence[Range], is_compacted: bool
) -> list[Range]:
    """What no piece has of that. Between its ends a piece may have a hole, too. In a compacted log
    a range of which there is any batch was there: what else it lacks, compaction took."""
    there = [each for piece in pieces for each in ranges_in(target, piece, holes)]
    if is_compacted:
        return [each for each in holes if not within([each], there)]
    return without(holes, there)


def ranges_in(target: Target, piece: Piece, holes: Sequence[Range]) -> list[Range]:
    """Offsets of its batches, as far as they are asked for."""
    span = piece.start, piece.end
    if not within(holes, [span]):
        return []
    if piece.records == piece.end - piece.start:
        return [span]  # one record each: it need not be read
    batches = _batch.headers(target.get(piece.blob))
    return [(each.base_offset, each.last_offset + 1) for each in batches]


def may_go_on(old: Part, now: SegmentAt) -> bool:
    if old.last is None or old.segment.end > now.end_offset:
        return False
    return not now.is_sealed or not has_too_many_pieces(old.segment)


def has_too_many_pieces(old: SegmentCopy) -> bool:
    return len(old.pieces) > old.copied // PIECE_BYTES + PIECES_SPARE


def behind(frame: Frame, last: LastBatch, log: LogAt) -> Frame:
    """Without its first batch, which was copied before."""
    first = frame.batches[0]
    if (first.base_offset, first.crc) != last:
        raise HistoryDiffers(f"{log.name}: another batch than before is at {first.base_offset}")
    return Frame(frame.batches[1:] or frame.batches, frame.data[first.size :])
