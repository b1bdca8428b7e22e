"""Messages over REST: a look into a topic, and a search through it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypedDict

from appliance.admin import message_filter, message_scan
from appliance.admin.message_ranges import Range, cursor_of, first_ranges, ranges_of
from appliance.admin.message_scan import ScannedRecord, looked
from appliance.admin.rights import READ_TOPIC
from appliance.admin.route import Call, Param, get
from appliance.admin.schema_registry import WAIT_SECONDS, WAIT_SECONDS_MAX
from appliance.admin.shown_message import AS, FULL, Message, shown
from appliance.admin.topic_lookup import readable, topic_of
from appliance.admin.topic_schemas import decoders_of

SCHEMA_WAIT = Param(
    "schema_wait_ms", int, "How long a schema registry may take, for who cannot look again.",
    int(WAIT_SECONDS * 1000), minimum=0, maximum=WAIT_SECONDS_MAX * 1000,
)  # fmt: skip


class Problem(TypedDict):
    partition: int
    offset: int
    what: str


class Messages(TypedDict):
    messages: list[Message]
    scanned_offsets: int
    scanned_bytes: int
    left_offsets: int  # in the range that was asked for
    next: str | None  # the cursor to go on with; None: the range is read to its end
    is_complete: bool
    problems: list[Problem]  # batches that cannot be read


async def list_messages(call: Call) -> Messages:
    topic = topic_of(call)
    wanted = message_filter.parse(call.params["filter"])
    is_backward = call.params["from"] == "newest"
    away: list[message_scan.Problem] = []  # told by the first look
    if call.params["cursor"] is not None:
        ranges = ranges_of(call.params["cursor"], topic)
    else:
        partition = call.params["partition"]
        if partition is not None:
            logs = await readable(call, topic, partition)
        else:
            shown_here, why = await call.broker.leaders.shown([topic])
            logs = [log for _, log in shown_here]
            for (_, number), text in sorted(why.items()):
                text = f"not served: {text}" if number in topic.unserved else text
                away.append(message_scan.Problem(number, 0, text))
        ranges = await asyncio.to_thread(first_ranges, logs, call.params["from"])
    seen = await looked(call, topic, ranges, wanted, call.params["limit"], is_backward)
    seen.problems += away
    found = seen.found
    if is_backward:
        found.sort(key=lambda each: (-each.record.timestamp, each.partition, -each.record.offset))
        found, kept_back = found[: call.params["limit"]], found[call.params["limit"] :]
        seen.left = with_back(seen.left, kept_back, ranges)
    records, wait_s = [each.record for each in found], call.params["schema_wait_ms"] / 1000
    decoders = await decoders_of(call, topic, records, wait_s)
    is_full = call.params["full"]
    return {
        "messages": await asyncio.to_thread(
            lambda: [shown(each, is_full, decoders) for each in found]
        ),
        # not what was read: a look backwards reads pieces, and gives back what is beyond the limit
        "scanned_offsets": offsets_of(ranges) - offsets_of(seen.left),
        "scanned_bytes": seen.bytes,
        "left_offsets": offsets_of(seen.left),
        "next": cursor_of(topic, seen.left) or None,
        "is_complete": not seen.left,
        "problems": [{"partition": a, "offset": b, "what": c} for a, b, c, _ in seen.problems],
    }


def offsets_of(ranges: list[Range]) -> int:
    return sum(each.end - each.first for each in ranges)


def with_back(
    left: list[Range], kept_back: Iterable[ScannedRecord], asked: list[Range]
) -> list[Range]:
    """What was found beyond the limit is read again by the next look."""
    ends = {each.partition: each.end for each in left}
    for each in kept_back:
        ends[each.partition] = max(ends.get(each.partition, 0), each.record.offset + 1)
    firsts = {each.partition: each.first for each in asked}
    return [Range(number, firsts[number], end) for number, end in sorted(ends.items())]


ROUTES = [
    get(
        "/topics/{topic}/messages",
        list_messages,
        Messages,
        "Messages of a topic. One look is bounded: go on with `next` until `is_complete`.",
        params=(
            Param(
                "from",
                str,
                "oldest, newest, offset:N, offset:-N (from the end), time:MS.",
                "newest",
            ),
            Param("partition", int, "Of this partition only.", minimum=0),
            Param("limit", int, "How many to give.", 50, minimum=1, maximum=1000),
            message_filter.FILTER,
            Param("cursor", str, "Where to go on: `next` of the look before."),
            FULL,
            *AS,
            SCHEMA_WAIT,
        ),
        reads_messages=True,
        rights=(READ_TOPIC,),
    ),
]
