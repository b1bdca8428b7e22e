"""Copies messages of one topic to another, with a dry run first."""

from __future__ import annotations

from typing import TypedDict

from typing_extensions import NotRequired

from appliance.access.acls import Operation
from appliance.admin import message_filter
from appliance.admin.message_ranges import cursor_of, first_ranges, ranges_of
from appliance.admin.message_scan import looked
from appliance.admin.produce import append, partition_for
from appliance.admin.rights import READ_TOPIC, TOPIC, WRITE_SOME_TOPIC
from appliance.admin.route import Call, post
from appliance.admin.shown_message import Message, shown
from appliance.admin.topic_lookup import readable, topic_of
from appliance.errors import RequestInvalid
from appliance.topics.topic import check_own

REPLAY_MESSAGES_MAX = 10_000  # per call; the response has the cursor to continue with


class Replay(TypedDict):
    to_topic: str
    cursor: NotRequired[str]  # the range, from `next` of a search
    filter: NotRequired[str]
    keeps_partition: NotRequired[bool]
    dry_run: NotRequired[bool]  # default: true


class Replayed(TypedDict):
    dry_run: bool
    count: int
    bytes: int
    scanned_offsets: int
    next: str | None
    first: list[Message]  # a few examples


async def replay(call: Call) -> Replayed:
    source, body = topic_of(call), call.body
    call.rights.check(Operation.WRITE, TOPIC, body["to_topic"])
    target = call.broker.topics.named(body["to_topic"])
    check_own(target.name)
    wanted = message_filter.parse(body.get("filter", ""))
    if "cursor" in body:
        ranges = ranges_of(body["cursor"], source)
    else:
        ranges = first_ranges(await readable(call, source, None), "oldest")
    if body.get("keeps_partition") and len(target.logs) < len(source.logs):
        raise RequestInvalid(
            f"keeps_partition: {target.name} has {len(target.logs)} partitions, wanted at least "
            f"the {len(source.logs)} of {source.name}"
        )
    seen = await looked(call, source, ranges, wanted, REPLAY_MESSAGES_MAX, False)
    is_dry = body.get("dry_run", True)
    if not is_dry and seen.found:
        keeps = body.get("keeps_partition", False)
        placed = [
            (partition_for(target, each.record, each.partition if keeps else None), each.record)
            for each in seen.found
        ]
        await append(call.broker, target, placed)
    sizes = [len(each.record.key or b"") + len(each.record.value or b"") for each in seen.found]
    return {
        "dry_run": is_dry,
        "count": len(seen.found),
        "bytes": sum(sizes),
        "scanned_offsets": seen.offsets,
        "next": cursor_of(source, seen.left) or None,
        "first": [shown(each, False) for each in seen.found[:5]],
    }


ROUTES = [
    post(
        "/topics/{topic}/replay",
        replay,
        Replayed,
        "Copy messages of one topic to another; a dry run unless dry_run is false.",
        body=Replay,
        reads_messages=True,
        rights=(READ_TOPIC, WRITE_SOME_TOPIC),
        asks="WRITE on the other topic",
    ),
]
