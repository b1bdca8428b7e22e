"""A partition whose streams break off, or whose holes were not told: what the copy lacks."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from appliance.backup import source
from appliance.backup.errors import SourceBroke
from appliance.backup.manifest import PartitionCopy, Piece
from appliance.backup.offset_ranges import Range, within
from appliance.backup.partition_copy import Copying
from appliance.backup.point import LogAt, SegmentAt
from appliance.backup.source import Rate
from appliance.backup.target import Target
from tests.support.backup_targets import (
    TEN,
    batch_at,
    batches_at,
    copy_of,
    piece_of,
    segment_of,
    target_in,
)


@dataclass
class Broker:
    """Streams break off where a hole begins of which nobody has known, and it is known then. And
    once behind each of `breaks`."""

    bases: Sequence[int]
    unmet: list[Range] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    known: list[Range] = field(default_factory=list)
    streams: int = 0

    @contextmanager
    def batches(self, log: LogAt, start: int | None, end: int) -> Iterator[Any]:
        self.streams += 1
        data = b"".join(self._told(start or 0, end))
        stream = io.BytesIO(data)
        yield stream

    def _told(self, start: int, end: int) -> Iterator[bytes]:
        at = start
        for base in [each for each in self.bases if start <= each < end]:
            if (hole := (at, base)) in self.unmet:
                self.unmet.remove(hole)
                self.known.append(hole)
                return
            yield framed(batch_at(base))
            at = base + TEN
            if at in self.breaks:
                self.breaks.remove(at)
                return
        holes = within(self.known, [(start, end)])
        yield bytes(4) + framed(json.dumps({"next_offset": end, "holes": holes}).encode())

    def holes(self, log: LogAt, start: int, end: int) -> Sequence[Range]:
        return [each for each in self.known if each[1] > start and each[0] < end]

    def take_point(self) -> Any:
        raise SourceBroke("nobody asks")

    renew_point = end_point = take_point


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def log_of(*ends: int, holes: Sequence[Range] = (), **given: Any) -> LogAt:
    """Sealed segments, with sizes as `segment_of` has them if nothing is damaged."""
    segments = tuple(
        SegmentAt(first, end, given.pop("size", len(batches_at(range(first, end, TEN)))), 1, True)
        for first, end in zip((0, *ends), ends, strict=False)
    )
    facts = {"log_start_offset": 0, "is_compacted": False, **given}
    return LogAt(
        topic="clicks", topic_id="id-of-clicks", partition=0, end_offset=ends[-1], leader_epoch=1,
        holes=tuple(holes), segments=segments, producers=b"", fault="", **facts,
    )  # fmt: skip


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr(source, "PAUSE_S", 0.001)
    return target_in(tmp_path / "target")


def copied(
    broker: Broker, target: Target, log: LogAt, before: PartitionCopy | None = None
) -> PartitionCopy:
    reading: Any = broker
    copying = Copying(reading, target, Rate(0), lambda size: None, lambda found: None)
    return copying.copy(log, before)


def test_each_hole_that_a_stream_passed_is_told_also_if_it_broke_off_behind(
    target: Target,
) -> None:
    """The third stream begins behind the first hole, and tells of the second alone."""
    holes = [(10, 20), (30, 40)]
    broker = Broker([0, 20, 40], unmet=[*holes])
    found = copied(broker, target, log_of(50))
    assert (broker.streams, [*found.holes]) == (3, holes)


def test_a_hole_is_told_if_the_stream_broke_off_before_its_trailer(target: Target) -> None:
    broker = Broker([0, 20], known=[(10, 20)], breaks=[30])
    assert copied(broker, target, log_of(30)).holes == ((10, 20),)


def with_a_gap(target: Target) -> Piece:
    """One piece, from 0 to 50, without 10 to 19."""
    return piece_of(target, [0, 20, 30, 40])


def test_what_no_backup_told_of_is_told_when_the_broker_knows_it(target: Target) -> None:
    piece = with_a_gap(target)
    before = copy_of(segment_of(piece))
    broker = Broker([])
    log = log_of(50, holes=[(10, 20), (30, 40)], size=piece.size)
    found = copied(broker, target, log, before)
    assert broker.streams == 0, "the segment is the same"
    assert found.holes == ((10, 20),), "30 to 39 were copied before they were damaged"
    assert found.segments == before.segments


def test_of_a_compacted_log_what_compaction_took_is_no_hole(target: Target) -> None:
    piece = with_a_gap(target)
    facts = {"size": piece.size, "is_compacted": True}
    before = copy_of(segment_of(piece))
    log = log_of(50, holes=[(5, 25)], **facts)
    assert copied(Broker([]), target, log, before).holes == ()
    log = log_of(50, holes=[(10, 20)], **facts)
    assert copied(Broker([]), target, log, before).holes == ((10, 20),)


def test_a_piece_that_is_damaged_itself_is_read_again(target: Target) -> None:
    piece = with_a_gap(target)
    before = copy_of(segment_of(piece))
    (Path(target.where) / "objects" / piece.name[:2] / piece.name).write_bytes(b"gone")
    broker = Broker([0, 20, 30, 40], known=[(10, 20)])
    found = copied(broker, target, log_of(50, holes=[(10, 20)], size=piece.size), before)
    assert (broker.streams, found.holes) == (1, ((10, 20),))


def test_a_hole_in_two_segments_is_not_forgotten_with_the_first(target: Target) -> None:
    segments = [segment_of(piece_of(target, [0, 10]), end=30),
                segment_of(piece_of(target, [40]), base=30)]  # fmt: skip
    before = copy_of(*segments, holes=((20, 40),))
    sizes = [SegmentAt(*each[:4], is_sealed=True) for each in segments]
    log = log_of(50, log_start_offset=30)
    log = LogAt(**{**vars(log), "segments": tuple(sizes[1:])})
    assert copied(Broker([]), target, log, before).holes == ((30, 40),)
