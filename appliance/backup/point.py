"""The broker's point in time, as `POST /api/v1/backup/points` tells it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class SegmentAt(NamedTuple):
    base: int
    end: int
    size: int
    modified_ns: int
    is_sealed: bool


@dataclass(frozen=True)
class LogAt:
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader_epoch: int
    is_compacted: bool
    holes: tuple[tuple[int, int], ...]
    segments: tuple[SegmentAt, ...]
    producers: bytes
    fault: str

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


@dataclass(frozen=True)
class Point:
    id: str
    at_ms: int
    hold_s: float
    cluster_id: str
    broker_id: int
    version: str
    catalog: bytes
    logs: tuple[LogAt, ...]
    unserved: tuple[str, ...]


def point_of(told: Mapping[str, Any]) -> Point:
    return Point(
        id=told["point"],
        at_ms=told["at_ms"],
        hold_s=told["hold_ms"] / 1000,
        cluster_id=told["cluster_id"],
        broker_id=told["broker_id"],
        version=told["version"],
        catalog=base64.b64decode(told["catalog"]),
        logs=tuple(map(_log, told["logs"])),
        unserved=tuple(
            f"{each['topic']}-{each['partition']} is not served: {each['why']}"
            for each in told["unserved"]
        ),
    )


def _log(told: Mapping[str, Any]) -> LogAt:
    segments = (
        SegmentAt(each["base_offset"], each["end_offset"], each["size_bytes"],
                  each["modified_ns"], each["is_sealed"])
        for each in told["segments"]
    )  # fmt: skip
    return LogAt(
        topic=told["topic"],
        topic_id=told["topic_id"],
        partition=told["partition"],
        start=told["log_start_offset"],
        end=told["end_offset"],
        leader_epoch=told["leader_epoch"],
        is_compacted=told["is_compacted"],
        holes=tuple((first, behind) for first, behind in told["holes"]),
        segments=tuple(segments),
        producers=base64.b64decode(told["producers"]),
        fault=told["fault"],
    )
