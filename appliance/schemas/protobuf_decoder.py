"""Protobuf to JSON, for data from anybody.

The schema is a FileDescriptorSet from protoc; .proto text would need a compiler here. The library's
C code parses the data and limits its depth (100).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from appliance.schemas.avro_decoder import said
from appliance.schemas.protobuf_rows import row_of
from appliance.schemas.schema_limits import DecodeFailed, SchemaInvalid, check_names_fit

MAGIC_SIZE = 5  # Confluent's: a zero, the schema's number; the message's indexes follow
NAME_MAX = 500  # characters of a full name: each type, field and value has its own in memory
INDEXES_MAX = 32  # in that list: the nesting of the message
HOW = "protoc --include_imports --descriptor_set_out=orders.desc orders.proto"


class ProtobufDecoder:
    form = "protobuf"

    def __init__(self, text: str, message: str) -> None:
        # imported late: few topics have a schema, and the import takes 50 ms
        from google.protobuf import descriptor_pb2

        files = descriptor_pb2.FileDescriptorSet()
        try:
            files.ParseFromString(base64.b64decode(text, validate=True))
            self._messages = Messages(files.file)
            self.names = [name for file in files.file for name in names_of(file)]
            self.about = message or only(files.file)
            self._messages.check(self.about)
        except SchemaInvalid:
            raise
        except KeyError as error:
            raise SchemaInvalid(f"got message {message!r}, wanted one of {listed(self.names)}") \
                from error
        except Exception as error:
            raise SchemaInvalid(f"no FileDescriptorSet: {said(error)}. Made by: {HOW}") from error

    def decode(self, data: bytes) -> tuple[str, int | None]:
        """No message begins with a zero, so Confluent's header is unambiguous."""
        if data[:1] != b"\0":
            return self._messages.json_of(self.about, data), None
        if len(data) < MAGIC_SIZE:
            raise DecodeFailed(f"got {len(data)} bytes that begin with a zero")
        text = self._messages.json_of(self.about, data[after_indexes(data):])
        return text, int.from_bytes(data[1:MAGIC_SIZE], "big")


class Messages:
    """The types of some files, and messages of them as JSON."""

    def __init__(self, files: Iterable[Any]) -> None:
        """FileDescriptorProto, each behind those that it imports."""
        from google.protobuf import descriptor_pool, json_format, message_factory
        from google.protobuf.unknown_fields import UnknownFieldSet

        self._json, self._unknown = json_format, UnknownFieldSet
        self._class_of = message_factory.GetMessageClass
        self._pool = descriptor_pool.DescriptorPool()
        self._longest = 0  # name in the text of a value
        for each in files:
            self._longest = max(self._longest, longest_name(each))
            self._pool.AddSerializedFile(each.SerializeToString())

    def check(self, name: str) -> None:
        """Raises KeyError."""
        self._class_of(self._pool.FindMessageTypeByName(name))

    def json_of(self, name: str, data: bytes) -> str:
        return self._told(name, data, lambda message: self._json.MessageToJson(
            message, preserving_proto_field_name=True, indent=None, ensure_ascii=False,
            descriptor_pool=self._pool,
        ))  # fmt: skip

    def row_of(self, name: str, data: bytes) -> str:
        """As JSON for the columns of a table."""
        return self._told(name, data, lambda message: json.dumps(
            row_of(message, self._json), ensure_ascii=False))  # fmt: skip

    def _told(self, name: str, data: bytes, tell: Callable[[Any], str]) -> str:
        check_names_fit(len(data), self._longest)  # in a packed list a byte is a value
        try:
            message = self._class_of(self._pool.FindMessageTypeByName(name))()
            message.ParseFromString(data)
            unknown = len(self._unknown(message))
            if unknown and not message.ListFields():
                raise DecodeFailed(f"none of its {unknown} fields is in {name}")
            return tell(message)
        except DecodeFailed:
            raise
        except Exception as error:
            raise DecodeFailed(said(error)) from error


def after_indexes(data: bytes) -> int:
    """Skips the list of indexes: the schema already names the message."""
    return indexes_in(data, MAGIC_SIZE)[1]


def indexes_in(data: bytes, position: int) -> tuple[list[int], int]:
    """A count and as many numbers, or one zero for the first message; and where they end."""
    count, position = _zigzag(data, position)
    if not 0 <= count <= INDEXES_MAX:
        raise DecodeFailed(f"{count} message indexes, wanted at most {INDEXES_MAX}")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        indexes.append(index)
    return indexes or [0], position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift <= 28:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise DecodeFailed(f"ends after {len(data)} bytes, in a message index")


def longest_name(file: Any) -> int:
    """In characters, of what the text of a value repeats. Refuses names that are too long with
    their scope, as the library keeps each."""
    longest, left = 0, [(len(file.package), file, file.message_type)]
    while left:
        within, scope, messages = left.pop()
        here = max(map(len, names_in(scope, messages)), default=0)
        if within + here > NAME_MAX:
            raise SchemaInvalid(f"a name of more than {NAME_MAX} characters, with its scope")
        # extensions are shown with their scope
        longest = max(longest, here + (within if len(scope.extension) else 0))
        left += [(within + 1 + len(each.name), each, each.nested_type) for each in messages]
    return longest


def names_in(scope: Any, messages: Iterable[Any]) -> Iterator[str]:
    """Of a file or a message, without those in other messages of it."""
    services = getattr(scope, "service", ())
    for group in (
        messages, scope.enum_type, scope.extension, services, getattr(scope, "field", ()),
        getattr(scope, "oneof_decl", ()), *(each.value for each in scope.enum_type),
        *(each.method for each in services),
    ):  # fmt: skip
        yield from (each.name for each in group)


def names_of(file: Any) -> list[str]:
    """The names of all messages in a file, nested ones too."""
    names: list[str] = []
    left = [(file.package, each) for each in file.message_type]
    while left:
        within, message = left.pop(0)
        name = f"{within}.{message.name}" if within else message.name
        names.append(name)
        left += [(name, each) for each in message.nested_type if not each.options.map_entry]
    return names


def only(files: Any) -> str:
    """The only message of the last file, which protoc was called with."""
    names = [f"{each.package}.{one.name}".lstrip(".") for each in files[-1:]
             for one in each.message_type]  # fmt: skip
    if len(names) != 1:
        raise SchemaInvalid(f"message: wanted one of {listed(names)}")
    return names[0]


def listed(names: list[str]) -> str:
    shown = ", ".join(names[:20]) or "none"
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
