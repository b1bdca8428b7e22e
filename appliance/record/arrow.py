"""Record batches of the log as record batches of Arrow, column by column and without copying twice.

pyarrow is an extra (`appliance-log[spark]`) and large: it is imported by the first call, not
before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from appliance.record._columns import (
    COLUMNS_SIZE_MAX,
    Aborted,
    BinaryColumn,
    Buffer,
    Columns,
    columns,
)

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET_MAX = (1 << 63) - 1
KINDS_MAX = 16  # of header lists; there are three: a client's, an export's and Spark's


@cache
def schema() -> pa.Schema:
    """Of every batch that `record_batch` makes. Timestamps are milliseconds since 1970, in UTC."""
    import pyarrow as pa

    key = pa.field("key", pa.string(), nullable=False)
    header = pa.struct([key, pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.int64(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )


def record_batch(
    data: bytes | bytearray | memoryview,
    *,
    first_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    partial_tail: bool = False,
    size_max: int = COLUMNS_SIZE_MAX,
    aborted: Aborted | None = None,
    metadata: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """The records of all batches in `data` with first_offset <= offset < end_offset.

    Control batches are left out, and those of `aborted` transactions; `size_max` bounds the bytes
    of records, decompressed. `metadata` goes into the schema.
    """
    import pyarrow as pa

    filled = columns(
        data,
        first_offset=first_offset,
        end_offset=end_offset,
        partial_tail=partial_tail,
        size_max=size_max,
        aborted=aborted,
    )
    shape = schema()
    arrays = [
        numbers(pa.int64(), filled.offset),
        numbers(pa.int64(), filled.timestamp),
        binary(filled.key),
        binary(filled.value),
        headers(filled, shape.field("headers").type),
    ]
    named = shape.with_metadata(metadata) if metadata else shape
    return pa.RecordBatch.from_arrays(arrays, schema=named)


def numbers(kind: pa.DataType, buffer: Buffer) -> Any:
    import pyarrow as pa

    count = len(buffer) * 8 // kind.bit_width
    return pa.Array.from_buffers(kind, count, [None, _shared(buffer)])


def binary(column: BinaryColumn) -> Any:
    import pyarrow as pa

    shared = [_shared(buffer) for buffer in column.buffers()]
    return pa.Array.from_buffers(pa.binary(), len(column), shared, column.null_count)


def headers(filled: Columns, kind: pa.ListType) -> Any:
    """A list of `kind` for each record; empty where it has none."""
    import pyarrow as pa

    pairs = _pairs(filled, kind) if len(filled.header_key) else _no_pairs(kind)
    ends = _shared(filled.header_lists)
    return pa.Array.from_buffers(kind, len(filled), [None, ends], children=[pairs])


def _pairs(filled: Columns, kind: pa.ListType) -> Any:
    import pyarrow as pa

    arrays = [_header_keys(filled.header_key), binary(filled.header_value)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))


@lru_cache(maxsize=KINDS_MAX)
def _no_pairs(kind: pa.ListType) -> Any:
    """Most records have no headers, and to make nothing of nothing takes longer than a column."""
    return _pairs(columns(b""), kind)


def _shared(buffer: Buffer | None) -> Any:
    import pyarrow as pa

    return None if buffer is None else pa.py_buffer(buffer)


def _header_keys(column: BinaryColumn) -> Any:
    """As strings. What a producer wrote that is not UTF-8 is replaced, as `records` does."""
    import pyarrow as pa

    keys = binary(column)
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.as_py().decode("utf-8", "replace") for key in keys], pa.string())
