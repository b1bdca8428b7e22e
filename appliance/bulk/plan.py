"""The plan of a bulk read: a closed range of offsets per partition, and splits even in bytes.

It is fixed when it is made: who follows it reads the same records today and tomorrow, as long as
retention leaves them there. Blocks on the disk: for a thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypedDict

from typing_extensions import NotRequired

from appliance._log import Log
from appliance.bulk._range_cuts import cuts
from appliance.bulk.bounds import Bound, offset_of

NO_SIZES: Mapping[int, int] = {}


class PlannedPartition(TypedDict):
    partition: int
    log_start_offset: int
    end_offset: int  # what could be read to
    start: int
    end: int
    lost: NotRequired[int]  # offsets asked for that retention has deleted
    holes: NotRequired[list[list[int]]]  # [first, end) that recovery found damaged or gone


class Split(TypedDict):
    split: str  # brokerid/topic/partition/start
    partition: int
    start: int
    end: int  # the first offset that is not part of it
    bytes: int


class Range(NamedTuple):
    log: Log | None  # None: it is another broker's
    partition: int
    start: int
    end: int
    size: int


def partitions_of(
    log_of: Callable[[int], Log], first: Mapping[int, Bound], last: Mapping[int, Bound], up_to: str
) -> list[PlannedPartition]:
    chosen = sorted(first.keys() & last.keys())
    return [_partition(log_of(number), first[number], last[number], up_to) for number in chosen]


def _partition(log: Log, first: Bound, last: Bound, up_to: str) -> PlannedPartition:
    end_offset = log.last_stable_offset if up_to == "stable" else log.high_watermark
    asked = offset_of(first, log, end_offset, up_to)
    end = min(offset_of(last, log, end_offset, up_to), end_offset)
    # after the searches: retention goes on meanwhile
    log_start = log.log_start_offset
    start = min(max(asked, log_start), max(end_offset, log_start))
    found: PlannedPartition = {
        "partition": log.partition,
        "log_start_offset": log_start,
        "end_offset": end_offset,
        "start": start,
        "end": max(start, end),
    }
    if asked < log_start:
        found["lost"] = log_start - asked
    holes = [[a, b] for a, b in log.holes() if a < found["end"] and b > start]
    if holes:
        found["holes"] = holes
    return found


def splits_of(
    log_of: Callable[[int], Log],
    partitions: list[PlannedPartition],
    wanted: int,
    prefix: str,
    elsewhere: Mapping[int, int] = NO_SIZES,
) -> list[Split]:
    """About so many, at least one of each partition that has something. `elsewhere`: how large the
    ranges are that other brokers have; they are cut evenly in offsets."""
    ranges = [
        Range(None, number, each["start"], each["end"], elsewhere[number])
        if (number := each["partition"]) in elsewhere
        else _range(log_of(number), each)
        for each in partitions
    ]
    ranges = [each for each in ranges if each.start < each.end]
    step = sum(each.size for each in ranges) / max(1, wanted)
    return [split for each in ranges for split in _split(each, step, prefix)]


def _range(log: Log, planned: PlannedPartition) -> Range:
    start, end = planned["start"], planned["end"]
    size = cuts(log, start, end)[0] if start < end else 0
    return Range(log, log.partition, start, end, size)


def _split(each: Range, step: float, prefix: str) -> list[Split]:
    count = max(1, round(each.size / step)) if step else 1
    places = [(each.start, 0)]
    if count > 1:
        for place in _cuts(each, count):
            if places[-1][0] < place[0] < each.end:
                places.append(place)
    places.append((each.end, each.size))
    number = each.partition
    return [
        {
            "split": f"{prefix}/{number}/{start}",
            "partition": number,
            "start": start,
            "end": end,
            "bytes": after - before,
        }
        for (start, before), (end, after) in itertools.pairwise(places)
    ]


def _cuts(each: Range, count: int) -> list[tuple[int, int]]:
    if each.log is not None:
        return cuts(each.log, each.start, each.end, -(-each.size // count))[1]
    span = each.end - each.start
    return [(each.start + span * i // count, each.size * i // count) for i in range(1, count)]
