"""A download: a range of messages as a file, JSON lines, CSV, Arrow or Parquet. It is streamed, so
it may have any size; a client that disconnects ends it.

In JSON lines and CSV, keys and values are text if they are UTF-8, otherwise base64, and
`key_is_base64` and `value_is_base64` mark them. In Arrow and Parquet they are bytes. CSV is for
spreadsheets: a text that one would take for a formula gets a quote in front.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web

from appliance.admin import message_filter
from appliance.admin.guard import Denied
from appliance.admin.message_filter import Filter
from appliance.admin.message_ranges import Range, first_ranges, ranges_of
from appliance.admin.message_scan import Look, Problem, ScannedRecord, looked
from appliance.admin.rights import READ_TOPIC
from appliance.admin.route import Call, Param, get
from appliance.admin.topic_lookup import readable, topic_of
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.record._records import Record
from appliance.topics.topic import Topic

log = event_log.named("admin")

MESSAGES_OF_LOOK = 5000

COLUMNS = ("partition", "offset", "timestamp_ms", "key", "key_is_base64", "value",
           "value_is_base64", "headers")  # fmt: skip


class FormatNotInstalled(ApplianceError):
    kafka_code = 35


class Writer(Protocol):
    """Makes a file of messages, piece by piece. Runs on a thread."""

    def piece(self, found: list[ScannedRecord]) -> bytes: ...

    def end(self) -> bytes: ...


def text_of(data: bytes | None) -> tuple[str | None, bool]:
    if data is None:
        return None, False
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), True


def row_of(found: ScannedRecord) -> list[Any]:
    record: Record = found.record
    key, value = text_of(record.key), text_of(record.value)
    headers = [
        {"name": name, "value": text, "is_base64": is_base64}
        for name, data in record.headers
        for text, is_base64 in (text_of(data),)
    ]
    return [found.partition, record.offset, record.timestamp, *key, *value, headers]


# The first characters of a formula in a spreadsheet, also in full width. A formula can send cells
# elsewhere, and anybody writes messages.
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
NUMBER_MAX = 40  # characters of a number; spreadsheets keep 15 digits


def harmless(cell: Any) -> Any:
    """A cell of CSV: text that looks like a formula gets a quote in front, the spreadsheets' mark
    of text. Numbers stay numbers."""
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    is_number = len(cell) <= NUMBER_MAX and NUMBER.fullmatch(cell)
    return cell if is_number else f"'{cell}"


@dataclass
class JsonLines:
    columns: Sequence[str]
    row_of: Callable[[Any], list[Any]]

    def piece(self, found: Iterable[Any]) -> bytes:
        rows = (dict(zip(self.columns, self.row_of(each), strict=True)) for each in found)
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()

    def end(self) -> bytes:
        return b""


@dataclass
class Csv:
    columns: Sequence[str]
    row_of: Callable[[Any], list[Any]]  # the headers last
    has_head: bool = False

    def piece(self, found: Iterable[Any]) -> bytes:
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        if not self.has_head:
            writer.writerow(self.columns)
            self.has_head = True
        for each in found:
            *plain, headers = self.row_of(each)
            writer.writerow([*map(harmless, plain), json.dumps(headers, ensure_ascii=False)])
        return out.getvalue().encode()

    def end(self) -> bytes:
        return b"" if self.has_head else self.piece([])


class Sink(io.RawIOBase):
    """A file that only grows and drops the bytes that were taken; its positions continue."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


class Columns:
    """Arrow's stream format, or Parquet."""

    def __init__(self, is_parquet: bool) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise FormatNotInstalled(
                "format: Arrow and Parquet need pyarrow, which is not installed"
            ) from error
        self._arrow = pyarrow
        self._out = Sink()
        self._schema = schema_of(pyarrow)
        sink = pyarrow.PythonFile(self._out, mode="w")
        self._writer = (
            parquet.ParquetWriter(sink, self._schema)
            if is_parquet
            else pyarrow.ipc.new_stream(sink, self._schema)
        )

    def piece(self, found: list[ScannedRecord]) -> bytes:
        rows = [
            {
                "partition": each.partition,
                "offset": each.record.offset,
                "timestamp": each.record.timestamp,
                "key": each.record.key,
                "value": each.record.value,
                "headers": [{"key": k, "value": v} for k, v in each.record.headers],
            }
            for each in found
        ]
        self._writer.write_table(self._arrow.Table.from_pylist(rows, self._schema))
        return self._out.taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._out.taken()


