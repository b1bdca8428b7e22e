"""The broker's point in time: its facts, and their JSON in `POST /api/v1/backup/points`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, cast


class SegmentAt(NamedTuple):
    base_offset: int
    end_offset: int
    size_bytes: int  # of the file, as is the next
    modified_ns: int
    is_sealed: bool


@dataclass(frozen=True)
class LogAt:
    """A partition's log at a point: all of it below `end_offset` is on disk."""

    topic: str
    topic_id: str
    partition: int
    log_start_offset: int
    end_offset: int
    leader_epoch: int
    is_compacted: bool
    holes: tuple[tuple[int, int], ...]
    segments: tuple[SegmentAt, ...]
    producers: bytes  # a snapshot of those that nothing behind the start tells of
    fault: str  # why less is on disk than there was

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


class Unserved(NamedTuple):
    topic: str
    partition: int
    why: str


@dataclass(frozen=True)
class Point:
    point: str  # its id
    at_ms: int  # what was acknowledged before is in
    hold_ms: int  # so long compaction rests, unless that is renewed
    cluster_id: str
    broker_id: int
    version: str
    logs: tuple[LogAt, ...]
    unserved: tuple[Unserved, ...]
    catalog: bytes  # `catalog.db`


# As JSON. Bytes are in base64; all else has its name and its kind.


class SegmentRow(TypedDict):
    base_offset: int
    end_offset: int
    size_bytes: int
    modified_ns: int
    is_sealed: bool


class LogRow(TypedDict):
    topic: str
    topic_id: str
    partition: int
    log_start_offset: int
    end_offset: int
    leader_epoch: int
    is_compacted: bool
    holes: list[list[int]]
    segments: list[SegmentRow]
    producers: str
    fault: str


class UnservedRow(TypedDict):
    topic: str
    partition: int
    why: str


class PointAnswer(TypedDict):
    point: str
    at_ms: int
    hold_ms: int
    cluster_id: str
    broker_id: int
    version: str
    logs: list[LogRow]
    unserved: list[UnservedRow]
    catalog: str


def to_json(point: Point) -> PointAnswer:
    told = {
        **vars(point),
        "logs": [_row(each) for each in point.logs],
        "unserved": [each._asdict() for each in point.unserved],
        "catalog": base64.b64encode(point.catalog).decode(),
    }
    return cast(PointAnswer, told)


def _row(log: LogAt) -> dict[str, Any]:
    return {
        **vars(log),
        "segments": [each._asdict() for each in log.segments],
        "producers": base64.b64encode(log.producers).decode(),
    }


def of_json(told: Mapping[str, Any]) -> Point:
    """What a newer broker may tell beside is left out."""
    return Point(**{
        **of_names(Point.__annotations__, told),
        "logs": tuple(map(_log, told["logs"])),
        "unserved": tuple(
            Unserved(**of_names(Unserved._fields, each)) for each in told["unserved"]
        ),
        "catalog": base64.b64decode(told["catalog"]),
    })  # fmt: skip


def _log(told: Mapping[str, Any]) -> LogAt:
    return LogAt(**{
        **of_names(LogAt.__annotations__, told),
        "holes": tuple((first, behind) for first, behind in told["holes"]),
        "segments": tuple(
            SegmentAt(**of_names(SegmentAt._fields, each)) for each in told["segments"]
        ),
        "producers": base64.b64decode(told["producers"]),
    })  # fmt: skip


def of_names(names: Iterable[str], told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in names}
