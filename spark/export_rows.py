"""Decodes records into rows of a schema, or dead letters with a reason. One decoder per mode.

    raw    the columns of Spark's Kafka connector without the topic, which is in the path
    json   the fields of a JSON object, and the record's own columns under names with an underscore
    avro   the fields of an Avro record, likewise
    registry   those of Avro, Protobuf or JSON, by the schema of a registry that the value names
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appliance_spark import export_avro, export_hours, export_json, export_registry

if TYPE_CHECKING:
    import pyarrow as pa

RAW = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
OWN = {"_key": "key", "_partition": "partition", "_offset": "offset", "_timestamp": "timestamp",
       "_headers": "headers"}

Given = dict[str, Any]
Parse = Callable[[list[bytes | None]], "Parsed"]


@dataclass
class Parsed:
    """The decoded values of a batch: a struct array, and the errors of the others."""

    fields: Any  # pa.StructArray, as long as `good`
    good: list[int]
    bad: dict[int, str]
    values: list[Any]  # the good ones as Python objects; empty if not needed


@dataclass
class Rows:
    """A batch of records for files, with the record of each row."""

    table: pa.RecordBatch
    hours: pa.Array
    index: pa.Array | None  # None: all of them
    bad: dict[int, str]


def decoder(
    schema: Given, way: str, zone: str, registry: export_registry.Place | None = None
) -> Callable[[pa.RecordBatch], Rows]:
    path = way.removeprefix("field:").split(".") if way.startswith("field:") else None
    if schema["mode"] == "raw":
        return _raw_by_field(path, zone) if path else lambda batch: _raw(batch, way, zone)
    if schema["mode"] == "registry":
        parse = export_json.parser(schema, export_registry.loader(registry))
    else:
        of = export_json.parser if schema["mode"] == "json" else export_avro.parser
        parse = of(schema)
    return lambda batch: _parsed(values_of(batch, schema), batch, parse, way, path, zone)


def values_of(batch: pa.RecordBatch, schema: Given) -> list[Any]:
    """As the mode's decoder takes them."""
    if schema["mode"] == "registry":
        return export_registry.items(batch)
    return list(batch.column("value").to_pylist())


def _raw(batch: pa.RecordBatch, way: str, zone: str) -> Rows:
    return Rows(batch.select(RAW), export_hours.by_timestamp(batch, way, zone), None, {})


def _raw_by_field(path: list[str], zone: str) -> Callable[[pa.RecordBatch], Rows]:
    def decode(batch: pa.RecordBatch) -> Rows:
        import pyarrow as pa

        hours, good, bad = _hours(
            batch.column("value").to_pylist(),
            lambda value: export_hours.by_field(value, path, zone)
        )
        index = pa.array(good, pa.int64())
        return Rows(batch.select(RAW).take(index), pa.array(hours, pa.int64()), index, bad)

    return decode


def _hours(
    values: list[Any], hour: Callable[[Any], int]
) -> tuple[list[int], list[int], dict[int, str]]:
    hours, good, bad = [], [], {}
    for i, value in enumerate(values):
        try:
            hours.append(hour(value))
            good.append(i)
        except (ValueError, RecursionError) as error:
            bad[i] = str(error)
    return hours, good, bad


def _parsed(
    values: list[Any], batch: pa.RecordBatch, parse: Any, way: str, path: list[str] | None,
    zone: str,
) -> Rows:
    import pyarrow as pa

    found = parse(values)
    index = pa.array(found.good, pa.int64())
    table = _with_own(batch.take(index), found.fields)
    if path is None:
        hours = export_hours.by_timestamp(batch.take(index), way, zone)
        return Rows(table, hours, index, found.bad)
    told, good, late = _hours(found.values, lambda value: export_hours.hour_of(value, path, zone))
    bad = {**found.bad, **{found.good[i]: reason for i, reason in late.items()}}
    kept = pa.array(good, pa.int64())
    return Rows(table.take(kept), pa.array(told, pa.int64()), index.take(kept), bad)


def _with_own(batch: pa.RecordBatch, fields: Any) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [batch.column(name) for name in OWN.values()]
    names = [*OWN]
    arrays += [fields.field(i) for i in range(fields.type.num_fields)]
    names += [fields.type.field(i).name for i in range(fields.type.num_fields)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def dead_letters(batch: pa.RecordBatch, bad: dict[int, str]) -> pa.RecordBatch:
    """The unchanged records, with the reason for each."""
    import pyarrow as pa

    index = pa.array(sorted(bad), pa.int64())
    texts = [bad[i][:1000].encode("utf-8", "backslashreplace").decode() for i in sorted(bad)]
    reasons = pa.array(texts, pa.string())
    kept = batch.select(RAW).take(index)
    return pa.RecordBatch.from_arrays([*kept.columns, reasons], names=[*RAW, "reason"])
