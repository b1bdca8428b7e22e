"""A decoded range of a partition, for readers of files: Arrow, Parquet, JSON lines and CSV, with
the columns of Spark's Kafka connector.

Compiled code decodes without a Python object per record. Text is for people and small ranges, made
row by row: keys and values are text if they are UTF-8, otherwise base64, and `key_is_base64` and
`value_is_base64` mark them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from appliance.admin.download import Csv, FormatNotInstalled, JsonLines, Sink, text_of
from appliance.bulk._range_reader import RangeReader
from appliance.errors import ApplianceError
from appliance.record import arrow
from appliance.record._columns import Aborted, Columns, columns

FRAME_BYTES = 256 << 10  # of a read
# Of records that a stream has in memory, decompressed, until they are sent: a frame of more is
# opened in parts. A batch is whole, and may have 128 MiB.
PIECE_BYTES = 4 << 20
# Of Parquet, uncompressed. A row group is in memory until it is complete.
ROW_GROUP_BYTES = 16 << 20


class Writer(Protocol):
    """Makes a file of Arrow batches, piece by piece."""

    def piece(self, batch: Any) -> bytes: ...

    def end(self) -> bytes: ...


class ArrowStream:
    def __init__(self, schema: Any) -> None:
        import pyarrow as pa

        self._out = Sink()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._out, mode="w"), schema)

    def piece(self, batch: Any) -> bytes:
        self._writer.write_batch(batch)
        return self._out.taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._out.taken()


class Parquet:
    def __init__(self, schema: Any) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._out, self._schema = Sink(), schema
        sink = pa.PythonFile(self._out, mode="w")
        self._writer = parquet.ParquetWriter(sink, schema, compression="zstd")
        self._kept: list[Any] = []
        self._bytes = 0

    def piece(self, batch: Any) -> bytes:
        self._kept.append(batch)
        self._bytes += batch.nbytes
        return self._row_group() if self._bytes >= ROW_GROUP_BYTES else b""

    def _row_group(self) -> bytes:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_batches(self._kept, self._schema))
        self._kept, self._bytes = [], 0
        return self._out.taken()

    def end(self) -> bytes:
        last = self._row_group() if self._kept else b""
        self._writer.close()
        return last + self._out.taken()


@dataclass
class Text:
    writer: JsonLines | Csv

    def piece(self, batch: Any) -> bytes:
        return self.writer.piece(batch.to_pylist())

    def end(self) -> bytes:
        return self.writer.end()


TEXT_COLUMNS = ("key", "key_is_base64", "value", "value_is_base64", "topic", "partition", "offset",
                "timestamp", "timestampType", "headers")  # fmt: skip

FORMATS: dict[str, tuple[str, Callable[[Any], Writer]]] = {
    "arrow": ("application/vnd.apache.arrow.stream", ArrowStream),
    "parquet": ("application/vnd.apache.parquet", Parquet),
    "jsonl": ("application/x-ndjson", lambda _: Text(JsonLines(TEXT_COLUMNS, row_of))),
    "csv": ("text/csv", lambda _: Text(Csv(TEXT_COLUMNS, row_of))),
}


def row_of(record: dict[str, Any]) -> list[Any]:
    """In the order of TEXT_COLUMNS; `timestamp` in ISO 8601."""
    headers = [
        {"key": each["key"], "value": text, "is_base64": is_base64}
        for each in record["headers"] or []
        for text, is_base64 in (text_of(each["value"]),)
    ]
    return [
        *text_of(record["key"]),
        *text_of(record["value"]),
        record["topic"],
        record["partition"],
        record["offset"],
        record["timestamp"].isoformat(timespec="milliseconds"),
        record["timestampType"],
        headers,
    ]


def schema() -> Any:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(header)),
        ]
    )


class Decoded:
    """A range as pieces of a file. `piece` blocks, and is for a thread."""

    def __init__(
        self, reader: RangeReader, kind: str, place: tuple[str, int], bounds: tuple[int, int],
        aborted: list[tuple[int, int]],
    ) -> None:  # fmt: skip
        try:
            self._schema = schema()
        except ImportError as error:
            raise FormatNotInstalled(
                f"format: {kind} needs pyarrow, which is not installed"
            ) from error
        self._reader = reader
        self._topic, self._partition = place
        self._bounds = bounds
        self._aborted = Aborted(aborted) if aborted else None
        self._writer = FORMATS[kind][1](self._schema)
        self._batches = memoryview(b"")  # that were read, and are not decoded
        self._begin = 0  # of these
        self._has_ended = False

    def piece(self) -> bytes | None:
        """None: that was all. Maybe empty, though more is to come."""
        if self._has_ended:
            return None
        if not len(self._batches):
            self._begin = self._reader.next_offset
            self._batches = self._reader.read(FRAME_BYTES).batches
        if not len(self._batches):
            self._has_ended = True
            return self._writer.end()
        filled = self._opened()
        return self._writer.piece(self._batch(filled)) if len(filled) else b""

    def _opened(self) -> Columns:
        first, end = self._bounds
        try:
            filled = columns(self._batches, first_offset=first, end_offset=end,
                             aborted=self._aborted, enough=PIECE_BYTES)  # fmt: skip
        except ApplianceError:
            self._reader.log.note_damaged(self._begin, self._batches)
            raise
        self._batches, self._begin = self._batches[filled.size :], filled.next_offset
        return filled

    def _batch(self, filled: Columns) -> Any:
        import pyarrow as pa

        count = len(filled)
        kind = self._schema.field
        return pa.RecordBatch.from_arrays(
            [
                arrow.binary(filled.key),
                arrow.binary(filled.value),
                pa.repeat(pa.scalar(self._topic), count),
                pa.repeat(pa.scalar(self._partition, pa.int32()), count),
                arrow.numbers(pa.int64(), filled.offset),
                arrow.numbers(kind("timestamp").type, filled.timestamp),
                arrow.numbers(pa.int32(), filled.timestamp_type),
                arrow.headers(filled, kind("headers").type),
            ],
            schema=self._schema,
        )
