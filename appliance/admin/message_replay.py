"""Copies messages of one topic to another, with a dry run first.

They are written in pieces, in the order in which they were read. Where a piece cannot be written
the answer is about those before it, with the cursor to go on from. Of that piece some may be there:
nobody knows which, and whoever goes on is told that these will be there twice.
"""

from __future__ import annotations

from typing import TypedDict

from typing_extensions import NotRequired

from appliance.access.acls import Operation
from appliance.admin import message_filter
from appliance.admin.message_ranges import Range, cursor_of, first_ranges, ranges_of
from appliance.admin.message_scan import Look, ScannedRecord, looked
from appliance.admin.produce import append, partition_for
from appliance.admin.rights import READ_TOPIC, TOPIC, WRITE_SOME_TOPIC
from appliance.admin.route import Call, post
from appliance.admin.shown_message import Message, shown
from appliance.admin.topic_lookup import readable, topic_of
from appliance.errors import ApplianceError, Refused, RequestInvalid
from appliance.process.spoken import some
from appliance.topics.topic import Topic, check_own

REPLAY_MESSAGES_MAX = 10_000  # per call; the response has the cursor to continue with
PIECE_MESSAGES = 500  # written at a time: as many may be there twice after a failure


class Replay(TypedDict):
    to_topic: str
    cursor: NotRequired[str]  # the range, from `next` of a search
    filter: NotRequired[str]
    keeps_partition: NotRequired[bool]
    dry_run: NotRequired[bool]  # default: true


class Unread(TypedDict):
    partition: int
    first_offset: int
    end_offset: int
    what: str  # why it was not read


class Replayed(TypedDict):
    dry_run: bool
    count: int
    bytes: int
    scanned_offsets: int
    unread_offsets: int  # sum
    unread: list[Unread]  # in the range, and left out
    next: str | None
    stopped: str | None  # why it went no further than to `next`
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
    is_dry, found, stopped = body.get("dry_run", True), seen.found, None
    if not is_dry:
        count, stopped = await written(call, target, found, body.get("keeps_partition", False))
        if stopped:
            seen.left = behind(ranges, found[count - 1])
            found = found[:count]
    unread = unread_in(seen)
    sizes = [len(each.record.key or b"") + len(each.record.value or b"") for each in found]
    return {
        "dry_run": is_dry,
        "count": len(found),
        "bytes": sum(sizes),
        "scanned_offsets": seen.offsets,
        "unread_offsets": sum(each["end_offset"] - each["first_offset"] for each in unread),
        "unread": unread,
        "next": cursor_of(source, seen.left) or None,
        "stopped": stopped,
        "first": [shown(each, False) for each in found[:5]],
    }


async def written(
    call: Call, target: Topic, found: list[ScannedRecord], keeps_partition: bool
) -> tuple[int, str | None]:
    """How many, and why not all. Raises where that was so of the first piece."""
    for count in range(0, len(found), PIECE_MESSAGES):
        piece = found[count:][:PIECE_MESSAGES]
        placed = [
            (partition_for(target, each.record, each.partition if keeps_partition else None),
             each.record)
            for each in piece
        ]  # fmt: skip
        try:
            await append(call.broker, target, placed)
        except ApplianceError as error:
            text = (
                f"{some(count, 'message')} of this step are in {target.name}, and of the next "
                f"{len(piece)} some may be, which are there twice when it is tried again: {error}"
            )
            if not count:
                raise Refused(error.kafka_code, text) from error
            return count, text
    return len(found), None


def behind(ranges: list[Range], last: ScannedRecord) -> list[Range]:
    """What is left of these, in their order, once that record is done."""
    offset = last.record.offset
    at = next(place for place, each in enumerate(ranges)
              if each.partition == last.partition and each.first <= offset < each.end)  # fmt: skip
    rest = [ranges[at]._replace(first=offset + 1), *ranges[at + 1 :]]
    return [each for each in rest if each.first < each.end]


def unread_in(seen: Look) -> list[Unread]:
    """But for what is left: that is read again."""
    gone = [Unread(partition=each.partition, first_offset=each.first, end_offset=each.end,
                   what="deleted before it was read") for each in seen.deleted]  # fmt: skip
    bad = [Unread(partition=each.partition, first_offset=each.offset, end_offset=each.end_offset,
                  what=each.what) for each in seen.problems]  # fmt: skip
    return [each for each in gone + bad if not any(
        left.partition == each["partition"] and left.first <= each["first_offset"] < left.end
        for left in seen.left)]  # fmt: skip


ROUTES = [
    post(
        "/topics/{topic}/replay",
        replay,
        Replayed,
        "Copy messages of one topic to another; a dry run unless dry_run is false. One call is "
        "bounded: go on with `next`. `unread` names what could not be read, `stopped` says why no "
        "more was written, and what may be there twice.",
        body=Replay,
        reads_messages=True,
        rights=(READ_TOPIC, WRITE_SOME_TOPIC),
        asks="WRITE on the other topic",
    ),
]
