"""Keys and values by their schemas: what is decoded, and what hostile schemas and data come to."""

from __future__ import annotations

import base64
import io
import json
import struct
import time
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as some

from appliance.admin import decoding
from appliance.admin.decoding import Decoders
from appliance.schemas import avro_decoder
from appliance.schemas.avro_decoder import AvroDecoder
from appliance.schemas.protobuf_decoder import ProtobufDecoder
from appliance.schemas.schema_limits import DecodeFailed, SchemaInvalid
from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "what", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "marks", "type": {"type": "map", "values": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["new", "old"]}},
        {"name": "raw", "type": "bytes"},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}  # fmt: skip
ROW: dict[str, Any] = {
    "id": 2**53 + 1, "who": "Ada", "lines": [{"what": "tea", "count": 2}], "marks": {"a": 0.5},
    "kind": "old", "raw": b"\x00\xff", "sum": b"abcd", "at": 1_700_000_000_000, "next": None,
    "price": b"\x04\xd2",
}  # fmt: skip
AS_JSON = {
    **ROW, "raw": "00ff", "sum": "61626364", "at": "2023-11-14 22:13:20+00:00", "price": "12.34",
}  # fmt: skip


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def plain_order(row: dict[str, Any]) -> dict[str, Any]:
    """What the writer of logical types wants."""
    from datetime import datetime, timezone
    from decimal import Decimal

    at = datetime.fromtimestamp(1_700_000_000, timezone.utc)
    return {**row, "at": at, "price": Decimal("12.34")}


DATUM = avro(ORDER, plain_order(ROW))


def decoder(schema: Any) -> AvroDecoder:
    return AvroDecoder(json.dumps(schema))


# Avro


def test_avro_is_shown_as_json() -> None:
    text, schema_id = decoder(ORDER).decode(DATUM)
    assert (json.loads(text), schema_id) == (AS_JSON, None)
    assert decoder(ORDER).about == "shop.Order"


def test_confluents_head_is_skipped_where_there_is_one() -> None:
    text, schema_id = decoder(ORDER).decode(struct.pack(">BI", 0, 77) + DATUM)
    assert (json.loads(text)["who"], schema_id) == ("Ada", 77)
    # a datum of its own that begins with a zero, and is long enough to be taken for a head
    text, schema_id = decoder({"type": "array", "items": "int"}).decode(b"\x00")
    assert (text, schema_id) == ("[]", None)
    pair = {"type": "record", "name": "P", "fields": [{"name": n, "type": "int"} for n in "abcde"]}
    assert decoder(pair).decode(b"\x00\x02\x04\x06\x08")[1] is None


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "nonsense", '{"type": "record"}', '{"type": "nothing"}', "[[[[", "3", "null",
        '{"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]}',
        "[" * 100_000, '{"type": ' * 200 + '"int"' + "}" * 200,
        json.dumps({"type": "fixed", "name": "F", "size": "x"}),
        json.dumps({"type": "array", "items": {"type": "fixed", "name": "F", "size": -1}}),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaInvalid):
        AvroDecoder(text).decode(b"")


@pytest.mark.parametrize(
    ("text", "words"), [("{", "no JSON"), ('{"type": "nothing"}', "no Avro schema: UnknownType")]
)
def test_what_is_wrong_with_a_schema_is_told(text: str, words: str) -> None:
    with pytest.raises(SchemaInvalid, match=words):
        AvroDecoder(text)


def test_every_prefix_of_a_datum_fails_in_words() -> None:
    found = decoder(ORDER)
    for length in range(len(DATUM)):
        with pytest.raises(DecodeFailed):
            found.decode(DATUM[:length])
    with pytest.raises(DecodeFailed, match="3 bytes are left behind the record"):
        found.decode(DATUM + b"abc")


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


EMPTY = {"type": "record", "name": "E", "fields": []}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


def laughs() -> dict[str, Any]:
    """Thirty records, each twice in the next: a billion values in no byte at all."""
    schema: dict[str, Any] = {"type": "record", "name": "R0", "fields": []}
    for level in range(1, 31):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


