"""Messages over REST: look, search, follow live, produce, replay into another topic."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypedDict

from aiohttp import web
from typing_extensions import NotRequired

from appliance._log import Log
from appliance.admin import message_filter, scan
from appliance.admin.decoding import DecodeFailed, Decoder, Decoders
from appliance.admin.message_filter import Filter
from appliance.admin.route import Call, Param, get, post
from appliance.admin.scan import Bounds, Found, Look, Range, cursor_of, look, ranges_of
from appliance.admin.schemas import PARTS, decoders_of
from appliance.admin.topics import log_at, topic_of
from appliance.catalog import kafka_uuid
from appliance.errors import RequestInvalid
from appliance.record._batch import Record, build
from appliance.topics.topic import Topic, check_own

LOOK_BYTES_MAX = 32 << 20  # read from logs in one look
LOOK_SECONDS_MAX = 2.0  # then whoever searches sees how far it came
TEXT_MAX = 64 << 10  # characters of a key or value that are shown, unless all is asked for
PRODUCE_SECONDS_MAX = 30.0
PRODUCE_MESSAGES_MAX = 10_000
BATCH_BYTES = 256 << 10  # well below what topics take in a batch, unless one record is larger
REPLAY_MESSAGES_MAX = 10_000  # in one call; its answer says where to go on
NOT_SERVED = -1  # the end of a partition that is not open
LIVE_PAUSE_SECONDS = 0.2  # between two looks at the ends of the logs
LIVE_MESSAGES_MAX = 200  # in one of them; the rest is left out, and counted
AS_IT_IS = Decoders()
LIVE_BEAT_SECONDS = 15.0  # a line that keeps the connection open, through proxies too


class Data(TypedDict):
    """A key or a value."""

    size: int
    form: str  # json, text, hex; by a schema: avro, protobuf
    text: str
    is_cut: bool
    schema_id: NotRequired[int]  # that the data names, in Confluent's form
    problem: NotRequired[str]  # why it is not as its schema says; it is shown as it is then


class Header(TypedDict):
    name: str
    value: Data | None


class Message(TypedDict):
    partition: int
    offset: int
    timestamp_ms: int
    key: Data | None
    value: Data | None
    headers: list[Header]


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


class PartRange(TypedDict):
    partition: int
    first_offset: int
    end_offset: int


class RangeAnswer(TypedDict):
    cursor: str  # for an export or a replay; empty: there is no record in the range
    offsets: int
    partitions: list[PartRange]


class NewData(TypedDict):
    """One of these."""

    text: NotRequired[str]
    json: NotRequired[Any]
    base64: NotRequired[str]


class NewHeader(TypedDict):
    name: str
    value: NewData | None


class NewMessage(TypedDict):
    key: NotRequired[NewData | None]
    value: NotRequired[NewData | None]
    headers: NotRequired[list[NewHeader]]
    timestamp_ms: NotRequired[int]
    partition: NotRequired[int]


class NewMessages(TypedDict):
    messages: list[NewMessage]


class Place(TypedDict):
    partition: int
    offset: int


class Produced(TypedDict):
    produced: list[Place]  # in the order of the messages


class Replay(TypedDict):
    to_topic: str
    cursor: NotRequired[str]  # what to replay; as `next` of a look
    filter: NotRequired[str]
    keeps_partition: NotRequired[bool]
    dry_run: NotRequired[bool]  # true, unless told otherwise


class Replayed(TypedDict):
    dry_run: bool
    count: int
    bytes: int
    scanned_offsets: int
    next: str | None
    first: list[Message]  # a few, to see what it is


# Looking


async def list_messages(call: Call) -> Messages:
    topic = topic_of(call)
    wanted = message_filter.parse(call.params["filter"])
    is_backward = call.params["from"] == "newest"
    away: list[scan.Problem] = []  # told by the first look
    if call.params["cursor"] is not None:
        ranges = ranges_of(call.params["cursor"], topic)
    else:
        partition = call.params["partition"]
        logs = topic.open_logs
        if partition is not None:
            logs = [log_at(topic, partition)]
        else:
            unserved = topic.unserved.items()
            away = [scan.Problem(each, 0, f"not served: {why}") for each, why in unserved]
        ranges = await asyncio.to_thread(first_ranges, logs, call.params["from"])
    seen = await looked(call, topic, ranges, wanted, call.params["limit"], is_backward)
    seen.problems += away
    found = seen.found
    if is_backward:
        found.sort(key=lambda each: (-each.record.timestamp, each.partition, -each.record.offset))
        found, kept_back = found[: call.params["limit"]], found[call.params["limit"] :]
        seen.left = with_back(seen.left, kept_back, ranges)
    decoders = await decoders_of(call, topic)
    is_full = call.params["full"]
    return {
        "messages": await asyncio.to_thread(
            lambda: [shown(each, is_full, decoders) for each in found]
        ),
        "scanned_offsets": seen.offsets,
        "scanned_bytes": seen.bytes,
        "left_offsets": sum(each.end - each.first for each in seen.left),
        "next": cursor_of(topic, seen.left) or None,
        "is_complete": not seen.left,
        "problems": [{"partition": a, "offset": b, "what": c} for a, b, c in seen.problems],
    }


def with_back(left: list[Range], kept_back: Iterable[Found], asked: list[Range]) -> list[Range]:
    """What was found beyond the limit is read again by the next look."""
    ends = {each.partition: each.end for each in left}
    for each in kept_back:
        ends[each.partition] = max(ends.get(each.partition, 0), each.record.offset + 1)
    firsts = {each.partition: each.first for each in asked}
    return [Range(number, firsts[number], end) for number, end in sorted(ends.items())]


async def find_range(call: Call) -> RangeAnswer:
    topic, number = topic_of(call), call.params["partition"]
    chosen = topic.all_logs() if number is None else [log_at(topic, number)]
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


def first_ranges(
    logs: list[Log], where: str, until: str | None = None
) -> list[Range]:
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


async def looked(
    call: Call, topic: Topic, ranges: list[Range], wanted: Filter, limit: int, is_backward: bool
) -> Look:
    bounds = Bounds(limit, LOOK_BYTES_MAX, LOOK_SECONDS_MAX)
    async with call.looks:
        return await asyncio.to_thread(
            look, topic.log, ranges, wanted, bounds, is_backward=is_backward
        )


def shown(found: Found, is_full: bool, decoders: Decoders = AS_IT_IS) -> Message:
    record, most = found.record, 1 << 30 if is_full else TEXT_MAX
    return {
        "partition": found.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": data_by(decoders, decoders.key, record.key, most),
        "value": data_by(decoders, decoders.value, record.value, most),
        "headers": [{"name": key, "value": data_of(each, most)} for key, each in record.headers],
    }


def data_by(
    decoders: Decoders, decoder: Decoder | None, data: bytes | None, most: int
) -> Data | None:
    """One that is not what its schema says is shown as it is, with the reason."""
    if data is None or decoder is None:
        return data_of(data, most)
    try:
        text, schema_id = decoders.decoded(decoder, data)
    except DecodeFailed as error:
        whole = data_of(data, most)
        return whole and {**whole, "problem": f"{decoder.form}: {error}"}
    found: Data = {
        "size": len(data), "form": decoder.form, "text": text[:most], "is_cut": len(text) > most,
    }  # fmt: skip
    return found if schema_id is None else {**found, "schema_id": schema_id}


def data_of(data: bytes | None, most: int) -> Data | None:
    """JSON stays the text that it is: its large numbers would not survive being read."""
    if data is None:
        return None
    text, form = data.hex(), "hex"
    try:
        text, form = data.decode(), "text"
        if text[:1] in ("{", "["):
            json.loads(text)
            form = "json"
    except (ValueError, RecursionError):
        pass  # then it is text, or bytes
    return {"size": len(data), "form": form, "text": text[:most], "is_cut": len(text) > most}


# Following


async def follow(call: Call) -> web.StreamResponse:
    """Server-sent events: `message` with a message, `skipped` with how many were left out, and
    `deleted` when the topic is: one that is made anew is followed by a stream of its own."""
    topic = topic_of(call)
    wanted = message_filter.parse(call.params["filter"])
    response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
    response.content_type = "text/event-stream"
    await response.prepare(call.request)
    with suppress(ConnectionResetError):  # who listened is gone
        await send_news(call, topic, wanted, response)
    return response


async def send_news(
    call: Call, topic: Topic, wanted: Filter, response: web.StreamResponse
) -> None:
    ends = {number: end_of(log) for number, log in enumerate(topic.logs)}
    await response.write(b": following\n\n")
    quiet_since = time.monotonic()
    while call.process.status == "ok" and may_still_read(call):
        await asyncio.sleep(LIVE_PAUSE_SECONDS)
        if call.broker.topic_of_id(topic.id) is None:
            await response.write(event("deleted", {"topic_id": kafka_uuid.text_of(topic.id)}))
            return
        ranges = news(topic, ends)
        if not ranges:
            if time.monotonic() - quiet_since >= LIVE_BEAT_SECONDS:
                await response.write(b": still here\n\n")
                quiet_since = time.monotonic()
            continue
        seen = await looked(call, topic, ranges, wanted, LIVE_MESSAGES_MAX, False)
        left = sum(each.end - each.first for each in seen.left)
        decoders = await decoders_of(call, topic)  # they may have been changed, and count anew
        events = await asyncio.to_thread(events_of, seen.found, decoders, call.params["full"])
        if left:
            events.append(event("skipped", {"offsets": left}))
        await response.write(b"".join(events))
        quiet_since = time.monotonic()


def may_still_read(call: Call) -> bool:
    """It ends with the session, and with the right: both may have changed since it began."""
    identity = call.guard.identity(call.request, is_used=False)
    return identity is not None and identity.may_read


def events_of(found: list[Found], decoders: Decoders, is_full: bool) -> list[bytes]:
    return [event("message", shown(each, is_full, decoders)) for each in found]


def end_of(log: Log | None) -> int:
    return NOT_SERVED if log is None else log.last_stable_offset


def news(topic: Topic, ends: dict[int, int]) -> list[Range]:
    """What came since; `ends` is moved."""
    found = []
    for number, log in enumerate(topic.logs):
        before, end = ends.get(number, 0), end_of(log)
        if end > before != NOT_SERVED:
            found.append(Range(number, before, end))
        ends[number] = end
    return found


def event(name: str, body: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(body)}\n\n".encode()


# Producing


async def produce(call: Call) -> Produced:
    topic, body = topic_of(call), call.body
    check_own(topic.name)
    if len(body["messages"]) > PRODUCE_MESSAGES_MAX:
        got = len(body["messages"])
        raise RequestInvalid(f"messages: got {got}, wanted at most {PRODUCE_MESSAGES_MAX}")
    now_ms = call.broker.clock.latest_ms()
    placed = []
    for number, each in enumerate(body["messages"]):
        record = record_of(each, now_ms, f"body.messages[{number}]")
        placed.append((partition_for(topic, record, each.get("partition")), record))
    return {"produced": await asyncio.to_thread(append, topic, placed)}


def record_of(message: NewMessage, now_ms: int, place: str) -> Record:
    return Record(
        message.get("timestamp_ms", now_ms),
        bytes_of(message.get("key"), f"{place}.key"),
        bytes_of(message.get("value"), f"{place}.value"),
        [
            (each["name"], bytes_of(each["value"], f"{place}.headers"))
            for each in message.get("headers", [])
        ],
    )


def bytes_of(data: NewData | None, place: str) -> bytes | None:
    if data is None:
        return None
    if len(data) != 1:
        raise RequestInvalid(f"{place}: wanted one of text, json and base64")
    if "text" in data:
        return data["text"].encode("utf-8", "surrogatepass")
    if "json" in data:
        return json.dumps(data["json"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(data["base64"], validate=True)
    except ValueError as error:
        raise RequestInvalid(f"{place}.base64: {error}") from error


def partition_for(topic: Topic, record: Record, asked: int | None) -> int:
    """By the key's CRC-32, as librdkafka chooses; without a key, the first."""
    if asked is not None:
        log_at(topic, asked)
        return asked
    return zlib.crc32(record.key) % len(topic.logs) if record.key is not None else 0


