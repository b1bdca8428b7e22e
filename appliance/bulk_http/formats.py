"""A decoded range of a partition, for readers of files: Arrow, Parquet, JSON lines and CSV, with
the columns of Spark's Kafka connector.

Compiled code decodes without a Python object per record. Text is for people and small ranges, made
row by row: keys and values are text if they are UTF-8, otherwise base64, and `key_is_base64` and
`value_is_base64` mark them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any, Protocol

from appliance.admin.download import FormatNotInstalled, Sink, harmless, text_of
from appliance.bulk._range_reader import RangeReader
from appliance.errors import ApplianceError
from appliance.record import arrow
from appliance.record._columns import Aborted, columns

# Per read: decompressed it is several times as large, and a stream has that in memory.
FRAME_BYTES = 256 << 10
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


class JsonLines:
    def __init__(self, schema: Any) -> None:
        pass

    def piece(self, batch: Any) -> bytes:
        rows = (row_of(each) for each in batch.to_pylist())
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()

    def end(self) -> bytes:
        return b""


class Csv:
    def __init__(self, schema: Any) -> None:
        self._has_head = False

    def piece(self, batch: Any) -> bytes:
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        if not self._has_head:
            writer.writerow(TEXT_COLUMNS)
            self._has_head = True
        for each in batch.to_pylist():
            *plain, headers = row_of(each).values()
            writer.writerow([*map(harmless, plain), json.dumps(headers, ensure_ascii=False)])
        return out.getvalue().encode()

    def end(self) -> bytes:
        head = io.StringIO(newline="")
        csv.writer(head).writerow(TEXT_COLUMNS)
        return b"" if self._has_head else head.getvalue().encode()


TEXT_COLUMNS = ("key", "key_is_base64", "value", "value_is_base64", "topic", "partition", "offset",
                "timestamp", "timestampType", "headers")  # fmt: skip

FORMATS: dict[str, tuple[str, Callable[[Any], Writer]]] = {
    "arrow": ("application/vnd.apache.arrow.stream", ArrowStream),
    "parquet": ("application/vnd.apache.parquet", Parquet),
    "jsonl": ("application/x-ndjson", JsonLines),
    "csv": ("text/csv", Csv),
}


def row_of(record: dict[str, Any]) -> dict[str, Any]:
    """In the order of TEXT_COLUMNS; `timestamp` in ISO 8601."""
    key, value = text_of(record["key"]), text_of(record["value"])
    headers = [
        {"key": each["key"], "value": text, "is_base64": is_base64}
        for each in record["headers"] or []
        for text, is_base64 in (text_of(each["value"]),)
    ]
    plain = {name: record[name] for name in ("topic", "partition", "offset", "timestampType")}
    return {
        "key": key[0],
        "key_is_base64": key[1],
        "value": value[0],
        "value_is_base64": value[1],
        "topic": plain["topic"],
        "partition": plain["partition"],
        "offset": plain["offset"],
        "timestamp": record["timestamp"].isoformat(timespec="milliseconds"),
        "timestampType": plain["timestampType"],
        "headers": headers,
    }


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
        self._has_ended = False

    def piece(self) -> bytes | None:
        """None: that was all. Maybe empty, though more is to come."""
        if self._has_ended:
            return None
        begin = self._reader.next_offset
        frame = self._reader.read(FRAME_BYTES)
        if not len(frame):
            self._has_ended = True
            return self._writer.end()
        first, end = self._bounds
        try:
            filled = columns(
                frame.batches, first_offset=first, end_offset=end, aborted=self._aborted
            )
        except ApplianceError:
            self._reader.log.note_damaged(begin, frame.batches)
            raise
        return self._writer.piece(self._batch(filled)) if len(filled) else b""

    def _batch(self, filled: Any) -> Any:
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
