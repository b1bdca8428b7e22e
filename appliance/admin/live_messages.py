"""New messages of a topic as they come, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

from aiohttp import web

from appliance._log import Log
from appliance.admin import message_filter
from appliance.admin.decoding import Decoders
from appliance.admin.message_filter import Filter
from appliance.admin.message_ranges import Range
from appliance.admin.message_scan import ScannedRecord, looked
from appliance.admin.rights import READ_TOPIC
from appliance.admin.route import Call, get
from appliance.admin.shown_message import AS, FULL, shown
from appliance.admin.topic_lookup import topic_of
from appliance.admin.topic_schemas import decoders_of
from appliance.catalog import kafka_uuid
from appliance.topics.known_end import is_watermark_stale
from appliance.topics.topic import Topic

NOT_SERVED = -1  # the end of a partition that is not open
LIVE_PAUSE_SECONDS = 0.2  # between two looks at the ends of the logs
LIVE_MESSAGES_MAX = 300  # in one of them: 1,000 a second; the rest is left out, and counted
LIVE_BEAT_SECONDS = 15.0  # a line that keeps the connection open, through proxies too


async def follow(call: Call) -> web.StreamResponse:
    """Server-sent events: `message` with a message, `skipped` with how many were left out,
    `elsewhere` with the partitions that other brokers alone have, when these change, and `deleted`
    when the topic is: one that is made anew is followed by a stream of its own."""
    topic = topic_of(call)
    wanted = message_filter.parse(call.params["filter"])
    response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
    response.content_type = "text/event-stream"
    await response.prepare(call.request)
    with suppress(ConnectionResetError):  # who listened is gone
        await send_news(call, topic, wanted, response)
    return response


async def send_news(call: Call, topic: Topic, wanted: Filter, response: web.StreamResponse) -> None:
    ends = {number: end_of(log) for number, log in enumerate(topic.logs)}
    await response.write(b": following\n\n")
    quiet_since = time.monotonic()
    away: list[int] = []
    while call.process.status == "ok" and call.may_go_on():
        await asyncio.sleep(LIVE_PAUSE_SECONDS)
        if call.broker.topics.of_id(topic.id) is None:
            await response.write(event("deleted", {"topic_id": kafka_uuid.text_of(topic.id)}))
            return
        if (now_away := call.broker.leaders.elsewhere(topic, range(len(topic.logs)))) != away:
            away = now_away
            await response.write(elsewhere(call, topic, away))
        ranges = news(topic, ends)
        if not ranges:
            if time.monotonic() - quiet_since >= LIVE_BEAT_SECONDS:
                await response.write(b": still here\n\n")
                quiet_since = time.monotonic()
            continue
        seen = await looked(call, topic, ranges, wanted, LIVE_MESSAGES_MAX, False)
        left = sum(each.end - each.first for each in seen.left)
        # anew each time: schemas may have been changed, and the used time counts by page
        decoders = await decoders_of(call, topic, [each.record for each in seen.found])
        events = await asyncio.to_thread(events_of, seen.found, decoders, call.params["full"])
        if left:
            events.append(event("skipped", {"offsets": left}))
        await response.write(b"".join(events))
        quiet_since = time.monotonic()


def elsewhere(call: Call, topic: Topic, numbers: list[int]) -> bytes:
    where = call.broker.leaders.where
    rows = [{"partition": each, "where": where(topic, each)} for each in numbers]
    return event("elsewhere", {"partitions": rows})


def events_of(found: list[ScannedRecord], decoders: Decoders, is_full: bool) -> list[bytes]:
    return [event("message", shown(each, is_full, decoders)) for each in found]


def end_of(log: Log | None) -> int:
    return NOT_SERVED if log is None or is_watermark_stale(log) else log.last_stable_offset


def news(topic: Topic, ends: dict[int, int]) -> list[Range]:
    """What came since; `ends` is moved. Of a log whose end is not known yet it is told then."""
    found = []
    for number, log in enumerate(topic.logs):
        if log is not None and is_watermark_stale(log):
            continue
        before, end = ends.get(number, 0), end_of(log)
        if end > before != NOT_SERVED:
            found.append(Range(number, before, end))
        ends[number] = end
    return found


def event(name: str, body: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(body)}\n\n".encode()


ROUTES = [
    get(
        "/topics/{topic}/messages/live",
        follow,
        None,
        "New messages as they come, as server-sent events.",
        params=(message_filter.FILTER, FULL, *AS),
        media="text/event-stream",
        reads_messages=True,
        rights=(READ_TOPIC,),
    ),
]
