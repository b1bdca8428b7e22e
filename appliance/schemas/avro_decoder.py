"""Avro to JSON, for data from anybody.

Schema and data are untrusted. fastavro decodes in compiled code with the depth and the counts of
the data. So `Walk` first counts the values and the depth of a datum, and refuses too many: a few
bytes can encode billions of values (arrays of null), and lists may nest without end. Names are
bounded, too: each type has that of its namespace in memory, and each value that of its field or
symbol in the text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

from appliance.schemas.schema_limits import DecodeFailed, SchemaInvalid, check_names_fit

VALUES_MAX = 100_000  # per datum
DEPTH_MAX = 64
NESTING_MAX = 100  # of the schema's JSON: its reader is recursive
NAME_MAX = 500  # characters of a name, and of a namespace
DECIMAL_BYTES_MAX = 1024  # the time for one goes with the square of its size
FIXED_SIZE = {"null": 0, "boolean": 1, "float": 4, "double": 8}
MAGIC_SIZE = 5  # Confluent's: a zero, and the schema's number


class Walk:
    """Determines the end of a datum without decoding it."""

    def __init__(self, names: dict[str, Any], data: bytes) -> None:
        self._names, self._data = names, data
        self.values = 0

    def end(self, schema: Any, position: int, depth: int = 0) -> int:
        self.values += 1
        if self.values > VALUES_MAX:
            raise DecodeFailed(f"more than {VALUES_MAX} values in one record")
        if depth > DEPTH_MAX:
            raise DecodeFailed(f"nested deeper than {DEPTH_MAX}")
        if isinstance(schema, list):
            branch, position = self._long(position)
            if not 0 <= branch < len(schema):
                raise DecodeFailed(f"branch {branch} of a union of {len(schema)}, at {position}")
            return self.end(schema[branch], position, depth + 1)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, (dict, list)):
            return self.end(kind, position, depth + 1)
        step = self._steps.get(kind)
        if step is not None:
            return step(self, schema, position, depth)
        if kind in self._names:
            return self.end(self._names[kind], position, depth + 1)
        raise DecodeFailed(f"the schema has no type {kind!r}")

    def _plain(self, schema: Any, position: int, depth: int) -> int:
        kind = schema["type"] if isinstance(schema, dict) else schema
        return self._within(position + FIXED_SIZE[kind])

    def _number(self, schema: Any, position: int, depth: int) -> int:
        return self._long(position)[1]

    def _text(self, schema: Any, position: int, depth: int) -> int:
        size, position = self._long(position)
        if size < 0:
            raise DecodeFailed(f"a length of {size}, at {position}")
        return self._sized(schema, position, size)

    def _fixed(self, schema: Any, position: int, depth: int) -> int:
        return self._sized(schema, position, int(schema["size"]))

    def _sized(self, schema: Any, position: int, size: int) -> int:
        is_decimal = isinstance(schema, dict) and schema.get("logicalType") == "decimal"
        if is_decimal and size > DECIMAL_BYTES_MAX:
            raise DecodeFailed(f"a decimal of {size} bytes, wanted at most {DECIMAL_BYTES_MAX}")
        return self._within(position + size)

    def _record(self, schema: Any, position: int, depth: int) -> int:
        for each in schema["fields"]:
            position = self.end(each["type"], position, depth + 1)
        return position

    def _array(self, schema: Any, position: int, depth: int) -> int:
        return self._blocks(position, lambda at: self.end(schema["items"], at, depth + 1))

    def _map(self, schema: Any, position: int, depth: int) -> int:
        def entry(at: int) -> int:
            return self.end(schema["values"], self._text(None, at, depth), depth + 1)

        return self._blocks(position, entry)

    def _blocks(self, position: int, item: Callable[[int], int]) -> int:
        while True:
            count, position = self._long(position)
            if count == 0:
                return position
            if count < 0:  # then its size in bytes follows
                count, position = -count, self._long(position)[1]
            for _ in range(count):
                position = item(position)

    def _within(self, position: int) -> int:
        if position > len(self._data):
            raise DecodeFailed(f"ends after {len(self._data)} bytes, wanted {position}")
        return position

    def _long(self, position: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            if position >= len(self._data):
                raise DecodeFailed(f"ends after {len(self._data)} bytes, in a number")
            byte = self._data[position]
            value |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
            if shift > 63:
                raise DecodeFailed(f"a number of more than 64 bits, at {position}")

    _steps = {  # noqa: RUF012 - a constant table of methods
        **dict.fromkeys(FIXED_SIZE, _plain),
        **dict.fromkeys(("int", "long", "enum"), _number),
        **dict.fromkeys(("string", "bytes"), _text),
        **dict.fromkeys(("record", "error"), _record),
        "fixed": _fixed,
        "array": _array,
        "map": _map,
    }


class AvroDecoder:
    form = "avro"

    def __init__(self, text: str, before: Iterable[str] = ()) -> None:
        """`before`: schemas of types that this one names, each behind those that it needs."""
        # imported late: few topics have a schema, and the import takes 50 ms
        import fastavro

        self._read = fastavro.schemaless_reader
        self._names: dict[str, Any] = {}
        self._longest = 0  # name in the text of a value
        try:
            for each in dict.fromkeys(before):  # two names may lead to one
                fastavro.parse_schema(self._checked(each), self._names)
            self._schema: Any = fastavro.parse_schema(self._checked(text), self._names)
        except SchemaInvalid:
            raise
        except Exception as error:
            raise SchemaInvalid(f"no Avro schema: {said(error)}") from error
        self.about = self._schema.get("name", "") if isinstance(self._schema, dict) else ""

    def decode(self, data: bytes) -> tuple[str, int | None]:
        if data[:1] == b"\0" and len(data) >= MAGIC_SIZE:
            try:
                text = self.json_of(data[MAGIC_SIZE:])
                return text, int.from_bytes(data[1:MAGIC_SIZE], "big")
            except DecodeFailed:
                pass  # a datum may begin with a zero, too
        return self.json_of(data), None

    def _checked(self, text: str) -> Any:
        written = checked(text)
        self._longest = max(self._longest, longest_name(written))
        return written

    def json_of(self, data: bytes) -> str:
        try:
            self._check(data)
            found = self._read(io.BytesIO(data), self._schema, None)
            return json.dumps(found, ensure_ascii=False, default=plain)
        except DecodeFailed:
            raise
        except Exception as error:
            raise DecodeFailed(said(error)) from error

    def _check(self, data: bytes) -> None:
        walk = Walk(self._names, data)
        end = walk.end(self._schema, 0)
        if end != len(data):
            raise DecodeFailed(f"{len(data) - end} bytes are left behind the record")
        check_names_fit(walk.values, self._longest)


def checked(text: str) -> Any:
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaInvalid(f"no JSON: {error}") from error
    check(written)
    return written


def check(schema: Any, depth: int = 0) -> None:
    """Checks that the library does not make."""
    if depth > NESTING_MAX:
        raise SchemaInvalid(f"nested deeper than {NESTING_MAX}")
    if isinstance(schema, dict) and schema.get("type") == "fixed":
        size = schema.get("size")
        if not isinstance(size, int) or size < 0:
            raise SchemaInvalid(f"fixed: got size {str(size)[:40]!r}, wanted a number of bytes")
    if isinstance(schema, dict) and "type" in schema:
        for each in ("name", "namespace"):
            if len(text_at(schema, each)) > NAME_MAX:
                raise SchemaInvalid(f"a {each} of more than {NAME_MAX} characters")
    if isinstance(schema, (dict, list)):
        for each in schema.values() if isinstance(schema, dict) else schema:
            check(each, depth + 1)


def text_at(schema: dict[str, Any], key: str) -> str:
    found = schema.get(key)
    return found if isinstance(found, str) else ""


def longest_name(schema: Any) -> int:
    """In characters, of fields and symbols: what the text of a value repeats."""
    if isinstance(schema, list):
        return max(map(longest_name, schema), default=0)
    if not isinstance(schema, dict):
        return 0
    symbols = schema.get("symbols")
    known = symbols if isinstance(symbols, list) else []
    own = [text_at(schema, "name"), *(each for each in known if isinstance(each, str))]
    return max([*map(len, own), *map(longest_name, schema.values())])


def plain(value: Any) -> str:
    """Types that JSON lacks: bytes, times, decimals."""
    return value.hex() if isinstance(value, bytes) else str(value)


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
