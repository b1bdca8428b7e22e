"""Our reader of .proto text against protoc: for each file of `tests/data/registries` it finds the
same messages, fields and enums. The descriptor sets are protoc's (32.1, of grpcio-tools 1.85):

    protoc --include_imports --descriptor_set_out=every.desc every.proto
"""

from __future__ import annotations

import base64
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from appliance.schemas.proto_text import NESTING_MAX, proto_file
from appliance.schemas.registry_client import Found
from appliance.schemas.registry_decoders import ByProtobuf, decoder_of
from appliance.schemas.registry_ids import Named, SchemaKey
from appliance.schemas.schema_limits import SCHEMA_BYTES_MAX, SchemaInvalid
from tests.support.registry_schemas import HERE, ORDER_PROTO

FILES = sorted(HERE.glob("*.proto"))


def by_protoc(file: Path) -> list[Any]:
    files = descriptor_pb2.FileDescriptorSet.FromString(file.with_suffix(".desc").read_bytes())
    return list(files.file)


def pool_of(files: list[Any]) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    return pool


def facts_of(file: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    messages, enums = [*file.message_types_by_name.values()], [*file.enum_types_by_name.values()]
    while messages:
        one = messages.pop()
        messages += one.nested_types
        enums += one.enum_types
        nested = [each.name for each in one.nested_types]  # in their order: records count them
        found[one.full_name] = {each.name: field_facts(each) for each in one.fields}, nested
    for each in enums:
        found[each.full_name] = [(value.name, value.number) for value in each.values]
    return found


def field_facts(each: Any) -> tuple[Any, ...]:
    of = each.message_type or each.enum_type
    oneof = each.containing_oneof
    return (
        each.number, each.type, each.is_repeated, each.is_required, of and of.full_name,
        oneof and oneof.name,
    )  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=[each.stem for each in FILES])
def test_it_finds_what_protoc_finds(file: Path) -> None:
    *imported, compiled = by_protoc(file)
    own = proto_file(file.name, file.read_text())
    assert list(own.dependency) == list(compiled.dependency)
    assert list(own.public_dependency) == list(compiled.public_dependency)
    wanted = facts_of(pool_of([*imported, compiled]).FindFileByName(file.name))
    assert facts_of(pool_of([*imported, own]).FindFileByName(file.name)) == wanted
    assert len(wanted) >= 2


def test_of_two_names_for_a_group_its_field_has_the_small_one() -> None:
    compiled = by_protoc(HERE / "every.proto")[-1]
    own = proto_file("every.proto", (HERE / "every.proto").read_text())
    names = [[field.name for field in each.message_type[1].field] for each in (own, compiled)]
    assert names[0] == names[1]
    assert "result" in names[0]


NESTED = """message A {
  map<string, int32> counts = 1;
  message One { string one = 1; }
  message Two { string two = 2; }
}"""


@pytest.mark.parametrize(
    ("indexes", "body", "words"),
    [
        (b"\x04\x00\x00", b"\x0a\x01x", ('{"one": "x"}', "A.One")),  # Java's count
        (b"\x04\x00\x02", b"\x12\x01x", ('{"two": "x"}', "A.Two")),
        (b"\x04\x00\x02", b"\x0a\x01x", ('{"one": "x"}', "A.One")),  # Python's
        (b"\x04\x00\x04", b"\x12\x01x", ('{"two": "x"}', "A.Two")),
    ],
)
def test_a_map_is_counted_or_not(indexes: bytes, body: bytes, words: tuple[str, str]) -> None:
    named = Named(SchemaKey("ids", "1"), indexes + body, None)
    assert ByProtobuf(Found("PROTOBUF", NESTED)).decode(named) == words


def test_a_descriptor_in_base64_is_read_too() -> None:
    text = base64.b64encode(proto_file("x", NESTED).SerializeToString()).decode()
    named = Named(SchemaKey("ids", "1"), b"\x04\x00\x00\x0a\x01x", None)
    assert ByProtobuf(Found("PROTOBUF", text)).decode(named).type == "A.One"
    with pytest.raises(SchemaInvalid, match="no FileDescriptorProto"):
        ByProtobuf(Found("PROTOBUF", base64.b64encode(b"\xff" * 9).decode()))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message", "ends too early"),
        ("message A", "ends too early"),
        ("message A { string a = 1 }", "got '}', wanted ';'"),
        ("message A { string = 1; }", "got '=', wanted the name of a field"),
        ("message A { string a = x; }", "got 'x', wanted a number"),
        ("message A { string a = 99999999999; }", "a number of 32 bits"),
        ("message A { string a = 1 [x; }", "wanted its opening one"),
        ("message A { map<string> m = 1; }", "wanted ','"),
        ("import shop;", "a text in quotes"),
        ('edition = "1066";', "edition '1066' is not known"),
        ("\n\n  message A { string ä = 1; }", "line 3: got 'ä"),
        ('import "a', "line 1: got '\"a'"),
        ("/* no end", r"line 1: got '\* no end'"),
        ("option a = {[}];", "wanted its opening one"),
        ("}", "wanted a message, an enum, an import"),
        ("<html></html>", "wanted a message, an enum, an import"),
        ("message A {" * (NESTING_MAX + 1), f"deeper than {NESTING_MAX}"),
        ("message A {" * 90_000, f"deeper than {NESTING_MAX}"),
        ("option a = " + "{[" * 90_000, "ends too early"),
    ],
)
def test_what_is_no_proto_is_told(text: str, words: str) -> None:
    with pytest.raises(SchemaInvalid, match=words):
        proto_file("a.proto", text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message A { B b = 1; }", "no Protobuf schema"),
        ('syntax = "proto9"; message A {}', "no Protobuf schema"),
        ("message A {} message A {}", "no Protobuf schema"),
        ('import "\ud800";', "no PROTOBUF schema"),
        ("message A { string a = 2147483648; }", "no PROTOBUF schema"),
    ],
)
def test_what_is_no_schema_is_told(text: str, words: str) -> None:
    with pytest.raises(SchemaInvalid, match=words):
        decoder_of(Found("PROTOBUF", text))


def test_any_text_is_read_or_refused() -> None:
    """Texts with a piece left out, twice or elsewhere, from one seed."""
    chance = random.Random(7)
    for _ in range(300):
        text = chance.choice([ORDER_PROTO, (HERE / "every.proto").read_text()])
        at, size = chance.randrange(len(text)), chance.randrange(40)
        piece = chance.choice(["", text[at : at + size] * 2, "}", "{", "\0", '"', "/*", "message"])
        with suppress(SchemaInvalid):
            decoder_of(Found("PROTOBUF", text[:at] + piece + text[at + size :]))


@pytest.mark.parametrize("piece", ["/*", '"', "message A{}", "a.", "{", "//", "\\", "0"])
def test_the_largest_text_takes_no_minute(piece: str) -> None:
    began = time.monotonic()
    text = piece * (SCHEMA_BYTES_MAX // len(piece))
    with suppress(SchemaInvalid):
        proto_file("a.proto", text)
    assert time.monotonic() - began < 60
