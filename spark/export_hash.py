"""The hash of records: one number per record, and sums of them that do not depend on order.

A file's hash is the sum over its records modulo 2^64, so the hash of many files is the sum of
theirs, and reading the log again gives the same hash. `appliance/record/_export_hash.pyx` says what
is hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.record._export_hash import record_hashes

if TYPE_CHECKING:
    import pyarrow as pa

WORDS = 1 << 64


def hashes(batch: pa.RecordBatch, partition: int) -> pa.UInt64Array:
    """The hash of each record of one partition, from columns as in Spark's Kafka connector."""
    import pyarrow as pa

    if not batch.num_rows:
        return pa.array([], pa.uint64())
    headers = batch.column("headers")
    entries = headers.values
    words = record_hashes(
        partition,
        _integers(batch.column("offset")),
        _integers(batch.column("timestamp")),
        _bytes(batch.column("key")),
        _bytes(batch.column("value")),
        (_ends(headers, 1), None, _view(headers.buffers()[0]), headers.offset),
        _bytes(entries.field(0)),
        _bytes(entries.field(1)),
    )
    return pa.Array.from_buffers(pa.uint64(), batch.num_rows, [None, pa.py_buffer(words)])


def sum_of(words: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(words, min_count=0).as_py()) % WORDS  # Arrow's sum wraps around as well


def total(sums: list[int]) -> int:
    return sum(sums) % WORDS


def _integers(column: Any) -> memoryview:
    values = memoryview(column.buffers()[1]).cast("B").cast("q")
    return values[column.offset : column.offset + len(column)]


def _bytes(column: Any) -> tuple[memoryview, memoryview | None, memoryview | None, int]:
    buffers = column.buffers()
    return _ends(column, 1), _view(buffers[2]), _view(buffers[0]), column.offset


def _ends(column: Any, index: int) -> memoryview:
    """n + 1 offsets; an empty column may have no buffer."""
    buffer = column.buffers()[index]
    if buffer is None or buffer.size == 0:
        return memoryview(bytes(4)).cast("i")
    ends = memoryview(buffer).cast("B").cast("i")
    return ends[column.offset : column.offset + len(column) + 1]


def _view(buffer: Any) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B")