def append(topic: Topic, placed: list[tuple[int, Record]]) -> list[Place]:
    """Returns when it is on disk."""
    places: list[Place] = [{"partition": each, "offset": -1} for each, _ in placed]
    last: dict[int, int] = {}
    for partition in dict.fromkeys(each for each, _ in placed):
        numbers = [i for i, (each, _) in enumerate(placed) if each == partition]
        rows = iter(numbers)
        for some in batches([placed[i][1] for i in numbers]):
            appended = topic.log(partition).append(build(some))
            for offset in range(appended.base_offset, appended.last_offset + 1):
                places[next(rows)]["offset"] = offset
            last[partition] = appended.last_offset
    for partition, offset in last.items():
        topic.log(partition).await_durable(offset, PRODUCE_SECONDS_MAX)
    return places


def batches(records: list[Record]) -> Iterator[list[Record]]:
    """As many as make a batch that a topic takes."""
    some: list[Record] = []
    size = 0
    for each in records:
        length = len(each.key or b"") + len(each.value or b"")
        if some and size + length > BATCH_BYTES:
            yield some
            some, size = [], 0
        some.append(each)
        size += length
    if some:
        yield some


# Replaying


async def replay(call: Call) -> Replayed:
    source, body = topic_of(call), call.body
    target = call.broker.topic(body["to_topic"])
    check_own(target.name)
    wanted = message_filter.parse(body.get("filter", ""))
    if "cursor" in body:
        ranges = ranges_of(body["cursor"], source)
    else:
        ranges = first_ranges(source.all_logs(), "oldest")
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
        await asyncio.to_thread(append, target, placed)
    sizes = [len(each.record.key or b"") + len(each.record.value or b"") for each in seen.found]
    return {
        "dry_run": is_dry,
        "count": len(seen.found),
        "bytes": sum(sizes),
        "scanned_offsets": seen.offsets,
        "next": cursor_of(source, seen.left) or None,
        "first": [shown(each, False) for each in seen.found[:5]],
    }


