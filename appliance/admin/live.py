"""What changes by itself, as one stream for a page: `GET /api/v1/live`, server-sent events.

    traffic   {"samples": [...]}   the last ten minutes at first, then a sample a second
    health    what /health answers, every other second
    skipped   {"events": N}        so many were left out: the page was too slow to take them

An event is worked out and written as JSON once, however many pages are open, and only while one is.
A page has a queue of its own; when that is full the oldest event goes, and is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiohttp import web

from appliance.admin.broker_process import Process
from appliance.admin.health import health_of
from appliance.admin.partition_snapshot import Survey
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import Call, get
from appliance.admin.traffic_history import INTERVAL_S, Sample, Traffic
from appliance.process import event_log

log = event_log.named("admin")

FEED: web.AppKey[Feed] = web.AppKey("feed")
HEALTH_EVERY = 2  # samples of traffic
QUEUE_EVENTS_MAX = 60  # of one page: half a minute behind, and what it shows is no news any more
HEARTBEAT_S = 15.0  # without one, proxies and browsers think that nobody is there
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


def event(name: str, told: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(told, separators=(',', ':'))}\n\n".encode()


def traffic_event(samples: Iterable[Sample]) -> bytes:
    return event("traffic", {"samples": [each.as_json() for each in samples]})


class Listener:
    """One page."""

    def __init__(self) -> None:
        self._events: deque[bytes] = deque()
        self._skipped = 0
        self._told = asyncio.Event()

    def tell(self, told: bytes) -> None:
        if len(self._events) == QUEUE_EVENTS_MAX:
            self._events.popleft()
            self._skipped += 1
        self._events.append(told)
        self._told.set()

    async def news(self) -> bytes:
        """What it was told since; a comment, when that was nothing for a while."""
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._told.wait(), HEARTBEAT_S)
        self._told.clear()
        found = b"".join(self._events) or b": nothing new\n\n"
        if self._skipped:
            found = event("skipped", {"events": self._skipped}) + found
        self._events.clear()
        self._skipped = 0
        return found


class Feed:
    def __init__(self, process: Process, survey: Survey) -> None:
        self._process, self._survey = process, survey
        self._listeners: set[Listener] = set()
        self.traffic = Traffic(process)
        self.is_ending = False

    async def run(self) -> None:
        while True:
            sample = self.traffic.take()
            if self._listeners:
                try:
                    await self._tell(sample)
                except Exception:
                    log.exception("open pages could not be told what is new")
            await asyncio.sleep(INTERVAL_S)

    async def _tell(self, sample: Sample | None) -> None:
        if sample is not None:
            self._tell_all(traffic_event([sample]))
        if sample is None or sample.number % HEALTH_EVERY == 0:
            self._tell_all(event("health", await health_of(self._process, self._survey)))

    def _tell_all(self, told: bytes) -> None:
        for each in self._listeners:
            each.tell(told)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        """What there is already is told first."""
        listener = Listener()
        first = event("health", await health_of(self._process, self._survey))
        listener.tell(traffic_event(self.traffic.samples))
        listener.tell(first)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def end(self, _: web.Application) -> None:
        """Streams have no end of their own, and a stop should not wait for them."""
        self.is_ending = True
        self._tell_all(b": the broker stops\n\n")


def add_to(app: web.Application, process: Process, survey: Survey) -> None:
    feed = app[FEED] = Feed(process, survey)
    app.cleanup_ctx.append(_feeding)
    app.on_shutdown.append(feed.end)


async def _feeding(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(app[FEED].run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def get_live(call: Call) -> web.StreamResponse:
    """It ends with the session: who may look may have changed since the stream began."""
    feed, answer = call.request.app[FEED], web.StreamResponse(headers=HEADERS)
    await answer.prepare(call.request)
    with contextlib.suppress(ConnectionResetError):  # the page was closed
        async with feed.listening() as listener:
            while not feed.is_ending and call.may_go_on():
                await answer.write(await listener.news())
    return answer


ROUTES = [
    get(
        "/live",
        get_live,
        None,
        "Traffic and health as they change, as server-sent events.",
        media="text/event-stream",
        rights=(DESCRIBE_CLUSTER,),
    ),
]
