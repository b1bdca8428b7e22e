"""A message for the console and the REST API: text, JSON, hex, or decoded by a schema."""

from __future__ import annotations

import json
from typing import TypedDict

from typing_extensions import NotRequired

from appliance.admin.decoding import DecodeFailed, Decoder, Decoders
from appliance.admin.message_scan import ScannedRecord
from appliance.admin.route import Param
from appliance.admin.topic_schemas import PARTS

TEXT_MAX = 64 << 10  # shown characters of a key or value, unless all is requested
AS_IT_IS = Decoders()


class Data(TypedDict):
    """A key or a value."""

    size: int
    form: str  # json, text, hex; by a schema: avro, protobuf
    text: str
    is_cut: bool
    schema_id: NotRequired[int]  # from the data, in Confluent's form
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
        "key": data_by(decoders, decoders.key, record.key, most),
        "value": data_by(decoders, decoders.value, record.value, most),
        "headers": [{"name": key, "value": data_of(each, most)} for key, each in record.headers],
    }


def data_by(
    decoders: Decoders, decoder: Decoder | None, data: bytes | None, most: int
) -> Data | None:
    """Data that does not match its schema is shown undecoded, with the reason."""
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
    """JSON is returned as text: decoding would change large numbers."""
    if data is None:
        return None
    text, form = data.hex(), "hex"
    try:
        text, form = data.decode(), "text"
        if text[:1] in ("{", "["):
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
