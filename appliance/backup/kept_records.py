"""What is damaged or gone at the broker, and an earlier backup has: the next one keeps it, from the
newest that has it. The backup before may lack the whole partition, which was not served, or may not
have found a file of the target whole that is whole by now.

Only of logs that are not compacted: there a key that was deleted since would come back. And only if
both backups have the same history: the batches on both sides of the damage are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from appliance.backup.errors import ObjectDamaged
from appliance.backup.manifest import LastBatch, Manifest, PartitionCopy, Piece, SegmentCopy
from appliance.backup.offset_ranges import Range, merged, within, without
from appliance.backup.target import Target
from appliance.record import _batch

Key = tuple[str, str, int]  # of a partition: its topic, the id of that, its number


def keep_all(
    target: Target, copies: Iterable[PartitionCopy], earlier: Iterable[Manifest]
) -> list[PartitionCopy]:
    """The copies with what they lack, of the first of these backups that has it. No more of them
    are read than are needed, and none if nothing is lacking."""
    found = {key_of(each): each for each in copies}
    backups = iter(earlier)
    while any(each.holes for each in found.values()):
        backup = next(backups, None)
        if backup is None:
            break
        for each in backup.partitions:
            lacks = found.get(key_of(each))
            if lacks is not None and lacks.holes:
                found[key_of(each)] = keep(target, lacks, there(target, each))
    return [*found.values()]


def key_of(copied: PartitionCopy) -> Key:
    return copied.topic, copied.topic_id, copied.partition


def there(target: Target, copied: PartitionCopy) -> PartitionCopy:
    """Without segments of which the target has lost a piece."""
    kept = [each for each in copied.segments if target.has(piece.blob for piece in each.pieces)]
    is_tail_kept = bool(kept) and kept[-1] is copied.segments[-1]
    return replace(copied, segments=tuple(kept), last=copied.last if is_tail_kept else None)


def had(copied: PartitionCopy) -> list[Range]:
    """Of these offsets it has all that there was. Of each piece, that may have a hole inside."""
    return without([(each.start, each.end) for each in copied.pieces], copied.holes)


def keep(target: Target, found: PartitionCopy, earlier: PartitionCopy) -> PartitionCopy:
    """`found` with the records that it lacks, and without the holes that are filled with that. A
    hole beside which the target is damaged stays: `verify` tells of that."""
    holes = within(found.holes, earlier.holes)  # it does not have them: nothing is read for that
    for hole in without(merged(found.holes), earlier.holes):
        left = [hole]
        if within(left, had(earlier)):
            with suppress(ObjectDamaged):
                found, left = fill(target, found, earlier, hole)
        holes += left
    return replace(found, holes=tuple(merged(holes)))


def fill(
    target: Target, found: PartitionCopy, earlier: PartitionCopy, hole: Range
) -> tuple[PartitionCopy, list[Range]]:
    """And what is left of the hole."""
    if not is_same_history(target, found, earlier, *hole):
        return found, [hole]
    left = []
    for part in parts_of(hole, found.segments):
        kept = segments_in(target, earlier, *part)
        found = replace(
            found,
            segments=tuple(filled(target, found, part, kept)),
            start=kept[0].base if kept and part[1] == found.start else found.start,
        )
        left += without([part], [one[:2] for each in kept for one in each.pieces])
    return found, left


def parts_of(hole: Range, segments: Iterable[SegmentCopy]) -> list[Range]:
    """Each in one segment, or in none."""
    ranges = [(each.base, each.end) for each in segments]
    return sorted([*within([hole], ranges), *without([hole], ranges)])


def segments_in(
    target: Target, copied: PartitionCopy, first: int, behind: int
) -> list[SegmentCopy]:
    """What its segments have in [first, behind), with the times of their files. And with a size
    that no file has: if one comes back at the broker, it is read."""
    found = []
    for each in copied.segments:
        pieces = [one for piece in each.pieces for one in cut(target, piece, (first, behind))]
        if pieces:
            found.append(SegmentCopy(
                pieces[0].start, pieces[-1].end, 0, each.modified_ns, tuple(pieces)
            ))  # fmt: skip
    return found


def cut(target: Target, piece: Piece, *ranges: Range) -> list[Piece]:
    """Its batches in each of these ranges, as a piece of their own."""
    touched = [each for each in ranges if piece.start < each[1] and each[0] < piece.end]
    if any(first <= piece.start and piece.end <= behind for first, behind in touched):
        return [piece]
    data = target.get(piece.blob) if touched else b""
    found = []
    for first, behind in touched:
        inside = [
            each for each in _batch.headers(data)
            if first <= each.base_offset and each.last_offset < behind
        ]  # fmt: skip
        if inside:
            part = data[inside[0].position : inside[-1].position + inside[-1].size]
            size, name = target.put(part)
            records = sum(each.records_count for each in inside)
            start, end = inside[0].base_offset, inside[-1].last_offset + 1
            found.append(Piece(start, end, size, records, name))
    return found


def is_same_history(
    target: Target, found: PartitionCopy, earlier: PartitionCopy, first: int, behind: int
) -> bool:
    """Whether no side of the damage differs; one must be in both, unless nothing else is left."""
    sides = []
    for offset in (first - 1, behind):
        now, before = piece_at(found, offset), piece_at(earlier, offset)
        if now is not None and before is not None:
            sides.append(
                now.name == before.name  # and nothing need be read
                or batch_at(target, now, offset) == batch_at(target, before, offset)
            )
    return all(sides) if sides else not any(True for _ in found.pieces)


def piece_at(copied: PartitionCopy, offset: int) -> Piece | None:
    return next((each for each in copied.pieces if each.start <= offset < each.end), None)


def batch_at(target: Target, piece: Piece, offset: int) -> LastBatch | None:
    for each in _batch.headers(target.get(piece.blob)):
        if each.base_offset <= offset <= each.last_offset:
            return LastBatch(each.base_offset, each.crc)
    return None


def filled(
    target: Target, found: PartitionCopy, part: Range, kept: Sequence[SegmentCopy]
) -> list[SegmentCopy]:
    """Its segments, with these in that part of them, or beside them."""
    segments = list(found.segments)
    for number, each in enumerate(segments):
        if each.base <= part[0] < each.end:
            beside = (each.base, part[0]), (part[1], each.end)
            pieces = [one for piece in each.pieces for one in cut(target, piece, *beside)]
            pieces += [one for segment in kept for one in segment.pieces]
            segments[number] = each._replace(pieces=tuple(sorted(pieces)))
            return segments
    return sorted([*segments, *kept])
