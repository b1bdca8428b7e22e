"""Bulk export over HTTP: a plan of splits, and the record batches of a range as they are stored.

A stream of batches is frames, each `length u32, big-endian | so many bytes of whole batches`. The
first batch may begin before `start`, the last may pass `end`: the reader cuts. A length of 0 ends
it; behind it stands, with a length of its own, a trailer in JSON. A stream without one was cut off:
go on behind the last whole batch.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, TypedDict

from aiohttp import web

from appliance import event_log, kafka_uuid
from appliance._engine import Log
from appliance._export import Frame, RangeReader
from appliance.admin.guard import Denied
from appliance.admin.route import Call, Param, get
from appliance.admin.topics import log_of, topic_of
from appliance.errors import ApplianceError, RequestInvalid
from appliance.export.bounds import EARLIEST, LATEST, LIMITS, bounds
from appliance.export.plan import PlannedPartition, Split, partitions_of, splits_of
from appliance.export.reading import Reading

log = event_log.named("admin")

PREFIX = "/export/v1"
MEDIA = "application/vnd.appliance.record-batches"

# Of one read: so large that the event loop has little to do with a gigabyte, and a step of its own
# (which copies a frame into a socket) stays below a millisecond.
FRAME_BYTES = 1 << 20
SPLITS_MAX = 100_000  # of one plan: each is a line of its answer
LENGTH_SIZE = 4


class OffsetsDeleted(Denied):
    """What was asked for is no longer there."""

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
    topic, params = topic_of(call), call.params
    count = len(topic.logs)
    first, last = bounds("from", params["from"], count), bounds("to", params["to"], count)
    prefix = f"{call.broker.node_id}/{topic.name}"

    def plan() -> tuple[list[PlannedPartition], list[Split]]:
        found = partitions_of(topic.logs, first, last, LIMITS[params["isolation"]])
        return found, splits_of(topic.logs, found, params["splits"], prefix)

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


# The batches


async def send_batches(call: Call) -> web.StreamResponse:
    found = log_of(call)
    start, end = range_asked(call, found)
    reader = RangeReader(found, start, end, LIMITS[call.params["isolation"]])
    call.reading.begin()
    is_complete = False
    try:
        response = web.StreamResponse()
        response.content_type = MEDIA
        await response.prepare(call.request)
        with suppress(ConnectionResetError):  # who wanted it is gone
            await send_frames(call, reader, response)
            await response.write(trailer(call, found, start, reader))
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


async def send_frames(call: Call, reader: RangeReader, response: web.StreamResponse) -> None:
    """The next one is read while one is on its way."""
    reading = call.reading
    frame = await next_frame(call, reader, reading)
    while len(frame):
        ahead = asyncio.ensure_future(next_frame(call, reader, reading))
        try:
            await response.write(frame.whole)
        except BaseException:
            ahead.cancel()
            raise
        frame = await ahead


async def next_frame(call: Call, reader: RangeReader, reading: Reading) -> Frame:
    passed = reader.passed_bytes
    try:
        frame = await reading.on_thread(partial(reader.read, FRAME_BYTES))
    except ApplianceError as error:
        # a stream that breaks off is better than one that looks whole
        log.error("an export was cut off", error=error)
        if call.request.transport is not None:
            call.request.transport.abort()
        raise ConnectionResetError from error
    reading.bytes += len(frame)
    reading.passed_bytes += reader.passed_bytes - passed
    await reading.pace.took(len(frame))
    return frame


def trailer(call: Call, found: Log, start: int, reader: RangeReader) -> bytes:
    facts: dict[str, Any] = {
        "next_offset": reader.next_offset,
        "bytes": reader.bytes,
        "crc32c": f"{reader.crc:08x}",
        "aborted": [],
    }
    if call.params["isolation"] == "read_committed":
        aborted = found.aborted_transactions(start, reader.next_offset)
        facts["aborted"] = [[producer, first] for producer, first, _ in aborted]
    if reader.holes:
        facts["holes"] = reader.holes
    text = json.dumps(facts).encode()
    return bytes(LENGTH_SIZE) + len(text).to_bytes(LENGTH_SIZE, "big") + text


ISOLATION = Param(
    "isolation",
    str,
    "read_committed ends at the last stable offset, read_uncommitted at the high watermark.",
    "read_committed",
    choices=tuple(LIMITS),
)

ROUTES = [
    get(
        "/topics/{topic}/plan",
        make_plan,
        Plan,
        "Closed ranges of offsets, cut into splits of about as many bytes each.",
        prefix=PREFIX,
        params=(
            Param(
                "from",
                str,
                "earliest, latest, a number, @MS, @TIME, or a map of these by partition.",
                EARLIEST,
            ),
            Param("to", str, "The same, of the end.", LATEST),
            Param(
                "splits",
                int,
                "About how many; 0: one for each partition.",
                0,
                minimum=0,
                maximum=SPLITS_MAX,
            ),
            ISOLATION,
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
                "The offset behind the last; what can be read now by default.",
                minimum=0,
            ),
            ISOLATION,
        ),
        media=MEDIA,
    ),
]
