"""Straight-line functions that read one class in one version, generated as source and compiled.

Each is `read(octets, at, size)`: from position `at` of `octets`, which are `size` bytes, to the
object and the position after it. For a struct with an int16, an int32 and a compact string it is

    def read(octets, at, size):
        error_code_, node_id_, = unpack_hi(octets, at); at += 6
        count = octets[at]; at += 1
        if count > 127: count, at = read_varint(octets, at - 1)
        count -= 1
        if not 0 <= count <= size - at: raise beyond('host', count, size - at)
        host_ = str(octets[at : at + count], 'utf-8'); at += count
        if octets[at]: at = skip_tags(octets, at, size)
        else: at += 1
        return Made(error_code_, node_id_, host_), at

`unpack` and an index refuse to read past the end. A slice would not, hence the comparison. `octets`
may be a memoryview too: then fields of bytes are views of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any
from uuid import UUID

from appliance.wire.errors import MalformedMessage
from appliance.wire.types import (
    NO_UUID,
    Array,
    Data,
    Fixed,
    Row,
    Text,
    is_struct,
    rows_of,
    struct_of,
    uuid,
)

Decode = Callable[[bytes, int, int], tuple[Any, int]]

VARINT_BITS_MAX = 35  # five bytes hold an uint32
ZEROS = bytes(16)


def read_varint(octets: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < VARINT_BITS_MAX:
        octet = octets[at]
        at += 1
        value |= (octet & 127) << shift
        if octet < 128:
            return value, at
        shift += 7
    raise MalformedMessage(f"a varint of more than five bytes before position {at}")


def uuid_of(octets: bytes) -> UUID:
    return NO_UUID if octets == ZEROS else UUID(bytes=octets)


def skip_tags(octets: bytes | bytearray | memoryview, at: int, size: int) -> int:
    """Past a tag section of which nothing is known."""
    count, at = read_varint(octets, at)
    for _ in range(count):
        tag, at = read_varint(octets, at)
        length, at = read_varint(octets, at)
        if length > size - at:
            raise beyond(f"tag {tag}", length, size - at)
        at += length
    return at


def beyond(name: str, got: int, left: int) -> MalformedMessage:
    return MalformedMessage(f"{name}: got a count of {got}, {left} bytes are left")


def wrong_size(tag: int, got: int, wanted: int) -> MalformedMessage:
    return MalformedMessage(f"tag {tag}: got {got} bytes, wanted {wanted}")


SUPPORT = {each.__name__: each for each in (read_varint, uuid_of, skip_tags, beyond, wrong_size)}


def decoder_of(message: type, version: int, flexible: bool) -> Decode:
    reader = Reader(version, flexible)
    reader.read_struct(message)
    exec("\n".join(["def read(octets, at, size):", *reader.lines]), reader.names)
    made: Decode = reader.names["read"]
    return made


def bytes_min(kind: Any, version: int, flexible: bool) -> int:
    """The fewest bytes that one value takes: what a count is held against."""
    if isinstance(kind, Fixed):
        return struct.calcsize(f">{kind.letters}")
    if isinstance(kind, (Text, Data, Array)):
        return 1 if flexible else 2 if isinstance(kind, Text) else 4
    total = int(flexible)  # the count of tags
    for _, row in rows_of(struct_of(kind)):
        if version in row.versions and row.tag is None:
            is_one = is_struct(row.kind) and version in row.nullable
            total += 1 if is_one else bytes_min(row.kind, version, flexible)
    return total


class Reader:
    """Collects the lines of one function, and the names that they use."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {**SUPPORT, "unpack_from": struct.unpack_from}
        self.run: list[tuple[str, Fixed]] = []

    def line(self, depth: int, *texts: str) -> None:
        self.lines += [" " * depth + text for text in texts]

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def read_struct(self, message: type) -> None:
        rows = rows_of(message)
        here = [(each, row) for each, row in rows if self.version in row.versions]
        for each, row in here:
            if row.tag is None:
                self.read(each.name, row)
        self.end_run(1)
        tagged = [(each, row) for each, row in here if row.tag is not None]
        if self.flexible:
            self.read_tags(tagged)
        given = {each.name for each, _ in here}
        values = [f"{e.name}_" if e.name in given else self.default(e) for e, _ in rows]
        self.line(1, f"return {self.name('Made', message)}({', '.join(values)}), at")

    def default(self, each: Any) -> str:
        if each.default is not MISSING:
            return self.name("default", each.default)
        factory = each.default_factory
        return "[]" if factory is list else f"{self.name('default', factory)}()"

    def read(self, name: str, row: Row) -> None:
        if isinstance(row.kind, Fixed):
            self.run.append((f"{name}_", row.kind))
            return
        self.end_run(1)
        self.read_value(name, row.kind, 1, is_nullable=self.version in row.nullable)

    def end_run(self, depth: int) -> None:
        if not self.run:
            return
        letters = "".join(kind.letters for _, kind in self.run)
        targets = ", ".join(target for target, _ in self.run)
        self.line(depth, f"{targets}, = {self.unpack(letters)}")
        self.line(depth, *(f"{t} = uuid_of({t})" for t, kind in self.run if kind is uuid))
        self.run = []

    def unpack(self, letters: str) -> str:
        """The rest of a line: takes fixed widths, and moves on."""
        form = struct.Struct(f">{letters}")
        name = f"unpack_{letters.replace('?', 'bool')}"
        self.names[name] = form.unpack_from
        return f"{name}(octets, at); at += {form.size}"

    def read_value(self, name: str, kind: Any, depth: int, is_nullable: bool = False) -> None:
        target = f"{name}_"
        if isinstance(kind, Fixed):
            self.run.append((target, kind))
            self.end_run(depth)
        elif is_struct(kind):
            self.read_inner(target, kind, depth, is_nullable)
        else:
            self.read_count(kind, depth)
            if is_nullable:
                self.line(depth, f"if count == -1: {target} = None", "else:")
                depth += 1
            self.read_counted(name, kind, depth)

    def read_inner(self, target: str, kind: Any, depth: int, is_nullable: bool) -> None:
        read = self.name("read", decoder_of(struct_of(kind), self.version, self.flexible))
        if is_nullable:
            self.line(depth, "count = octets[at]; at += 1", f"if count > 127: {target} = None")
            self.line(depth, "else:")
            depth += 1
        self.line(depth, f"{target}, at = {read}(octets, at, size)")

    def read_count(self, kind: Any, depth: int) -> None:
        if self.flexible:
            self.line(depth, "count = octets[at]; at += 1")
            self.line(depth, "if count > 127: count, at = read_varint(octets, at - 1)")
            self.line(depth, "count -= 1")
            return
        self.line(depth, f"count, = {self.unpack('h' if isinstance(kind, Text) else 'i')}")

    def read_counted(self, name: str, kind: Any, depth: int) -> None:
        each = bytes_min(kind.of, self.version, self.flexible) if isinstance(kind, Array) else 1
        needed = "count" if each == 1 else f"count * {each}"
        check = f"if not 0 <= {needed} <= size - at: raise beyond({name!r}, count, size - at)"
        self.line(depth, check)
        if isinstance(kind, Array):
            self.read_array(f"{name}_", kind.of, each, depth)
        else:
            piece = "octets[at : at + count]"
            made = f"str({piece}, 'utf-8')" if isinstance(kind, Text) else piece
            self.line(depth, f"{name}_ = {made}; at += count")

    def read_array(self, target: str, kind: Any, size: int, depth: int) -> None:
        if isinstance(kind, Fixed) and kind is not uuid:
            take = f"unpack_from(f'>{{count}}{kind.letters}', octets, at)"
            self.line(depth, f"{target} = list({take}); at += count * {size}")
            return
        self.line(depth, f"{target} = []", f"append = {target}.append", "for _ in range(count):")
        self.read_value("each", kind, depth + 1)
        self.line(depth + 1, "append(each_)")

    def read_tags(self, rows: list[tuple[Any, Row]]) -> None:
        if not rows:
            self.line(1, "if octets[at]: at = skip_tags(octets, at, size)", "else: at += 1")
            return
        self.line(1, *(f"{each.name}_ = {self.default(each)}" for each, _ in rows))
        self.line(1, "tags, at = read_varint(octets, at)", "for _ in range(tags):")
        self.line(2, "tag, at = read_varint(octets, at)", "length, at = read_varint(octets, at)")
        self.line(2, "if length > size - at: raise beyond(f'tag {tag}', length, size - at)")
        self.line(2, "end = at + length")
        for each, row in rows:
            self.line(2, f"if tag == {row.tag}:")
            self.read_value(each.name, row.kind, 3, is_nullable=self.version in row.nullable)
            self.line(3, "if at != end: raise wrong_size(tag, length, length + at - end)")
        self.line(2, "at = end")
