"""A message as the console and the REST API show it: text, JSON, hex, or decoded by a schema."""

from __future__ import annotations

import json
from typing import TypedDict

from typing_extensions import NotRequired

from appliance.admin.decoding import DecodeFailed, Decoder, Decoders
from appliance.admin.route import Param
from appliance.admin.scan import Found
from appliance.admin.schemas import PARTS

TEXT_MAX = 64 << 10  # characters of a key or value that are shown, unless all is asked for
AS_IT_IS = Decoders()


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
FULL = Param("full", bool, "Keys and values whole, however long.", False)