@pytest.mark.parametrize(
    ("schema", "data", "words"),
    [
        pytest.param({"type": "array", "items": "null"}, number(2**60) + b"\0", "more than 100000",
                     id="a quintillion nulls"),
        pytest.param({"type": "array", "items": EMPTY}, number(-(2**60)) + number(0) + b"\0",
                     "more than 100000", id="as many empty records"),
        pytest.param({"type": "map", "values": "null"}, number(2**60) + b"\0" * 9, "ends after",
                     id="a map that ends"),
        pytest.param(LIST, number(1) * 100_000, "nested deeper than 64", id="a list without end"),
        pytest.param("string", number(2**60), "ends after", id="a string of an exabyte"),
        pytest.param("bytes", number(-5) + b"abcde", "a length of -5", id="a negative length"),
        pytest.param(["null", "int"], number(7), "branch 7 of a union of 2", id="no such branch"),
        pytest.param("long", b"\xff" * 11, "more than 64 bits", id="a number without end"),
        pytest.param({"type": "enum", "name": "K", "symbols": ["a"]}, number(9), "Error",
                     id="no such symbol"),
        pytest.param({"type": "long", "logicalType": "timestamp-millis"}, number(2**62), "Error",
                     id="a time after all times"),
    ],
)  # fmt: skip
def test_hostile_data_fails_at_once_and_in_words(schema: Any, data: bytes, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(DecodeFailed, match=words):
        decoder(schema).decode(data)
    assert time.monotonic() - began < 5


def test_a_schema_that_laughs_is_not_laughed_at() -> None:
    with pytest.raises((DecodeFailed, SchemaInvalid), match=r"more than 100000|nested deeper"):
        decoder(laughs()).decode(b"")


def test_a_text_that_is_no_utf_8_fails_alone() -> None:
    with pytest.raises(DecodeFailed):
        decoder("string").decode(number(2) + b"\xff\xfe")


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for each in (decoder(ORDER), PROTOBUF):
        try:
            text, _ = each.decode(data)
        except DecodeFailed:
            continue
        json.loads(text)


@settings(max_examples=100, deadline=None)
@given(some.lists(some.tuples(some.text(), some.integers(-(2**31), 2**31 - 1)), max_size=20))
def test_what_was_written_is_read(lines: list[tuple[str, int]]) -> None:
    rows = [{"what": what, "count": count} for what, count in lines]
    text, _ = decoder(ORDER).decode(avro(ORDER, plain_order({**ROW, "lines": rows})))
    assert json.loads(text)["lines"] == rows


# Protobuf

FIELD = descriptor_pb2.FieldDescriptorProto


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    """message Order { int64 id = 1; string who = 2; repeated Line lines = 3; Order next = 4; }"""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="orders.proto", package="shop", syntax="proto3")
    line = file.message_type.add(name="Line")
    line.field.add(name="what", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    order.field.add(name="who_is", number=2, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    order.field.add(name="lines", number=3, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_REPEATED,
                    type_name=".shop.Line")
    order.field.add(name="next", number=4, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_OPTIONAL,
                    type_name=".shop.Order")
    return files


SET = base64.b64encode(descriptor_set().SerializeToString()).decode()
PROTOBUF = ProtobufDecoder(SET, "shop.Order")


def order(**fields: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_set().file[0])
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**fields)
    data: bytes = made.SerializeToString()
    return data


def test_protobuf_is_shown_as_json() -> None:
    data = order(id=7, who_is="Ada", lines=[{"what": "tea"}])
    shown = {"id": "7", "who_is": "Ada", "lines": [{"what": "tea"}]}
    assert [json.loads(PROTOBUF.decode(data)[0]), PROTOBUF.decode(data)[1]] == [shown, None]
    for indexes in (b"\x00", number(1) + number(1), number(2) + number(1) + number(0)):
        text, schema_id = PROTOBUF.decode(struct.pack(">BI", 0, 9) + indexes + data)
        assert (json.loads(text), schema_id) == (shown, 9)


@pytest.mark.parametrize(
    ("text", "message", "words"),
    [
        ("?", "", "no FileDescriptorSet"),
        (base64.b64encode(b"\xff" * 40).decode(), "", "no FileDescriptorSet.*protoc"),
        ("", "", "message: wanted one of"),
        (SET, "", r"message: wanted one of shop.Line, shop.Order"),
        (SET, "shop.None", "wanted one of shop.Line, shop.Order"),
    ],
)
def test_what_is_no_descriptor_set_is_refused(text: str, message: str, words: str) -> None:
    with pytest.raises(SchemaInvalid, match=words):
        ProtobufDecoder(text, message)


def test_a_set_without_its_imports_is_refused() -> None:
    files = descriptor_set()
    files.file[0].dependency.append("elsewhere.proto")
    with pytest.raises(SchemaInvalid, match="include_imports"):
        ProtobufDecoder(base64.b64encode(files.SerializeToString()).decode(), "shop.Order")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x22\x02" * 5 + b"\x22", id="cut within a message"),
        pytest.param(b"\x0a", id="a tag alone"),
        pytest.param(b"\x00\x00", id="half a head"),
        pytest.param(struct.pack(">BI", 0, 9) + b"\xff" * 9, id="indexes without end"),
        pytest.param(struct.pack(">BI", 0, 9) + number(2**20), id="a million indexes"),
        pytest.param(b"\x12\x01\xff", id="a text that is no UTF-8"),
        pytest.param(b"\xfa\x01\x01a", id="nothing that the schema knows"),
    ],
)
def test_hostile_messages_fail_in_words(data: bytes) -> None:
    with pytest.raises(DecodeFailed):
        PROTOBUF.decode(data)


def test_messages_in_messages_without_end_fail() -> None:
    data = b""
    for _ in range(5000):
        size, length = len(data), b""
        while size > 0x7F:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        data = b"\x22" + length + bytes([size]) + data
    with pytest.raises(DecodeFailed):
        PROTOBUF.decode(data)


