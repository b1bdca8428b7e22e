"""Producing messages over REST."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from typing import Annotated, Any, TypedDict

from typing_extensions import NotRequired

from appliance.admin.body_schema import Limits
from appliance.admin.rights import WRITE_TOPIC
from appliance.admin.route import Call, post
from appliance.admin.topic_lookup import check_partition, topic_of
from appliance.broker.broker import Broker
from appliance.errors import RequestInvalid
from appliance.record import _batch_builder, batching
from appliance.record._records import Record
from appliance.topics.topic import Topic, check_own

PRODUCE_SECONDS_MAX = 30.0
PRODUCE_MESSAGES_MAX = 10_000
BATCH_BYTES = 256 << 10  # well below the limit of a topic's batches, unless one record is larger


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
    messages: Annotated[list[NewMessage], Limits(0, PRODUCE_MESSAGES_MAX)]


class RecordMetadata(TypedDict):
    partition: int
    offset: int


class Produced(TypedDict):
    produced: list[RecordMetadata]  # in the order of the messages


async def produce(call: Call) -> Produced:
    topic, body = topic_of(call), call.body
    check_own(topic.name)
    now_ms = call.broker.clock.latest_ms()
    placed = []
    for number, each in enumerate(body["messages"]):
        record = record_of(each, now_ms, f"body.messages[{number}]")
        placed.append((partition_for(topic, record, each.get("partition")), record))
    return {"produced": await append(call.broker, topic, placed)}


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
        check_partition(topic, asked)
        return asked
    return zlib.crc32(record.key) % len(topic.logs) if record.key is not None else 0


async def append(
    broker: Broker, topic: Topic, placed: list[tuple[int, Record]]
) -> list[RecordMetadata]:
    """Returns when it is on disk, and counts. What other brokers lead goes to them; nothing is
    written if a partition has no leader."""
    places: list[RecordMetadata] = [{"partition": each, "offset": -1} for each, _ in placed]
    numbers: dict[int, list[int]] = {}
    for i, (partition, _) in enumerate(placed):
        numbers.setdefault(partition, []).append(i)
    elsewhere = broker.leaders.led_elsewhere(topic, numbers)
    here = {each: [placed[i][1] for i in own]
            for each, own in numbers.items() if each not in elsewhere}  # fmt: skip
    offsets = await asyncio.to_thread(append_here, topic, here)
    for each in elsewhere:
        records = [placed[i][1] for i in numbers[each]]
        offsets[each] = await append_elsewhere(broker, topic, each, records)
    for each, own in numbers.items():
        for i, offset in zip(own, offsets[each], strict=True):
            places[i]["offset"] = offset
    return places


def append_here(topic: Topic, records: dict[int, list[Record]]) -> dict[int, list[int]]:
    """The offsets, by partition."""
    offsets: dict[int, list[int]] = {}
    elections: dict[int, int] = {}
    for partition, own in records.items():
        log = topic.log(partition)
        elections[partition] = log.election
        offsets[partition] = []
        for run in batching.runs(own, size_of, BATCH_BYTES):
            appended = log.append(_batch_builder.batch(run))
            offsets[partition] += range(appended.base_offset, appended.last_offset + 1)
    for partition, found in offsets.items():
        topic.log(partition).await_durable(
            found[-1], PRODUCE_SECONDS_MAX, elections[partition]
        )
    return offsets


async def append_elsewhere(
    broker: Broker, topic: Topic, partition: int, records: list[Record]
) -> list[int]:
    offsets: list[int] = []
    for run in batching.runs(records, size_of, BATCH_BYTES):
        batch = await asyncio.to_thread(_batch_builder.batch, run)
        base = await broker.leaders.produce(topic, partition, bytes(batch))
        offsets += range(base, base + len(run))
    return offsets


def size_of(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


ROUTES = [
    post(
        "/topics/{topic}/messages",
        produce,
        Produced,
        "Produce messages; the response follows when they are on disk.",
        body=NewMessages,
        status=201,
        rights=(WRITE_TOPIC,),
    ),
]
