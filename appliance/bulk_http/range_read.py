"""Batches of a range: as they are stored, in frames, or decoded.

A stream of batches is frames, each `length u32, big-endian | so many bytes of whole batches`. The
first batch may begin before `start`, the last may pass `end`: the reader cuts. A length of 0 ends
it; behind it stands, with a length of its own, a trailer in JSON. A stream without one was cut off:
go on behind the last whole batch.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from appliance._log import Log
from appliance.admin.bulk_read import BATCHES_MEDIA
from appliance.admin.guard import Denied
from appliance.admin.route import Call
from appliance.admin.topic_lookup import check_meant, check_partition, topic_of
from appliance.broker.partition_leaders import COMMITTED, EARLIEST, LATEST, LED, UNCOMMITTED
from appliance.bulk._range_reader import Frame, RangeReader
from appliance.bulk.bounds import LIMITS
from appliance.bulk.line import Buffer
from appliance.bulk.sending import Body, Reader
from appliance.bulk_http.formats import FORMATS, Decoded
from appliance.bulk_http.leader_range import LeaderFrame, LeaderRange
from appliance.errors import RequestInvalid
from appliance.topics.known_end import is_new_leader
from appliance.topics.topic import Topic

# Of one read: a quarter of it costs half as much again.
FRAME_BYTES = 1 << 20
# Handing over to a thread and back is 0.1 ms.
STEP_BYTES = 4 << 20
# A piece is up to a tenth of a second of work, and others wait for the thread: each is a step.
DECODED_STEP_BYTES = 0
LENGTH_SIZE = 4


class OffsetsDeleted(Denied):
    """What was asked for is no longer there."""

    def __init__(self, text: str) -> None:
        super().__init__(HTTPStatus.GONE, "offset_out_of_range", text)


async def body_of(call: Call) -> Body:
    topic = topic_of(call)
    check_meant(topic, call.params["topic_id"])
    number, kind = check_partition(topic, call.path["partition"]), call.params["format"]
    if kind == "batches" and await is_read_at_leader(call, topic, number):
        return await body_at_leader(call, topic, number)
    found = await log_of(call, topic, number, kind)
    start, end = range_asked(call, found)
    reader = RangeReader(found, start, end, LIMITS[call.params["isolation"]])
    if kind == "batches":
        pieces = framed(reader, lambda: aborted_in(call, found, start, reader.next_offset))
        return Body(BATCHES_MEDIA, reader, pieces, STEP_BYTES)
    aborted = aborted_in(call, found, start, end)
    place = found.topic, found.partition
    decoded = await call.reading.on_thread(
        lambda: Decoded(reader, kind, place, (start, end), aborted)
    )
    named = f'attachment; filename="{found.name}-{start}-{end}.{kind}"'
    headers = (("Content-Disposition", named),)
    return Body(FORMATS[kind][0], reader, decoded.piece, DECODED_STEP_BYTES, headers)


async def log_of(call: Call, topic: Topic, number: int, kind: str) -> Log:
    """A range with an end is there, as far as it counts; a new leader waits until it knows that."""
    if kind == "batches" and call.params["end"] is not None:
        found = topic.log(number)
        if not is_new_leader(found):
            return found
    (found,) = await call.broker.leaders.readable(topic, [number])
    return found


# Of partitions that others lead


async def is_read_at_leader(call: Call, topic: Topic, number: int) -> bool:
    """It is not here, or not as far as it is asked for."""
    leaders, end = call.broker.leaders, call.params["end"]
    if leaders.elsewhere(topic, [number]):
        return True
    log = topic.log(number)
    if log.role in LED:
        return False
    if end is not None and end <= readable_end(call, log):
        return False
    _, away = await leaders.shown_of([(topic, number)])
    return bool(away)


async def body_at_leader(call: Call, topic: Topic, number: int) -> Body:
    leaders, start, end = call.broker.leaders, call.params["start"], call.params["end"]
    is_committed = call.params["isolation"] == "read_committed"
    isolation = COMMITTED if is_committed else UNCOMMITTED
    log_start = (await leaders.offsets(topic, {number: EARLIEST}))[number]
    readable = (await leaders.offsets(topic, {number: LATEST}, isolation))[number]
    start = log_start if start is None else start
    check_start(f"{topic.name}-{number}", start, log_start, max(readable, log_start))
    end = max(start, readable if end is None else min(end, readable))
    loop = asyncio.get_running_loop()
    reader = LeaderRange(leaders, loop, topic, number, start, end, is_committed)
    pieces = framed(reader, lambda: [*reader.aborted] if is_committed else [])
    return Body(BATCHES_MEDIA, reader, pieces, STEP_BYTES)


# Ranges


def range_asked(call: Call, found: Log) -> tuple[int, int]:
    start, end = call.params["start"], call.params["end"]
    readable = readable_end(call, found)
    if start is None:
        start = found.log_start_offset
    end = readable if end is None else min(end, readable)
    check_start(found.name, start, found.log_start_offset, found.log_end_offset)
    return start, max(start, end)


def check_again(reader: Reader) -> None:
    """Retention may overtake who reads: asked now, the rest of the range has this answer."""
    if isinstance(reader, RangeReader):
        log = reader.log
        check_start(log.name, reader.next_offset, log.log_start_offset, log.log_end_offset)


def check_start(name: str, start: int, log_start: int, log_end: int) -> None:
    if start < log_start:
        raise OffsetsDeleted(f"{name}: got start {start}, the log starts at {log_start}")
    if start > log_end:
        raise RequestInvalid(f"{name}: got start {start}, the log ends at {log_end}")


def readable_end(call: Call, found: Log) -> int:
    is_committed = call.params["isolation"] == "read_committed"
    return found.last_stable_offset if is_committed else found.high_watermark


class Frames(Protocol):
    def read(self, max_bytes: int) -> Frame | LeaderFrame: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def holes(self) -> Sequence[tuple[int, int]]: ...


Aborted = Callable[[], list[tuple[int, int]]]  # asked behind the last frame


def framed(reader: Frames, aborted: Aborted) -> Callable[[], Buffer | None]:
    """Frames, one after the other, and at last the trailer."""
    is_over = False

    def piece() -> Buffer | None:
        nonlocal is_over
        if is_over:
            return None
        frame = reader.read(FRAME_BYTES)
        is_over = not len(frame)
        return trailer(reader, aborted()) if is_over else frame.whole

    return piece


def trailer(reader: Frames, aborted: list[tuple[int, int]]) -> bytes:
    facts: dict[str, Any] = {
        "next_offset": reader.next_offset,
        "bytes": reader.bytes,
        "crc32c": f"{reader.crc:08x}",
        "aborted": aborted,
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
