"""Makes plans from field tables: how `_codec.pyx` encodes and decodes a class in one version."""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import MISSING
from typing import Any

from appliance.protocol._codec import Field, Plan
from appliance.protocol.types import (
    Array,
    Data,
    Fixed,
    MessageType,
    Row,
    Text,
    is_struct,
    rows_of,
    struct_of,
)


def plan_of(message: MessageType, version: int, flexible: bool) -> Plan:
    rows = rows_of(message)
    here = [(each, row) for each, row in rows if version in row.versions]
    return Plan(
        message,
        line=tuple(_row(*both, version, flexible) for both in here if both[1].tag is None),
        tagged=tuple(_row(*both, version, flexible) for both in here if both[1].tag is not None),
        absent=tuple(_absent(each) for each, row in rows if version not in row.versions),
        flexible=flexible,
    )


def _row(each: dataclasses.Field[Any], row: Row, version: int, flexible: bool) -> Field:
    tag = -1 if row.tag is None else row.tag
    is_nullable = version in row.nullable
    more = {"nullable": is_nullable, "tag": tag, **_default(each)}
    return _field(each.name, row.kind, version, flexible, **more)


def _absent(each: dataclasses.Field[Any]) -> Field:
    return Field(each.name, "?", **_default(each))


def _default(each: dataclasses.Field[Any]) -> dict[str, Any]:
    if each.default is MISSING:
        return {"factory": each.default_factory}
    return {"default": each.default}


def _field(name: str, kind: Any, version: int, flexible: bool, **more: Any) -> Field:
    if isinstance(kind, Fixed):
        return Field(name, kind.letters, **more)
    if isinstance(kind, Text | Data):
        return Field(name, "text" if isinstance(kind, Text) else "data", **more)
    if isinstance(kind, Array):
        of_each = _field("each", kind.of, version, flexible)
        bytes_min = _bytes_min(kind.of, version, flexible)
        return Field(name, "array", each=of_each, bytes_min=bytes_min, **more)
    return Field(name, "struct", plan=plan_of(struct_of(kind), version, flexible), **more)


def _bytes_min(kind: Any, version: int, flexible: bool) -> int:
    """The smallest size of one value, which limits a count."""
    if isinstance(kind, Fixed):
        return struct.calcsize(f">{kind.letters}")
    if isinstance(kind, Text | Data | Array):
        return 1 if flexible else 2 if isinstance(kind, Text) else 4
    total = int(flexible)  # the count of tags
    for _, row in rows_of(struct_of(kind)):
        if version in row.versions and row.tag is None:
            is_one = is_struct(row.kind) and version in row.nullable
            total += 1 if is_one else _bytes_min(row.kind, version, flexible)
    return total
