"""The segment files of a partition over REST."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import TypedDict

from appliance._log import Log
from appliance.admin.rights import DESCRIBE_TOPIC
from appliance.admin.route import Call, get
from appliance.admin.topic_lookup import log_of
from appliance.errors import ApplianceError
from appliance.storage._log_description import SegmentInfo

TIME_ENTRY = struct.Struct(">qi")  # of a time index: timestamp, offset above the base


class Segment(TypedDict):
    file: str
    base_offset: int
    end_offset: int
    size_bytes: int
    records: int  # offsets
    first_timestamp_ms: int | None
    largest_timestamp_ms: int | None  # None: not known, or no record has one
    index_bytes: int
    time_index_bytes: int
    state: str  # active, sealed


class SegmentList(TypedDict):
    topic: str
    partition: int
    directory: str
    size_bytes: int
    segments: list[Segment]
    damaged: list[dict[str, int]]  # ranges that were set aside


async def list_segments(call: Call) -> SegmentList:
    log = log_of(call)
    segments = log.segments()
    return {
        "topic": log.topic,
        "partition": log.partition,
        "directory": str(Path(segments[0].path).parent),
        "size_bytes": sum(each.size for each in segments),
        "segments": await asyncio.to_thread(segment_rows, log, segments),
        "damaged": [{"first_offset": first, "end_offset": end} for first, end in log.holes()],
    }


def segment_rows(log: Log, segments: list[SegmentInfo]) -> list[Segment]:
    """Touches the disk: the first batch of each is read for its time."""
    return [
        {
            "file": Path(each.path).name,
            "base_offset": each.base_offset,
            "end_offset": each.end_offset,
            "size_bytes": each.size,
            "records": max(0, each.end_offset - each.base_offset),
            "first_timestamp_ms": first_timestamp(log, each),
            "largest_timestamp_ms": largest_timestamp(each),
            "index_bytes": size_of(Path(each.path).with_suffix(".index")),
            "time_index_bytes": size_of(Path(each.path).with_suffix(".timeindex")),
            "state": "active" if each is segments[-1] else "sealed",
        }
        for each in segments
    ]


def first_timestamp(log: Log, segment: SegmentInfo) -> int | None:
    """None where retention was faster, or compaction left nothing."""
    offset = max(segment.base_offset, log.log_start_offset)
    if offset >= segment.end_offset:
        return None
    try:
        found = log.read(offset, 1, "end")
    except ApplianceError:
        return None
    return int.from_bytes(found[27:35], "big", signed=True) if len(found) >= 61 else None


def largest_timestamp(segment: SegmentInfo) -> int | None:
    """Of a segment that nobody has asked since the start it stands at the end of its time index."""
    found = segment.largest_timestamp
    if found is None:
        try:
            index = Path(segment.path).with_suffix(".timeindex").read_bytes()
        except FileNotFoundError:
            return None
        found = TIME_ENTRY.unpack(index[-TIME_ENTRY.size :])[0] if index else -1
    return found if found >= 0 else None


def size_of(path: Path) -> int:
    """0: an active segment's index is in memory until it is sealed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


ROUTES = [
    get(
        "/topics/{topic}/partitions/{partition}/segments",
        list_segments,
        SegmentList,
        "The segment files of one partition.",
        rights=(DESCRIBE_TOPIC,),
    ),
]
