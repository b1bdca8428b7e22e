"""Targets of backups without a broker: manifests that are made by hand, and what they name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance.backup.cipher import Plain
from appliance.backup.manifest import Manifest, PartitionCopy, Piece, SegmentCopy
from appliance.backup.store import open_store
from appliance.backup.target import Target
from tests.support.logs import batch

TEN = 10  # records of a batch


def target_in(where: Path | str) -> Target:
    """A directory, or a URL."""
    made = Target(str(where), open_store(str(where), is_new=True), Plain())
    with made.locked():  # makes what a run needs
        return made


def batch_at(base: int, text: str = "v") -> bytes:
    """Ten records from this offset on."""
    data = batch(*(f"{text}{base + number:05d}" for number in range(TEN)))
    return base.to_bytes(8, "big") + data[8:]  # its checksum begins behind


def batches_at(bases: Iterable[int], text: str = "v") -> bytes:
    return b"".join(batch_at(each, text) for each in bases)


def piece_of(target: Target, bases: Iterable[int], text: str = "v") -> Piece:
    found = list(bases)
    size, name = target.put(batches_at(found, text))
    return Piece(found[0], found[-1] + TEN, size, TEN * len(found), name)


def segment_of(*pieces: Piece, base: int | None = None, end: int | None = None) -> SegmentCopy:
    size = sum(each.size for each in pieces)
    first = pieces[0].start if base is None else base
    return SegmentCopy(first, pieces[-1].end if end is None else end, size, 1, pieces)


def copy_of(*segments: SegmentCopy, **given: Any) -> PartitionCopy:
    facts = {
        "topic": "clicks", "topic_id": "id-of-clicks", "partition": 0, "leader_epoch": 1,
        "start": segments[0].base, "end": segments[-1].end,
    }  # fmt: skip
    return PartitionCopy(segments=segments, **{**facts, **given})


def backup_of(target: Target, number: int, *partitions: PartitionCopy, **given: Any) -> Manifest:
    """Published. Its id has the number."""
    facts = {
        "at_ms": number, "took_ms": 0, "cluster_id": "a-cluster", "broker_id": 1, "version": "1",
        "catalog": target.put(b"a catalog"),
    }  # fmt: skip
    made = Manifest(id=id_of(number), partitions=partitions, **{**facts, **given})
    target.publish(made)
    return made


def id_of(number: int) -> str:
    return f"20260101T000000.{number:03d}Z"
