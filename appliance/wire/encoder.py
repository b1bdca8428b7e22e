"""Straight-line functions that write one class in one version, generated as source and compiled.

For a struct with an int16, an int32 and a compact string the source is

    def write(message, out):
        out += pack_hi(message.error_code, message.node_id)
        octets = message.host.encode()
        count = len(octets) + 1
        if count < 128: out.append(count)
        else: write_varint(count, out)
        out += octets
        out.append(0)

Neighbours of fixed width share one `pack`; nothing asks for a version or a kind when it runs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any

from appliance.wire.types import Array, Data, Fixed, Row, Text, is_struct, rows_of, struct_of, uuid

Encode = Callable[[Any, bytearray], None]


def write_varint(value: int, out: bytearray) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def encoder_of(message: type, version: int, flexible: bool) -> Encode:
    writer = Writer(version, flexible)
    writer.write_struct(message)
    exec("\n".join(["def write(message, out):", *writer.lines]), writer.names)
    made: Encode = writer.names["write"]
    return made


class Writer:
    """Collects the lines of one function, and the names that they use."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"pack": struct.pack, "write_varint": write_varint}
        self.run: list[tuple[str, str]] = []  # letters and value of neighbours of fixed width

    def line(self, depth: int, *texts: str) -> None:
        self.lines += [" " * depth + text for text in texts]

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def write_struct(self, message: type) -> None:
        rows = [(each, row) for each, row in rows_of(message) if self.version in row.versions]
        for each, row in rows:
            if row.tag is None:
                self.write(f"message.{each.name}", row)
        self.end_run(1)
        if self.flexible:
            self.write_tags([(each, row) for each, row in rows if row.tag is not None])
        elif not self.lines:
            self.line(1, "pass")

    def write(self, value: str, row: Row) -> None:
        if isinstance(row.kind, Fixed):
            self.run.append((row.kind.letters, fixed(value, row.kind)))
            return
        self.end_run(1)
        self.write_or_null(value, row, 1)

    def write_or_null(self, value: str, row: Row, depth: int) -> None:
        if self.version in row.nullable:
            self.line(depth, f"if {value} is None: out += {self.null(row.kind)!r}", "else:")
            depth += 1
            if is_struct(row.kind):
                self.line(depth, "out.append(1)")
        self.write_value(value, row.kind, depth)

    def end_run(self, depth: int) -> None:
        if self.run:
            letters = "".join(letters for letters, _ in self.run)
            values = ", ".join(value for _, value in self.run)
            self.line(depth, f"out += {self.pack(letters)}({values})")
            self.run = []

    def pack(self, letters: str) -> str:
        name = f"pack_{letters.replace('?', 'bool')}"
        self.names[name] = struct.Struct(f">{letters}").pack
        return name

    def null(self, kind: Any) -> bytes:
        if is_struct(kind):
            return b"\xff"  # a struct: -1 in an int8, and 1 before one that is there
        if self.flexible:
            return b"\0"
        return b"\xff\xff" if isinstance(kind, Text) else b"\xff\xff\xff\xff"

    def write_value(self, value: str, kind: Any, depth: int) -> None:
        if isinstance(kind, Fixed):
            self.run.append((kind.letters, fixed(value, kind)))
            self.end_run(depth)
        elif isinstance(kind, Text):
            self.line(depth, f"octets = {value}.encode()")
            self.write_count("octets", "h", depth)
            self.line(depth, "out += octets")
        elif isinstance(kind, Data):
            self.write_count(value, "i", depth)
            self.line(depth, f"out += {value}")
        elif isinstance(kind, Array):
            self.write_array(value, kind.of, depth)
        else:
            write = encoder_of(struct_of(kind), self.version, self.flexible)
            self.line(depth, f"{self.name('write', write)}({value}, out)")

    def write_count(self, value: str, letters: str, depth: int) -> None:
        if self.flexible:
            self.line(depth, f"count = len({value}) + 1", "if count < 128: out.append(count)")
            self.line(depth, "else: write_varint(count, out)")
        else:
            self.line(depth, f"out += {self.pack(letters)}(len({value}))")

    def write_array(self, value: str, kind: Any, depth: int) -> None:
        self.write_count(value, "i", depth)
        if isinstance(kind, Fixed) and kind is not uuid:
            self.line(depth, f"out += pack(f'>{{len({value})}}{kind.letters}', *{value})")
            return
        self.line(depth, f"for each in {value}:")
        self.write_value("each", kind, depth + 1)

    def write_tags(self, rows: list[tuple[Any, Row]]) -> None:
        if not rows:
            self.line(1, "out.append(0)")
            return
        self.line(1, "tags, whole = 0, out", "section = bytearray()")
        for each, row in rows:  # the tables have them in the order of their tags
            made = each.default if each.default is not MISSING else each.default_factory()
            self.line(1, f"if message.{each.name} != {self.name('default', made)}:")
            self.line(2, "tags += 1", "out = bytearray()")
            self.write_or_null(f"message.{each.name}", row, 2)
            self.line(2, f"write_varint({row.tag}, section)", "write_varint(len(out), section)")
            self.line(2, "section += out")
        self.line(1, "out = whole", "write_varint(tags, out)", "out += section")


def fixed(value: str, kind: Fixed) -> str:
    return f"{value}.bytes" if kind is uuid else value
