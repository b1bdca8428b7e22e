"""A message for the console and the REST API: text, JSON, hex, or decoded by a schema."""

from __future__ import annotations

import json
from typing import TypedDict, overload

from typing_extensions import NotRequired

from appliance.admin.decoding import Decoder, Decoders
from appliance.admin.message_filter import JSON_MAX
from appliance.admin.message_scan import ScannedRecord
from appliance.admin.registry_look import Kept
from appliance.admin.route import Param
from appliance.admin.topic_schemas import PARTS
from appliance.record._records import Record
from appliance.schemas.registry_ids import Named
from appliance.schemas.schema_limits import DecodeFailed

TEXT_MAX = 64 << 10  # shown characters of a key or value, unless all is requested
AS_IT_IS = Decoders()


NUMBER_SIZE = 8  # of a long, which begins as an id does


class SchemaShown(TypedDict):
    """Of the registry."""

    id: str  # a number, or a GUID
    type: str  # the record's name in Avro, the message's in Protobuf, the title in JSON Schema
    subject: str | None  # one that has it, and names no topic that may not be described
    version: int | None  # in that


class Data(TypedDict):
    """A key or a value."""

    size: int
    form: str  # json, text, hex; by a schema: avro, protobuf
    text: str
    is_cut: bool
    schema_id: NotRequired[int]  # from the data, in Confluent's form
    schema: NotRequired[SchemaShown]  # by which the registry had it decoded
    problem: NotRequired[str]  # why it does not match its schema; it is shown undecoded then


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


def shown(found: ScannedRecord, is_full: bool, decoders: Decoders = AS_IT_IS) -> Message:
    record, most = found.record, 1 << 30 if is_full else TEXT_MAX
    return {
        "partition": found.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": data_by(decoders, "key", record, most),
        "value": data_by(decoders, "value", record, most),
        "headers": [{"name": key, "value": data_of(each, most)} for key, each in record.headers],
    }


def data_by(decoders: Decoders, part: str, record: Record, most: int) -> Data | None:
    """Data that does not match its schema is shown undecoded, with the reason."""
    data: bytes | None = getattr(record, part)
    decoder: Decoder | None = getattr(decoders, part)
    if data is None:
        return None
    if decoder is not None:
        return data_by_topic(decoders, decoder, data, most)
    if decoders.registry is not None:
        found = decoders.registry.schema(part, data, record.headers)
        if found is not None:
            return data_by_registry(decoders, part, data, found, most)
    return data_of(data, most)


def data_by_topic(decoders: Decoders, decoder: Decoder, data: bytes, most: int) -> Data:
    try:
        text, schema_id = decoders.decoded(decoder, data)
    except DecodeFailed as error:
        return {**data_of(data, most), "problem": f"{decoder.form}: {error}"}
    found = decoded_data(data, decoder.form, text, most)
    return found if schema_id is None else {**found, "schema_id": schema_id}


def data_by_registry(
    decoders: Decoders, part: str, data: bytes, found: tuple[Named, Kept], most: int
) -> Data:
    named, kept = found
    if kept.is_unknown and len(data) == NUMBER_SIZE and named.behind is None:
        return data_of(data, most)  # a number, and no schema's
    shown = data_of(data, most)
    if kept.decoder is None:
        shown["problem"] = f"schema {named.key.name}: {kept.problem}"
    else:
        decoder = kept.decoder
        try:
            text, type_name = decoders.bounded(lambda _: decoder.decode(named), data)
        except DecodeFailed as error:
            shown["problem"] = f"{decoder.form}, schema {named.key.name}: {error}"
        else:
            shown = decoded_data(data, decoder.form, text, most)
            shown["schema"] = schema_shown(decoders, part, named, type_name)
    if named.key.number is not None:
        shown["schema_id"] = named.key.number
    return shown


def schema_shown(decoders: Decoders, part: str, named: Named, type_name: str) -> SchemaShown:
    assert decoders.registry is not None
    subject = decoders.registry.subject(named.key, part)
    return {
        "id": named.key.name,
        "type": type_name,
        "subject": subject and subject.name,
        "version": subject and subject.version,
    }


def decoded_data(data: bytes, form: str, text: str, most: int) -> Data:
    return {"size": len(data), "form": form, "text": text[:most], "is_cut": len(text) > most}


@overload
def data_of(data: bytes, most: int) -> Data: ...
@overload
def data_of(data: None, most: int) -> None: ...
@overload
def data_of(data: bytes | None, most: int) -> Data | None: ...


def data_of(data: bytes | None, most: int) -> Data | None:
    """JSON is returned as text: decoding would change large numbers. What is too long to look at is
    text."""
    if data is None:
        return None
    text, form = data.hex(), "hex"
    try:
        text, form = data.decode(), "text"
        if text[:1] in ("{", "[") and len(text) <= JSON_MAX:
            json.loads(text)
            form = "json"
    except (ValueError, RecursionError):
        pass  # then it is text or bytes
    return {"size": len(data), "form": form, "text": text[:most], "is_cut": len(text) > most}


AS = tuple(
    Param(
        f"{part}_as",
        str,
        f"Decode {part}s by the topic's schema, if any, or show them undecoded (JSON, text, hex).",
        "auto",
        choices=("auto", "plain"),
    )
    for part in PARTS
)
FULL = Param("full", bool, "Whole keys and values of any length.", False)
