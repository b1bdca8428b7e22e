"""The columns of a record, as in Spark's own Kafka connector. Compiled code decodes raw batches
into Arrow columns of these types, without a Python object per record.

Spark compares only the types of the first batch with its own, so all batches are made here. Which
columns a query needs comes as the schema: from `scan_rules.java`, or by `.schema("value binary")`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from appliance.record import arrow
from appliance.record._columns import Aborted, Columns, columns
from appliance_spark.options import OptionInvalid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "appliance": "string",
    "headers": "array<struct<key:string,value:binary>>",
}
HEADERS, APPLIANCE = "headers", "appliance"
MAY_BE_NULL = ("key", "value", HEADERS)  # only for these columns Spark checks each row for null


def record_schema(include_headers: bool, are_several: bool) -> str:
    left_out = {*[HEADERS] * (not include_headers), *[APPLIANCE] * (not are_several)}
    names = [name for name in TYPES if name not in left_out]
    return ", ".join(
        f"{name} {TYPES[name]}{'' if name in MAY_BE_NULL else ' not null'}" for name in names
    )


class Column(NamedTuple):
    name: str
    nullable: bool


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The selected columns; refuses others than a record's."""
    for field in schema.fields:
        wanted = TYPES.get(field.name, "no such column")
        if field.dataType.simpleString() != wanted:
            raise OptionInvalid(
                f"schema: got {field.name} {field.dataType.simpleString()}, wanted {wanted}; "
                f"the columns are {record_schema(True, True)}"
            )
    return tuple(Column(field.name, field.nullable) for field in schema.fields)


class Decoder:
    """Decodes raw batches of one partition into Arrow batches."""

    def __init__(
        self, topic: str, partition: int, wanted: tuple[Column, ...], appliance: str = ""
    ) -> None:
        import pyarrow as pa

        self.topic, self.partition, self.appliance = topic, partition, appliance
        self.names = [name for name, _ in wanted]
        self.kinds = kinds()
        self.schema = pa.schema([pa.field(name, self.kinds[name], null) for name, null in wanted])
        self._constants: dict[str, Any] = {}

    def columns(
        self,
        data: bytes | bytearray | memoryview,
        first_offset: int,
        end_offset: int,
        aborted: Aborted | None,
    ) -> Columns:
        return columns(
            data,
            first_offset=first_offset,
            end_offset=end_offset,
            aborted=aborted,
            keys="key" in self.names,
            values="value" in self.names,
            headers=HEADERS in self.names,
        )

    def batch(self, filled: Columns) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = [self._makers[name](filled) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @cached_property
    def _makers(self) -> dict[str, Callable[[Columns], Any]]:
        import pyarrow as pa

        return {
            "key": lambda filled: arrow.binary(filled.key),
            "value": lambda filled: arrow.binary(filled.value),
            "topic": lambda filled: self._constant("topic", self.topic, len(filled)),
            "partition": lambda filled: self._constant("partition", self.partition, len(filled)),
            "offset": lambda filled: arrow.numbers(pa.int64(), filled.offset),
            "timestamp": lambda filled: arrow.numbers(
                pa.timestamp("ms", "UTC"), filled.timestamp
            ).cast(self.kinds["timestamp"]),
            "timestampType": lambda filled: arrow.numbers(pa.int32(), filled.timestamp_type),
            APPLIANCE: lambda filled: self._constant(APPLIANCE, self.appliance, len(filled)),
            HEADERS: self._headers,
        }

    def _constant(self, name: str, value: Any, count: int) -> Any:
        """Allocated for the largest batch so far; smaller ones use a view of it."""
        import pyarrow as pa

        made = self._constants.get(name)
        if made is None or len(made) < count:
            made = self._constants[name] = pa.repeat(pa.scalar(value, self.kinds[name]), count)
        return made.slice(0, count)

    def _headers(self, filled: Columns) -> Any:
        """Null if a record has none, as in the Kafka connector."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.kinds[HEADERS]
        made = arrow.headers(filled, kind)
        has_some = pc.greater(pc.list_value_length(made), 0)
        return pc.if_else(has_some, made, pa.scalar(None, kind))


def kinds() -> dict[str, Any]:
    """Arrow's types, exactly as Spark converts the schema."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        APPLIANCE: pa.string(),
        HEADERS: pa.list_(header),
    }