AS = tuple(
    Param(
        f"{part}_as",
        str,
        f"Show {part}s by the topic's schema, if there is one, or as they are (JSON, text, hex).",
        "auto",
        choices=("auto", "plain"),
    )
    for part in PARTS
)
FILTER = Param("filter", str, "Conditions, as `value.id = 7 and header.type contains order`.", "")
FULL = Param("full", bool, "Keys and values whole, however long.", False)

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
            FILTER,
            Param("cursor", str, "Where to go on: `next` of the look before."),
            FULL,
            *AS,
        ),
        reads_messages=True,
    ),
    get(
        "/topics/{topic}/range",
        find_range,
        RangeAnswer,
        "Where in each partition a range begins and ends, for an export or a replay.",
        params=(
            Param("from", str, "oldest, offset:N, offset:-N (from the end), time:MS.", "oldest"),
            Param("until", str, "The first not in it, as offset:N or time:MS; else the end."),
            Param("partition", int, "Of this partition only.", minimum=0),
        ),
    ),
    get(
        "/topics/{topic}/messages/live",
        follow,
        None,
        "New messages as they come, as server-sent events.",
        params=(FILTER, FULL, *AS),
        media="text/event-stream",
        reads_messages=True,
    ),
    post(
        "/topics/{topic}/messages",
        produce,
        Produced,
        "Produce messages; answered when they are on disk.",
        body=NewMessages,
        status=201,
    ),
    post(
        "/topics/{topic}/replay",
        replay,
        Replayed,
        "Write messages of one topic into another; a dry run unless dry_run is false.",
        body=Replay,
        reads_messages=True,
    ),
]
