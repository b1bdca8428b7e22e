"""A manifest: what a backup has, and which objects that is. Written last, so a backup that has one
is whole.

The file is two lines: the manifest as JSON, and the SHA-256 of that line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from appliance.backup.errors import ObjectDamaged
from appliance.errors import DataNewer
from appliance.process.known_fields import made

FORMAT = 1


class Piece(NamedTuple):
    """An object with whole batches of one segment: [start, end) are their offsets."""

    start: int
    end: int
    size: int
    records: int
    name: str

    @property
    def blob(self) -> Blob:
        return Blob(self.size, self.name)


class SegmentCopy(NamedTuple):
    """`end`, `size` and `modified_ns` as the broker told them: by these it is known again. Pieces
    may have fewer bytes: what was deleted before the log's start is not copied."""

    base: int
    end: int
    size: int
    modified_ns: int
    pieces: tuple[Piece, ...]

    @property
    def copied(self) -> int:
        return sum(each.size for each in self.pieces)


class LastBatch(NamedTuple):
    """Of what was copied: who goes on behind it compares it first."""

    base_offset: int
    crc: int


class Blob(NamedTuple):
    """An object that is no batches."""

    size: int
    name: str


@dataclass(frozen=True)
class PartitionCopy:
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader_epoch: int
    segments: tuple[SegmentCopy, ...]
    last: LastBatch | None = None
    producers: Blob | None = None  # a snapshot of those that no batch tells of
    holes: tuple[tuple[int, int], ...] = ()
    fault: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def pieces(self) -> Iterator[Piece]:
        for each in self.segments:
            yield from each.pieces

    @property
    def size(self) -> int:
        return sum(each.size for each in self.pieces)

    @property
    def records(self) -> int:
        return sum(each.records for each in self.pieces)


@dataclass(frozen=True)
class Manifest:
    id: str
    at_ms: int  # the point: what was acknowledged before is in
    took_ms: int
    cluster_id: str
    broker_id: int
    version: str
    catalog: Blob
    partitions: tuple[PartitionCopy, ...]
    missing: tuple[str, ...] = ()  # what should be in it, and why it is not
    damaged: tuple[str, ...] = ()  # what was damaged at the broker before any backup had it
    kept: tuple[str, ...] = ()  # what is damaged at the broker, and is here by earlier backups
    gone: tuple[str, ...] = ()  # topics that were deleted while they were read
    read_bytes: int = 0  # from the broker for this one
    written_bytes: int = 0

    @property
    def size(self) -> int:
        return self.catalog.size + sum(each.size for each in self.partitions)

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def is_whole(self) -> bool:
        return not self.missing

    @property
    def blobs(self) -> Iterator[Blob]:
        """Of all objects: name and size."""
        yield self.catalog
        for each in self.partitions:
            if each.producers is not None:
                yield each.producers
            for one in each.pieces:
                yield one.blob


def to_bytes(manifest: Manifest) -> bytes:
    told = {"format": FORMAT, **vars(manifest)}
    told["partitions"] = [vars(each) for each in manifest.partitions]
    line = json.dumps(told, separators=(",", ":")).encode()
    return line + b"\n" + checksum(line) + b"\n"


def checksum(line: bytes) -> bytes:
    return b"sha256:" + hashlib.sha256(line).hexdigest().encode()


def of_bytes(name: str, data: bytes) -> Manifest:
    line, _, rest = data.partition(b"\n")
    if rest != checksum(line) + b"\n":
        raise ObjectDamaged(f"{name}: the manifest is damaged: its checksum is another")
    told: dict[str, Any] = json.loads(line)
    if (got := told.pop("format")) != FORMAT:
        raise DataNewer.of(name, got, FORMAT)
    told["catalog"] = Blob(*told["catalog"])
    told["partitions"] = tuple(map(_partition, told["partitions"]))
    for name in ("missing", "damaged", "kept", "gone"):
        told[name] = tuple(told.get(name, ()))
    return made(Manifest, told)


def _partition(told: dict[str, Any]) -> PartitionCopy:
    segments = tuple(
        SegmentCopy(base, end, size, modified_ns, tuple(Piece(*each) for each in pieces))
        for base, end, size, modified_ns, pieces in told["segments"]
    )
    last, producers = told["last"], told["producers"]
    return replace(
        made(PartitionCopy, told),
        segments=segments,
        last=None if last is None else LastBatch(*last),
        producers=None if producers is None else Blob(*producers),
        holes=tuple((first, end) for first, end in told["holes"]),
    )
