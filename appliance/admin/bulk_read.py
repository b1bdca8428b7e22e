"""Bulk reads over HTTP: a plan of splits, and the record batches of a range as they are stored.

A stream of batches is frames, each `length u32, big-endian | length bytes of whole batches`. The
first batch may begin before `start`, the last may end after `end`: the reader skips records
outside. A length of 0 ends the frames; a trailer in JSON with its own length follows. A stream
without a trailer was cut off: continue after the last whole batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, TypedDict, TypeVar

from aiohttp import web

from appliance._log import Log
from appliance.admin.bulk_formats import FORMATS, Decoded
from appliance.admin.guard import Denied
from appliance.admin.route import Call, Param, get
from appliance.admin.topic_lookup import check_meant, log_of, topic_of
from appliance.bulk._range_reader import RangeReader
from appliance.bulk.bounds import EARLIEST, LATEST, LIMITS, bounds
from appliance.bulk.plan import PlannedPartition, Split, partitions_of, splits_of
from appliance.bulk.sending import Sending
from appliance.catalog import kafka_uuid
from appliance.errors import ApplianceError, RequestInvalid
from appliance.native.same_machine import choose_congestion
from appliance.process import event_log
from appliance.topics.topic import Topic

log = event_log.named("admin")

Result = TypeVar("Result")

PREFIX = "/export/v1"
MEDIA = "application/vnd.appliance.record-batches"

# Per read: a quarter of it costs half as much again.
FRAME_BYTES = 1 << 20
SPLITS_MAX = 100_000  # per plan: each is a line of its response
LENGTH_SIZE = 4


class OffsetsDeleted(Denied):
    """The requested records no longer exist."""

    def __init__(self, text: str) -> None:
        super().__init__(HTTPStatus.GONE, "offset_out_of_range", text)


class Plan(TypedDict):
    topic: str
    topic_id: str
    cluster_id: str
    broker_id: int
    isolation: str
    partitions: list[PlannedPartition]
    splits: list[Split]


# The plan


async def make_plan(call: Call) -> Plan:
    topic, params = topic_meant(call), call.params
    count = len(topic.logs)
    first, last = bounds("from", params["from"], count), bounds("to", params["to"], count)
    prefix = f"{call.broker.node_id}/{topic.name}"

    def plan() -> tuple[list[PlannedPartition], list[Split]]:
        found = partitions_of(topic.log, first, last, LIMITS[params["isolation"]])
        return found, splits_of(topic.log, found, params["splits"], prefix)

    partitions, splits = await call.reading.on_thread(plan)
    return {
        "topic": topic.name,
        "topic_id": kafka_uuid.text_of(topic.id),
        "cluster_id": call.broker.cluster_id,
        "broker_id": call.broker.node_id,
        "isolation": params["isolation"],
        "partitions": partitions,
        "splits": splits,
    }


def topic_meant(call: Call) -> Topic:
    topic = topic_of(call)
    check_meant(topic, call.params["topic_id"])
    return topic


# The batches


async def send_batches(call: Call) -> web.StreamResponse:
    topic_meant(call)
    found = log_of(call)
    start, end = range_asked(call, found)
    reader = RangeReader(found, start, end, LIMITS[call.params["isolation"]])
    kind = call.params["format"]
    call.reading.begin()
    is_complete = False
    try:
        response = web.StreamResponse()
        if kind == "batches":
            response.content_type = MEDIA
            send = partial(
                send_frames, call, reader, response, partial(trailer, call, found, start)
            )
        else:
            decoded = await call.reading.on_thread(
                lambda: Decoded(reader, kind, (found.topic, found.partition), (start, end),
                                aborted_in(call, found, start, end))
            )  # fmt: skip
            response.content_type = FORMATS[kind][0]
            name = f"{found.name}-{start}-{end}.{kind}"
            response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
            send = partial(send_decoded, call, reader, decoded, response)
        with suppress(ConnectionError):  # the client is gone
            await response.prepare(call.request)
            await send()
            await response.write_eof()
            is_complete = True
    finally:
        call.reading.end(is_complete)
    return response


def range_asked(call: Call, found: Log) -> tuple[int, int]:
    start, end = call.params["start"], call.params["end"]
    readable = readable_end(call, found)
    if start is None:
        start = found.log_start_offset
    end = readable if end is None else min(end, readable)
    if start < found.log_start_offset:
        raise OffsetsDeleted(
            f"{found.name}: got start {start}, the log starts at {found.log_start_offset}"
        )
    if start > found.log_end_offset:
        raise RequestInvalid(f"{found.name}: got start {start}, the log ends at "
                             f"{found.log_end_offset}")  # fmt: skip
    return start, max(start, end)


def readable_end(call: Call, found: Log) -> int:
    is_committed = call.params["isolation"] == "read_committed"
    return found.last_stable_offset if is_committed else found.high_watermark


async def send_frames(
    call: Call,
    reader: RangeReader,
    response: web.StreamResponse,
    trailer: Callable[[RangeReader], bytes],
) -> None:
    transport, writer = call.request.transport, call.request.writer
    if transport is None:
        raise ConnectionResetError
    connection = transport.get_extra_info("socket")
    choose_congestion(connection)
    transport.set_write_buffer_limits(0)  # so that drained means sent
    writer.send_headers()
    await writer.drain()
    if transport.is_closing():
        raise ConnectionResetError
    is_chunked = response.headers.get("Transfer-Encoding") == "chunked"
    with closing(Sending(reader, connection.fileno(), FRAME_BYTES, is_chunked)) as sending:
        try:
            while not sending.has_ended:
                await next_piece(call, reader, sending.step)
                if sending.is_blocked:
                    await sending.room()
        except OSError as error:  # of the socket: the client is gone, or does not read
            transport.abort()  # half a frame may be sent
            raise ConnectionResetError from error
    transport.set_write_buffer_limits()
    await response.write(trailer(reader))


async def send_decoded(
    call: Call, reader: RangeReader, decoded: Decoded, response: web.StreamResponse
) -> None:
    while not decoded.has_ended:
        if data := await next_piece(call, reader, decoded.piece):
            await response.write(data)


async def next_piece(call: Call, reader: RangeReader, read: Callable[[], Result]) -> Result:
    """The pieces of the range from `read`, at the pace of all bulk reads."""
    reading, passed, sent = call.reading, reader.passed_bytes, reader.bytes
    try:
        piece = await reading.on_thread(read)
    except ApplianceError as error:
        # an interrupted stream is better than one that looks complete
        log.error("a bulk read was cut off", error=error)
        if call.request.transport is not None:
            call.request.transport.abort()
        raise ConnectionResetError from error
    reading.bytes += reader.bytes - sent
    reading.passed_bytes += reader.passed_bytes - passed
    await reading.pace.took(reader.bytes - sent, reader.is_quiet)
    return piece


def trailer(call: Call, found: Log, start: int, reader: RangeReader) -> bytes:
    facts: dict[str, Any] = {
        "next_offset": reader.next_offset,
        "bytes": reader.bytes,
        "crc32c": f"{reader.crc:08x}",
        "aborted": aborted_in(call, found, start, reader.next_offset),
    }
    if reader.holes:
        facts["holes"] = reader.holes
    text = json.dumps(facts).encode()
    return bytes(LENGTH_SIZE) + len(text).to_bytes(LENGTH_SIZE, "big") + text


def aborted_in(call: Call, found: Log, start: int, end: int) -> list[tuple[int, int]]:
    """Producer and first offset of each aborted transaction."""
    if call.params["isolation"] != "read_committed":
        return []
    return [(producer, first) for producer, first, _ in found.aborted_transactions(start, end)]


ISOLATION = Param(
    "isolation",
    str,
    "read_committed ends at the last stable offset, read_uncommitted at the high watermark.",
    "read_committed",
    choices=tuple(LIMITS),
)

MEANT = Param(
    "topic_id",
    str,
    "Expected id of the topic: 409 if the topic has another id.",
)

ROUTES = [
    get(
        "/topics/{topic}/plan",
        make_plan,
        Plan,
        "Closed ranges of offsets, divided into splits of about equal size.",
        prefix=PREFIX,
        params=(
            Param(
                "from",
                str,
                "earliest, latest, a number, @MS, @TIME, or a map of these by partition.",
                EARLIEST,
            ),
            Param("to", str, "The same for the end.", LATEST),
            Param(
                "splits",
                int,
                "Approximate number; 0: one per partition.",
                0,
                minimum=0,
                maximum=SPLITS_MAX,
            ),
            ISOLATION,
            MEANT,
        ),
    ),
    get(
        "/topics/{topic}/partitions/{partition}/batches",
        send_batches,
        None,
        "The record batches of a range as they are stored, in frames, with a trailer.",
        prefix=PREFIX,
        reads_messages=True,
        params=(
            Param("start", int, "The first offset; the log's first by default.", minimum=0),
            Param(
                "end",
                int,
                "The offset after the last; default: the present end for readers.",
                minimum=0,
            ),
            ISOLATION,
            MEANT,
            Param(
                "format",
                str,
                "Format of the response: batches, or decoded records.",
                "batches",
                choices=("batches", *FORMATS),
            ),
        ),
        media=MEDIA,
    ),
]
