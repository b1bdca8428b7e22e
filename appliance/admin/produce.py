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
from appliance.admin.topic_lookup import log_at, topic_of
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


def append(topic: Topic, placed: list[tuple[int, Record]]) -> list[RecordMetadata]:
    """Returns when it is on disk."""
    places: list[RecordMetadata] = [{"partition": each, "offset": -1} for each, _ in placed]
    last: dict[int, int] = {}
    for partition in dict.fromkeys(each for each, _ in placed):
        numbers = [i for i, (each, _) in enumerate(placed) if each == partition]
        rows = iter(numbers)
        for run in batching.runs([placed[i][1] for i in numbers], size_of, BATCH_BYTES):
            appended = topic.log(partition).append(_batch_builder.batch(run))
            for offset in range(appended.base_offset, appended.last_offset + 1):
                places[next(rows)]["offset"] = offset
            last[partition] = appended.last_offset
    for partition, offset in last.items():
        topic.log(partition).await_durable(offset, PRODUCE_SECONDS_MAX)
    return places


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