def schema_of(arrow: Any) -> Any:
    header = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
    return arrow.schema(
        [
            ("partition", arrow.int32()),
            ("offset", arrow.int64()),
            ("timestamp", arrow.timestamp("ms", "UTC")),
            ("key", arrow.binary()),
            ("value", arrow.binary()),
            ("headers", arrow.list_(header)),
        ]
    )


FORMATS: dict[str, tuple[str, Callable[[], Writer]]] = {
    "jsonl": ("application/x-ndjson", lambda: JsonLines(COLUMNS, row_of)),
    "csv": ("text/csv", lambda: Csv(COLUMNS, row_of)),
    "arrow": ("application/vnd.apache.arrow.stream", lambda: Columns(False)),
    "parquet": ("application/vnd.apache.parquet", lambda: Columns(True)),
}


async def download(call: Call) -> web.StreamResponse:
    topic = topic_of(call)
    wanted = message_filter.parse(call.params["filter"])
    ranges = await ranges_asked(call, topic)
    media, make = FORMATS[call.params["format"]]
    writer = await asyncio.to_thread(make)
    first = await look(call, topic, ranges, wanted)
    if first.problems:  # an answer that has not begun can tell it
        raise Denied(HTTPStatus.SERVICE_UNAVAILABLE, "unreadable", told(topic, first.problems[0]))
    response = web.StreamResponse()
    response.content_type = media
    name = f"{topic.name}.{call.params['format']}"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    await response.prepare(call.request)
    with suppress(ConnectionResetError):  # the client is gone
        await send(call, topic, wanted, first, writer, response)
    return response


async def look(call: Call, topic: Topic, ranges: list[Range], wanted: Filter) -> Look:
    return await looked(call, topic, ranges, wanted, MESSAGES_OF_LOOK, False)


def told(topic: Topic, problem: Problem) -> str:
    return f"{topic.name}-{problem.partition}, from offset {problem.offset} on: {problem.what}"


async def send(
    call: Call, topic: Topic, wanted: Filter, seen: Look, writer: Writer,
    response: web.StreamResponse,
) -> None:  # fmt: skip
    while True:
        if seen.found:
            await response.write(await asyncio.to_thread(writer.piece, seen.found))
        if not seen.left:
            break
        seen = await look(call, topic, seen.left, wanted)
        if seen.problems or not call.may_go_on():
            # half a file that looks complete would be worse than none
            who = f"{call.who} may read no more"
            what = told(topic, seen.problems[0]) if seen.problems else who
            log.error("a download was cut off", what=what)
            assert call.request.transport is not None
            call.request.transport.abort()
            raise ConnectionResetError
    await response.write(await asyncio.to_thread(writer.end))
    await response.write_eof()


async def ranges_asked(call: Call, topic: Topic) -> list[Range]:
    if call.params["cursor"] is not None:
        return ranges_of(call.params["cursor"], topic)
    chosen = await readable(call, topic, call.params["partition"])
    return await asyncio.to_thread(first_ranges, chosen, call.params["from"])


ROUTES = [
    get(
        "/topics/{topic}/export",
        download,
        None,
        "Messages as a file, up to the end at its start.",
        params=(
            Param("format", str, "Format of the file.", "jsonl", choices=tuple(FORMATS)),
            Param("from", str, "oldest, offset:N, offset:-N, time:MS.", "oldest"),
            Param("partition", int, "Only this partition.", minimum=0),
            message_filter.FILTER,
            Param("cursor", str, "Ranges instead: PARTITION:FIRST:END, separated by commas."),
        ),
        media="application/octet-stream",
        reads_messages=True,
        rights=(READ_TOPIC,),
    ),
]
