"""Which schema of a registry a key or a value names: before its bytes, or in a header.

    00 id:4                            before the data: Confluent's, and Apicurio's of today
    __value_schema_id = 00 id:4        a header of Confluent's serializers
    __value_schema_id = 01 guid:16     the same by a GUID, as they write it
    apicurio.value.contentId = id:8    a header of Apicurio's: its id in the compatible API

For keys it is `key`. With Protobuf the message's indexes follow the id, wherever it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

HEADERS_MAX = 100  # of a record; what is behind them is not looked at
IDS, GUIDS = "ids", "guids"
ID_MAX = 2**31 - 1  # registries count with signed numbers, from 1
PREFIX_SIZE, GUID_PREFIX_SIZE, CONTENT_ID_SIZE = 5, 17, 8

Headers = Iterable[tuple[str, "bytes | None"]]


class SchemaKey(NamedTuple):
    """The parts of its path in the registry's API."""

    kind: str  # ids, guids
    name: str

    @property
    def number(self) -> int | None:
        return int(self.name) if self.kind == IDS else None


class Named(NamedTuple):
    key: SchemaKey
    body: bytes  # of Protobuf with the indexes in front, unless they are in a header
    behind: bytes | None  # what a header has behind the id; None: it was no header


def schema_named(part: str, data: bytes, headers: Headers) -> Named | None:
    """None: it names none, as far as one can tell."""
    for name, value in islice(headers, HEADERS_MAX):
        found = in_header(part, name, value) if value is not None else None
        if found is not None:
            return Named(found[0], data, found[1])
    key = key_of(data)
    return None if key is None else Named(key, data[PREFIX_SIZE:], None)


def in_header(part: str, name: str, value: bytes) -> tuple[SchemaKey, bytes] | None:
    if name == f"apicurio.{part}.contentId" and len(value) == CONTENT_ID_SIZE:
        key = numbered(value)
        return None if key is None else (key, b"")
    if name != f"__{part}_schema_id":
        return None
    if value[:1] == b"\1" and len(value) >= GUID_PREFIX_SIZE:
        guid = str(uuid.UUID(bytes=bytes(value[1:GUID_PREFIX_SIZE])))
        return SchemaKey(GUIDS, guid), value[GUID_PREFIX_SIZE:]
    key = key_of(value)
    return None if key is None else (key, value[PREFIX_SIZE:])


def key_of(data: bytes) -> SchemaKey | None:
    if data[:1] != b"\0" or len(data) < PREFIX_SIZE:
        return None
    return numbered(data[1:PREFIX_SIZE])


def numbered(data: bytes) -> SchemaKey | None:
    number = int.from_bytes(data, "big")
    return SchemaKey(IDS, str(number)) if 1 <= number <= ID_MAX else None
