"""Ranges of messages: where in a partition they begin and end, and the cursor that names them."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple, TypedDict

from appliance._log import Log
from appliance.admin.rights import DESCRIBE_TOPIC
from appliance.admin.route import Call, Param, get
from appliance.admin.topic_lookup import check_meant, readable, topic_of
from appliance.catalog import kafka_uuid
from appliance.errors import RequestInvalid
from appliance.topics.topic import Topic


class Range(NamedTuple):
    """[first, end) of one partition."""

    partition: int
    first: int
    end: int


class PartRange(TypedDict):
    partition: int
    first_offset: int
    end_offset: int


class RangeAnswer(TypedDict):
    cursor: str  # for a download or a replay; empty: there is no record in the range
    offsets: int
    partitions: list[PartRange]


async def find_range(call: Call) -> RangeAnswer:
    topic, number = topic_of(call), call.params["partition"]
    chosen = await readable(call, topic, number)
    begin, end = call.params["from"], call.params["until"]
    found = await asyncio.to_thread(first_ranges, chosen, begin, end)
    return {
        "cursor": cursor_of(topic, found),
        "offsets": sum(each.end - each.first for each in found),
        "partitions": [
            {"partition": each.partition, "first_offset": each.first, "end_offset": each.end}
            for each in found
        ],
    }


def first_ranges(logs: list[Log], where: str, until: str | None = None) -> list[Range]:
    """Touches the disk, where it is a time."""
    found = []
    for log in logs:
        start, end = log.log_start_offset, log.last_stable_offset
        if until is not None:
            end = min(end, first_offset(log, until, start, end))
        first = start if where in ("oldest", "newest") else first_offset(log, where, start, end)
        if first < end:
            found.append(Range(log.partition, max(first, start), end))
    return found


def first_offset(log: Log, where: str, start: int, end: int) -> int:
    """Of the range, or of what comes behind it."""
    kind, _, text = where.partition(":")
    number = int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
    if number is None or kind not in ("offset", "time"):
        raise RequestInvalid(
            f"from: got {where[:60]!r}, wanted oldest, newest, offset:N, offset:-N (from the end) "
            "or time:MS"
        )
    if kind == "time":
        at = log.offset_for_timestamp(number)
        return end if at is None else at[0]
    return max(start, end + number) if number < 0 else number


def cursor_of(topic: Topic, ranges: list[Range]) -> str:
    """With the id of the topic: somebody may go on long after, when another one has its name."""
    text = ",".join(f"{each.partition}:{each.first}:{each.end}" for each in ranges)
    return text and f"{text}@{kafka_uuid.text_of(topic.id)}"


OFFSET = re.compile(r"[0-9]{1,18}")


def ranges_of(cursor: str, topic: Topic) -> list[Range]:
    """One that somebody has written by hand need not name the topic."""
    text, _, topic_id = cursor.partition("@")
    check_meant(topic, topic_id or None)
    partitions, found = len(topic.logs), []
    for part in text.split(","):
        numbers = part.split(":")
        if len(numbers) != 3 or not all(OFFSET.fullmatch(one) for one in numbers):
            raise RequestInvalid(f"cursor: got {part[:60]!r}, wanted PARTITION:FIRST:END")
        partition, first, end = map(int, numbers)
        if partition >= partitions:
            raise RequestInvalid(f"cursor: got partition {partition}, wanted 0 to {partitions - 1}")
        found.append(Range(partition, first, end))
    return found


ROUTES = [
    get(
        "/topics/{topic}/range",
        find_range,
        RangeAnswer,
        "Where in each partition a range begins and ends, for a download or a replay.",
        params=(
            Param("from", str, "oldest, offset:N, offset:-N (from the end), time:MS.", "oldest"),
            Param("until", str, "The first not in it, as offset:N or time:MS; else the end."),
            Param("partition", int, "Of this partition only.", minimum=0),
        ),
        rights=(DESCRIBE_TOPIC,),
    ),
]
