"""Schemas of topics' keys and values over REST: kept in the catalog, used to show messages."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Container, Iterable
from typing import Literal, TypedDict

from typing_extensions import NotRequired

from appliance.admin import body_schema
from appliance.admin.decoding import Decoder, Decoders
from appliance.admin.registry_look import RegistryLook
from appliance.admin.rights import ALTER_TOPIC_CONFIGS, DESCRIBE_TOPIC
from appliance.admin.route import OPERATOR, Call, delete, get, put
from appliance.admin.schema_registry import WAIT_SECONDS, Registry
from appliance.admin.topic_lookup import topic_of
from appliance.admin.topic_schema_rows import TopicSchema, TopicSchemaRows
from appliance.config import SchemaRegistryConfig
from appliance.errors import ResourceUnknown
from appliance.record._records import Record
from appliance.schemas.avro_decoder import AvroDecoder
from appliance.schemas.protobuf_decoder import ProtobufDecoder
from appliance.schemas.registry_ids import SchemaKey, schema_named
from appliance.schemas.schema_limits import SCHEMA_BYTES_MAX, SchemaInvalid
from appliance.topics.topic import Topic

PARTS = ("key", "value")
BUILT_MAX = 100  # decoders in memory; others are built again when they are used

Form = Literal["avro", "protobuf"]


class SchemaRow(TypedDict):
    form: str
    message: str  # the name of the message type
    text: str  # Avro: JSON; Protobuf: a FileDescriptorSet in base64
    updated_ms: int
    problem: str | None  # why the schema cannot be used


class RegistryRow(TypedDict):
    url: str
    problem: str | None  # why it cannot be asked just now


class SchemaRows(TypedDict):
    key: SchemaRow | None
    value: SchemaRow | None
    registry: RegistryRow | None  # decodes what has no schema here, and names one there


class NewSchema(TypedDict):
    form: Form
    text: str
    message: NotRequired[str]  # Protobuf: the message type, if there are several


class Schemas:
    """Built decoders, by the digest of their schema, and those of the registry, if there is one."""

    def __init__(self, config: SchemaRegistryConfig) -> None:
        self.registry = Registry(config) if config.is_on else None
        self._built: OrderedDict[bytes, Decoder] = OrderedDict()

    def decoder(self, row: TopicSchema) -> Decoder:
        """May take long, so a thread calls it."""
        whole = f"{row.form}\0{row.message}\0{row.text}".encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(whole).digest()
        decoder = self._built.get(digest)
        if decoder is None:
            decoder = built(row.form, row.text, row.message)
            self._built[digest] = decoder
            while len(self._built) > BUILT_MAX:
                self._built.popitem(last=False)
        return decoder

    async def close(self) -> None:
        if self.registry is not None:
            await self.registry.close()


def built(form: str, text: str, message: str) -> Decoder:
    if len(text) > SCHEMA_BYTES_MAX:
        raise SchemaInvalid(f"text: got {len(text)} characters, wanted at most {SCHEMA_BYTES_MAX}")
    return AvroDecoder(text) if form == "avro" else ProtobufDecoder(text, message)


async def decoders_of(
    call: Call, topic: Topic, records: Iterable[Record], wait_s: float = WAIT_SECONDS
) -> Decoders:
    """The decoders of the topic, and for other parts those of the registry for these records,
    for which it is waited so long; none for parts that the request wants as plain text."""
    rows = await asyncio.to_thread(TopicSchemaRows(call.broker.catalog).of, topic.name)

    def build() -> Decoders:
        decoders: dict[str, Decoder] = {}
        for row in rows:
            if call.params[f"{row.part}_as"] == "auto":
                try:
                    decoders[row.part] = call.schemas.decoder(row)
                except SchemaInvalid:
                    continue  # the dialog shows the problem; messages are shown undecoded
        return Decoders(decoders.get("key"), decoders.get("value"))

    decoders = await asyncio.to_thread(build) if rows else Decoders()
    decoders.registry = await look_of(call, topic, records, decoders, wait_s)
    return decoders


async def look_of(
    call: Call, topic: Topic, records: Iterable[Record], decoders: Decoders,
    wait_s: float = WAIT_SECONDS,
) -> RegistryLook | None:
    registry = call.schemas.registry
    if registry is None:
        return None
    wanted = [part for part in PARTS if call.params[f"{part}_as"] == "auto"]
    parts = [part for part in wanted if getattr(decoders, part) is None]
    keys = await asyncio.to_thread(keys_named, parts, records)
    known = await registry.known(keys, wait_s)
    described = call.described_topics()

    def may_tell(subject: str) -> bool:
        named = [] if described.is_everything else topics_named(subject, call.broker.topics)
        return all(each in described for each in named)

    return RegistryLook(topic.name, parts, known, may_tell)


def topics_named(subject: str, topics: Container[str]) -> list[str]:
    """By serializers: `orders-value`, `orders-com.shop.Order`."""
    fronts = [subject[:at] for at, sign in enumerate(subject) if sign == "-"]
    return [each for each in fronts if each in topics]


def keys_named(parts: list[str], records: Iterable[Record]) -> list[SchemaKey]:
    """Those of the schemas that the records name."""
    found = [
        schema_named(part, data, each.headers)
        for each in records
        for part in parts
        if (data := getattr(each, part)) is not None
    ]
    return [each.key for each in found if each is not None]


def part_of(call: Call) -> str:
    part = call.path["part"]
    if part not in PARTS:
        raise ResourceUnknown(f"got {part[:40]!r}, wanted key or value")
    return part


async def list_schemas(call: Call) -> SchemaRows:
    topic = topic_of(call)
    rows = await asyncio.to_thread(TopicSchemaRows(call.broker.catalog).of, topic.name)
    shown = await asyncio.to_thread(lambda: {row.part: row_of(call.schemas, row) for row in rows})
    return {
        "key": shown.get("key"),
        "value": shown.get("value"),
        "registry": registry_row(call.schemas.registry),
    }


def registry_row(registry: Registry | None) -> RegistryRow | None:
    return None if registry is None else {"url": registry.place, "problem": registry.problem}


def row_of(schemas: Schemas, row: TopicSchema) -> SchemaRow:
    message, problem = row.message, None
    try:
        message = schemas.decoder(row).about
    except SchemaInvalid as error:
        problem = str(error)
    return body_schema.row_of(SchemaRow, row, message=message, problem=problem)


async def put_schema(call: Call) -> SchemaRows:
    topic, part, body = topic_of(call), part_of(call), call.body
    row = TopicSchema(
        topic.name, part, body["form"], body["text"], body.get("message", ""),
        time.time_ns() // 1_000_000,
    )  # fmt: skip
    await asyncio.to_thread(call.schemas.decoder, row)  # refuses an invalid schema
    await asyncio.to_thread(TopicSchemaRows(call.broker.catalog).put, row)
    return await list_schemas(call)


async def delete_schema(call: Call) -> None:
    topic, part = topic_of(call), part_of(call)
    rows = TopicSchemaRows(call.broker.catalog)
    if not await asyncio.to_thread(rows.delete, topic.name, part):
        raise ResourceUnknown(f"{topic.name} has no schema for its {part}")


ROUTES = [
    get(
        "/topics/{topic}/schemas",
        list_schemas,
        SchemaRows,
        "The schemas that decode keys and values for display.",
        rights=(DESCRIBE_TOPIC,),
    ),
    put(
        "/topics/{topic}/schemas/{part}",
        put_schema,
        SchemaRows,
        "Set the schema of keys or values: Avro, or a FileDescriptorSet of Protobuf in base64.",
        body=NewSchema,
        role=OPERATOR,
        rights=(ALTER_TOPIC_CONFIGS,),
    ),
    delete(
        "/topics/{topic}/schemas/{part}",
        delete_schema,
        None,
        "Remove the schema: keys or values are shown undecoded.",
        role=OPERATOR,
        rights=(ALTER_TOPIC_CONFIGS,),
    ),
]
