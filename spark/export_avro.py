"""Avro values as columns, by a given schema. fastavro decodes them (`appliance-log[avro]`).

Confluent's header, a zero byte and a schema id of four bytes, is skipped without a lookup of the
id.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from appliance_spark.export_layout import ExportFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from appliance_spark.export_rows import Parsed

HEADER_SIZE = 5
TOMBSTONE = "_tombstone"


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise ExportFailed("Avro wants fastavro: pip install 'appliance-log[avro]'") from error
    return fastavro


def parser(schema: dict[str, Any]) -> Callable[[list[bytes | None]], Parsed]:
    from appliance_spark.export_rows import Parsed

    fastavro = _fastavro()
    known = fastavro.parse_schema(schema["type"])
    shape = _shape(schema["type"])
    is_framed = schema.get("framing", "confluent") == "confluent"

    def read(value: bytes | None) -> dict[str, Any]:
        if value is None:
            return {TOMBSTONE: True}
        stream = io.BytesIO(_body(value) if is_framed else value)
        found: dict[str, Any] = fastavro.schemaless_reader(stream, known, None)
        left = len(stream.getbuffer()) - stream.tell()
        if left:
            raise ValueError(f"{left} bytes are left over behind the record")
        return {**found, TOMBSTONE: False}

    def parse(values: list[bytes | None]) -> Parsed:
        import pyarrow as pa

        rows, good, bad = [], [], {}
        for i, value in enumerate(values):
            try:
                row = read(value)
                pa.array([row], shape)  # a record that does not fit must not affect the others
            except Exception as error:  # noqa: BLE001 - fastavro raises many types for wrong bytes
                bad[i] = f"{type(error).__name__}: {error}"
                continue
            rows.append(row)
            good.append(i)
        return Parsed(pa.array(rows, shape), good, bad, rows)

    return parse


def _body(value: bytes) -> bytes:
    if len(value) < HEADER_SIZE or value[0] != 0:
        raise ValueError(f"no Confluent header: the value begins with {value[:5].hex()}")
    return value[HEADER_SIZE:]


# Types

def _shape(schema: Any) -> pa.DataType:
    import pyarrow as pa

    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ExportFailed(f"wanted an Avro record, got {json.dumps(schema)[:200]}")
    names: dict[str, Any] = {}
    struct = arrow_type(schema, names)
    return pa.struct([*(struct.field(i) for i in range(struct.num_fields)),
                      pa.field(TOMBSTONE, pa.bool_())])


def arrow_type(schema: Any, names: dict[str, Any]) -> pa.DataType:
    """`names` are the records, enums and fixeds that were defined before."""
    import pyarrow as pa

    if isinstance(schema, list):
        return _of_union(schema, names)
    if isinstance(schema, str):
        return names[schema] if schema in names else _plain(schema)
    if "logicalType" in schema:
        logical = _logical(schema)
        if logical is not None:
            return logical
    kind = schema["type"]
    if kind in ("array", "map"):
        inner = arrow_type(schema["items" if kind == "array" else "values"], names)
        return pa.list_(inner) if kind == "array" else pa.map_(pa.string(), inner)
    if kind == "record":
        found = pa.struct(
            [pa.field(each["name"], arrow_type(each["type"], names)) for each in schema["fields"]]
        )
    elif kind in ("enum", "fixed"):
        found = pa.string() if kind == "enum" else pa.binary(schema["size"])
    else:
        return arrow_type(kind, names)
    names[schema["name"]] = found
    return found


def _of_union(schema: list[Any], names: dict[str, Any]) -> pa.DataType:
    kinds = [each for each in schema if each != "null"]
    if len(kinds) != 1:
        raise ExportFailed(
            f"a union of {len(kinds)} types cannot be a column: {json.dumps(schema)[:200]}. "
            "Export raw, or give a schema without it"
        )
    return arrow_type(kinds[0], names)


def _plain(name: str) -> pa.DataType:
    import pyarrow as pa

    known = {"boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
             "double": pa.float64(), "bytes": pa.binary(), "string": pa.string()}
    if name not in known:
        raise ExportFailed(f"Avro type {name!r} is not known, or refers to itself")
    return known[name]


def _logical(schema: dict[str, Any]) -> pa.DataType | None:
    """The types that fastavro returns. It returns unknown logical types as their base type."""
    import pyarrow as pa

    name = schema["logicalType"]
    if name == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    known = {"timestamp-millis": pa.timestamp("us", "UTC"), "date": pa.date32(),
             "timestamp-micros": pa.timestamp("us", "UTC"), "time-millis": pa.time64("us"),
             "time-micros": pa.time64("us")}
    return known.get(name)