def test_the_most_messages_that_fit_take_no_minute() -> None:
    began = time.monotonic()
    text, _ = PROTOBUF.decode(b"\x1a\x00" * (decoding.DATA_BYTES_MAX // 2))
    assert len(json.loads(text)["lines"]) == decoding.DATA_BYTES_MAX // 2
    assert time.monotonic() - began < 30


# What it may cost


def test_a_large_value_is_left_out() -> None:
    with pytest.raises(DecodeFailed, match="got 262145 bytes, at most 262144 are decoded"):
        Decoders().decoded(decoder("bytes"), b"x" * (decoding.DATA_BYTES_MAX + 1))


def test_a_page_that_takes_too_long_leaves_the_rest_as_it_is(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Decoders()
    assert own.decoded(decoder("long"), number(5)) == ("5", None)
    monkeypatch.setattr(decoding, "PAGE_SECONDS_MAX", -1.0)
    with pytest.raises(DecodeFailed, match="left out"):
        own.decoded(decoder("long"), number(5))


def test_the_walk_ends_where_the_library_does() -> None:
    schema = fastavro.parse_schema(ORDER)
    stream = io.BytesIO(DATUM + b"more")
    fastavro.schemaless_reader(stream, schema, None)
    own = decoder(ORDER)
    assert avro_decoder.Walk(own._names, DATUM + b"more").end(own._schema, 0) == stream.tell()


# REST

NONE = {"key": None, "value": None, "registry": None}


@pytest.fixture
def rest(appliance_broker: RunningBroker) -> Rest:
    found = Rest(appliance_broker.admin)
    found.post("/topics", {"name": "orders", "partitions": 1})
    return found


def produce(broker: RunningBroker, *values: bytes, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in values:
        producer.produce("orders", each, key)
    assert producer.flush(30) == 0


def values(rest: Rest, **query: Any) -> list[Any]:
    found = rest.get("/topics/orders/messages", **{"from": "oldest", **query})["messages"]
    return [each["value"] for each in found]


def test_messages_are_shown_by_the_schema_of_their_topic(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    head = struct.pack(">BI", 0, 5)
    produce(appliance_broker, DATUM, head + DATUM, b"{}", b"", key=order(id=3))
    assert rest.get("/topics/orders/schemas") == NONE
    made = rest.ask("PUT", "/topics/orders/schemas/value",
                    {"form": "avro", "text": json.dumps(ORDER)})
    assert (made.status, made.body["value"]["message"]) == (200, "shop.Order")
    body = {"form": "protobuf", "text": SET, "message": "shop.Order"}
    assert rest.ask("PUT", "/topics/orders/schemas/key", body).body["key"]["form"] == "protobuf"
    first, second, *wrong = values(rest)
    assert (first["form"], json.loads(first["text"])) == ("avro", AS_JSON)
    assert (second["schema_id"], second["text"]) == (5, first["text"])
    assert [(each["form"], each["problem"].startswith("avro: ")) for each in wrong] == [
        ("json", True), ("text", True)]
    message = rest.get("/topics/orders/messages", limit=1)["messages"][0]
    assert (message["key"]["form"], message["key"]["text"]) == ("protobuf", '{"id": "3"}')
    assert next(each["form"] for each in values(rest, value_as="plain")) == "hex"
    assert rest.ask("DELETE", "/topics/orders/schemas/value").status == 204
    assert values(rest)[0]["form"] == "hex"
    assert rest.refused("DELETE", "/topics/orders/schemas/value")[0] == 404


@pytest.mark.parametrize(
    ("part", "body", "status"),
    [
        ("value", {"form": "avro", "text": "{"}, 400),
        ("value", {"form": "xml", "text": "{}"}, 400),
        ("header", {"form": "avro", "text": '"int"'}, 404),
        ("value", {"form": "avro", "text": '"' + "x" * (1 << 20) + '"'}, 400),
    ],
)
def test_a_schema_that_is_none_is_refused(
    rest: Rest, part: str, body: dict[str, str], status: int
) -> None:
    assert rest.refused("PUT", f"/topics/orders/schemas/{part}", body)[0] == status
    assert rest.get("/topics/orders/schemas") == NONE


def test_a_schema_outlives_a_restart_and_ends_with_its_topic(
    rest: Rest, appliance_broker: RunningBroker
) -> None:
    body = {"form": "avro", "text": json.dumps(ORDER)}
    assert rest.ask("PUT", "/topics/orders/schemas/value", body).status == 200
    appliance_broker.stop()
    with running_broker(appliance_broker.data_dir) as again:
        rest = Rest(again.admin)
        produce(again, DATUM)
        assert values(rest)[0]["form"] == "avro"
        rest.ask("DELETE", "/topics/orders")
        rest.post("/topics", {"name": "orders"})
        assert rest.get("/topics/orders/schemas") == NONE
