"""What the broker promised of a data directory: the checkpoint journal and the watermarks, read
only. Formats: `docs/log-format.md`, `_checkpoint_journal.pyx`, `_watermark_file.pyx`.

For tools that read the files of a stopped broker. The broker itself reads them in its engine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from appliance._crc import crc32c

RECORD = struct.Struct(">IIqqB")
BEGIN, PARTITION, REMOVED, COMPLETE = 1, 2, 3, 4
CHECKPOINT = struct.Struct(">13qi3i")
NO_LIMIT = (1 << 63) - 1
HOLE_SIZE, HOLE_SIZE_OLD, HOLES_ARE_LONG = 40, 16, 1 << 30

HEADER = struct.Struct(">8sqqqq36sI")
HEADERS_AT = (0, 4096)
SLOTS_AT, SLOT_SIZE, NOTES_AT = 8192, 512, (320, 352)
NOTE = struct.Struct(">qqI")


@dataclass(frozen=True)
class Promise:
    """For one partition: its offsets from `log_start` to `end` were durable."""

    log_start: int
    end: int
    segment_base: int  # of the recovery point, and its position in that segment
    position: int
    bases: tuple[int, ...] = ()  # of the earlier segments
    holes: tuple[tuple[int, int], ...] = ()  # known as lost or damaged: [first, end)
    gaps_end: int = 0  # below it compaction may have removed offsets
    swap: tuple[int, int] = (-1, -1)  # a compaction that the next start finishes


@dataclass
class Promises:
    logs: dict[str, Promise] = field(default_factory=dict)
    fault: str = ""  # why they may be too low or are unknown


@dataclass
class _Generation:
    number: int = -1
    records: int = 0
    is_complete: bool = False
    live: dict[str, Promise] = field(default_factory=dict)


def read(data_dir: Path) -> Promises:
    """An empty table for a foreign directory."""
    files = [data_dir / name for name in ("checkpoint.0", "checkpoint.1", "watermarks")]
    if not any(path.exists() for path in files):
        return Promises()
    generations = [_generation(path) for path in files[:2]]
    whole = [each for each in generations if each.is_complete]
    marks, life = _marks(files[2])
    if not whole:
        fault = "the checkpoint journal is gone or damaged: it is unknown what was durable"
        return Promises({name: Promise(0, end, -1, 0) for name, end in marks.items()}, fault)
    newest = max(whole, key=lambda each: each.number)
    fault = ""
    if life is None:
        fault = "the file watermarks is missing or damaged: only the recovery points are known"
    elif (newest.number, newest.records) < life:
        fault = "the newest part of the checkpoint journal is damaged"
    for name, promise in newest.live.items():
        end = max(promise.end, marks.get(name, 0))
        newest.live[name] = Promise(**{**vars(promise), "end": end})
    return Promises(newest.live, fault)


def _generation(path: Path) -> _Generation:
    generation = _Generation()
    for number, kind, payload in _records(path.read_bytes() if path.exists() else b""):
        generation.number = number
        generation.records += 1
        if kind == COMPLETE:
            generation.is_complete = True
        elif kind in (PARTITION, REMOVED):
            (size,) = struct.unpack_from(">h", payload)
            name = payload[2 : 2 + size].decode()
            if kind == REMOVED:
                generation.live.pop(name, None)
            else:
                generation.live[name] = _promise(payload[2 + size :])
    return generation


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(generation, kind, payload) up to the first record out of sequence."""
    at, wanted, generation = 0, 0, None
    while at + RECORD.size <= len(data):
        size, crc, number, sequence, kind = RECORD.unpack_from(data, at)
        end = at + RECORD.size - 1 + size
        if size < 1 or end > len(data) or sequence != wanted:
            return
        if generation not in (None, number) or crc != crc32c(data[at + 8 : end]):
            return
        if wanted == 0 and kind != BEGIN:
            return
        generation, wanted = number, wanted + 1
        yield number, kind, data[at + RECORD.size : end]
        at += RECORD.size + (size - 1) + -(RECORD.size + size - 1) % 8


def _promise(data: bytes) -> Promise:
    fields = CHECKPOINT.unpack_from(data)
    recovery, base, position, log_start, limit, swap_base, swap_end = fields[:7]
    epochs, holes, bases = fields[14:17]
    hole_size = HOLE_SIZE if holes & HOLES_ARE_LONG else HOLE_SIZE_OLD
    holes &= ~HOLES_ARE_LONG
    at = CHECKPOINT.size + 12 * epochs
    ranges = [struct.unpack_from(">qq", data, at + hole_size * i) for i in range(holes)]
    at += hole_size * holes
    return Promise(
        log_start=log_start,
        end=min(recovery, limit),
        segment_base=base,
        position=position if limit == NO_LIMIT else 0,
        bases=struct.unpack_from(f">{bases}q", data, at),
        holes=tuple((first, end) for first, end in ranges),
        gaps_end=fields[12],
        swap=(swap_base, swap_end),
    )


def _marks(path: Path) -> tuple[dict[str, int], tuple[int, int] | None]:
    """The notes for each log; how far the journal was, or None if nothing can be read."""
    data = path.read_bytes() if path.exists() else b""
    heads = [HEADER.unpack_from(data, at) for at in HEADERS_AT if len(data) >= at + HEADER.size]
    good = [
        head
        for at, head in zip(HEADERS_AT, heads, strict=False)
        if head[6] == crc32c(data[at : at + HEADER.size - 4])
    ]
    if not good:
        return {}, None
    _, _, life, generation, records, _, _ = max(good, key=lambda head: head[1])
    newest = {}
    for at in range(SLOTS_AT, len(data) - SLOT_SIZE + 1, SLOT_SIZE):
        seed, size = struct.unpack_from(">IH", data, at)
        named = data[at + 4 : at + 6 + size]
        if 0 < size <= 255 and seed == crc32c(named, crc32c(struct.pack(">q", life))):
            notes = [(NOTE.unpack_from(data, at + step), at + step) for step in NOTES_AT]
            whole = [each for each, begin in notes
                     if each[2] == crc32c(data[begin : begin + 16], seed)]  # fmt: skip
            if whole:
                newest[named[2:].decode()] = max(whole, key=lambda each: each[1])[0]
    return newest, (generation, records)
