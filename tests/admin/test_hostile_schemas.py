"""Schemas and data that anybody may have registered and written: small ones that would take very
much memory or time."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from appliance.schemas import avro_decoder, protobuf_decoder
from appliance.schemas.avro_decoder import DECIMAL_BYTES_MAX, AvroDecoder
from appliance.schemas.proto_text import IMPORTS_MAX, proto_file
from appliance.schemas.registry_client import Found
from appliance.schemas.registry_decoders import ByProtobuf
from appliance.schemas.registry_ids import Named, SchemaKey
from appliance.schemas.schema_limits import NAMES_TEXT_MAX, DecodeFailed, SchemaInvalid

ONE = SchemaKey("ids", "1")
LONG = "a" * (protobuf_decoder.NAME_MAX + 1)
SYMBOL = "S" * avro_decoder.NAME_MAX


def avro(schema: Any) -> AvroDecoder:
    return AvroDecoder(json.dumps(schema))


def long(number: int) -> bytes:
    """As Avro has it, of one that is not negative."""
    number *= 2
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": LONG, "fields": []},
        {"type": "record", "name": "R", "namespace": LONG, "fields": []},
        {"type": "record", "name": "R", "fields": [{"name": LONG, "type": "int"}]},
    ],
    ids=["type", "namespace", "field"],
)
def test_long_names_of_avro_are_refused(schema: Any) -> None:
    """Each type within would have that of its namespace: a MiB, many GiB of memory."""
    with pytest.raises(SchemaInvalid, match="of more than 500 characters"):
        avro(schema)


@pytest.mark.parametrize(
    "text",
    [
        f"package {LONG}; message A {{}}",
        f"message A {{ message B {{ message {LONG[4:]} {{}} }} }}",
        f"message A {{ string {LONG} = 1; }}",
        f"message A {{ oneof {LONG} {{ string a = 1; }} }}",
        f"enum E {{ {LONG} = 0; }}",
    ],
    ids=["package", "nested", "field", "oneof", "value"],
)
@pytest.mark.parametrize("is_text", [True, False])
def test_long_names_of_protobuf_are_refused(text: str, is_text: bool) -> None:
    written = base64.b64encode(proto_file("a", text).SerializeToString()).decode()
    with pytest.raises(SchemaInvalid, match="of more than 500 characters, with its scope"):
        ByProtobuf(Found("PROTOBUF", text if is_text else written))


def test_a_name_of_which_a_record_has_very_many_is_not_written_so_often() -> None:
    count = NAMES_TEXT_MAX // (len(SYMBOL) - 1) + 1
    by_avro = avro({"type": "array", "items": {"type": "enum", "name": "E", "symbols": [SYMBOL]}})
    assert by_avro.json_of(long(2) + b"\0\0\0") == json.dumps([SYMBOL] * 2)
    with pytest.raises(DecodeFailed, match="the text could be too long"):
        by_avro.json_of(long(count) + bytes(count + 1))
    by_protobuf = ByProtobuf(Found("PROTOBUF", f"enum E {{ {SYMBOL[1:]} = 0; }} "
                                   "message A { repeated E e = 1 [packed = true]; }"))  # fmt: skip
    few, many = (Named(ONE, b"\0\x0a" + varint(each) + bytes(each), None) for each in (2, count))
    assert by_protobuf.decode(few).text.count(SYMBOL[1:]) == 2
    with pytest.raises(DecodeFailed, match="the text could be too long"):
        by_protobuf.decode(many)


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_decimal_has_its_size(is_fixed: bool) -> None:
    """A record may have one of 256 KiB, which holds up everything for seconds."""

    def of(size: int) -> str:
        kind: Any = {"type": "fixed", "name": "F", "size": size} if is_fixed else {"type": "bytes"}
        schema = {**kind, "logicalType": "decimal", "precision": 9, "scale": 0}
        return avro(schema).json_of((b"" if is_fixed else long(size)) + bytes(size))

    assert of(DECIMAL_BYTES_MAX) == '"0"'
    with pytest.raises(DecodeFailed, match="a decimal of 1025 bytes"):
        of(DECIMAL_BYTES_MAX + 1)


def test_what_a_schema_may_have_beside_names_is_taken() -> None:
    kind = {"type": "map", "values": "int"}
    field = {"name": "a", "type": kind, "default": {}, "doc": LONG, "props": [[], {}, 1, None]}
    schema = {"type": "record", "name": "R", "fields": [field]}
    assert avro(schema).json_of(b"\0") == '{"a": {}}'


def test_a_type_that_is_named_as_another_fails_for_its_record_alone() -> None:
    fields = [{"name": "a", "type": {"type": "fixed", "name": "array", "size": 1}},
              {"name": "b", "type": "array"}]  # fmt: skip
    with pytest.raises(DecodeFailed, match="TypeError"):
        avro({"type": "record", "name": "R", "fields": fields}).json_of(b"ab")


def test_imports_are_counted() -> None:
    """The time for them goes with the square of their number."""
    text = "".join(f'import "{each}";' for each in range(IMPORTS_MAX))
    file = proto_file("a", text)
    ByProtobuf(Found("PROTOBUF", text))
    with pytest.raises(SchemaInvalid, match="more than 1000 imports"):
        proto_file("a", f'{text} import "one more";')
    file.dependency.append("one more")
    written = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(SchemaInvalid, match="more than 1000 imports"):
        ByProtobuf(Found("PROTOBUF", written))
