"""Batches of a range: as they are stored, in frames, or decoded.

A stream of batches is frames, each `length u32, big-endian | so many bytes of whole batches`. The
first batch may begin before `start`, the last may pass `end`: the reader cuts. A length of 0 ends
it; behind it stands, with a length of its own, a trailer in JSON. A stream without one was cut off:
go on behind the last whole batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from appliance._log import Log
from appliance.admin.bulk_read import BATCHES_MEDIA
from appliance.admin.guard import Denied
from appliance.admin.route import Call
from appliance.admin.topic_lookup import check_meant, check_partition, topic_of
from appliance.bulk._range_reader import RangeReader
from appliance.bulk.bounds import LIMITS
from appliance.bulk.line import Buffer
from appliance.bulk.sending import Body
from appliance.bulk_http.formats import FORMATS, Decoded
from appliance.errors import RequestInvalid

# Of one read: a quarter of it costs half as much again.
FRAME_BYTES = 1 << 20
# Handing over to a thread and back is 0.1 ms.
STEP_BYTES = 4 << 20
# A piece is up to a tenth of a second of work, and others wait for the thread.
DECODED_STEP_BYTES = 1
LENGTH_SIZE = 4


class OffsetsDeleted(Denied):
    """What was asked for is no longer there."""

    def __init__(self, text: str) -> None:
        super().__init__(HTTPStatus.GONE, "offset_out_of_range", text)


async def body_of(call: Call) -> Body:
    check_meant(topic_of(call), call.params["topic_id"])
    found = await log_asked(call)
    start, end = range_asked(call, found)
    reader = RangeReader(found, start, end, LIMITS[call.params["isolation"]])
    kind = call.params["format"]
    if kind == "batches":
        return Body(BATCHES_MEDIA, reader, framed(call, found, start, reader), STEP_BYTES)
    aborted = aborted_in(call, found, start, end)
    place = found.topic, found.partition
    decoded = await call.reading.on_thread(
        lambda: Decoded(reader, kind, place, (start, end), aborted)
    )
    named = f'attachment; filename="{found.name}-{start}-{end}.{kind}"'
    headers = (("Content-Disposition", named),)
    return Body(FORMATS[kind][0], reader, decoded.piece, DECODED_STEP_BYTES, headers)


async def log_asked(call: Call) -> Log:
    """Without an end what is read is to be all that counts. With one a plan has said so, and the
    trailer tells if it is not here."""
    topic = topic_of(call)
    number = check_partition(topic, call.path["partition"])
    is_open = call.params["end"] is None
    if is_open or call.broker.leaders.elsewhere(topic, [number]):
        return (await call.broker.leaders.readable(topic, [number]))[0]
    return topic.log(number)


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


def framed(
    call: Call, found: Log, start: int, reader: RangeReader
) -> Callable[[], Buffer | None]:
    """Frames, one after the other, and at last the trailer."""
    is_over = False

    def piece() -> Buffer | None:
        nonlocal is_over
        if is_over:
            return None
        frame = reader.read(FRAME_BYTES)
        is_over = not len(frame)
        return trailer(call, found, start, reader) if is_over else frame.whole

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
    """Producer and first offset of each."""
    if call.params["isolation"] != "read_committed":
        return []
    return [(producer, first) for producer, first, _ in found.aborted_transactions(start, end)]
