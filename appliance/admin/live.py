"""What goes through the broker, as it goes on: `GET /api/v1/live`, for the plots of the console.

Server-sent events, one stream for a page, a sample a second. There is no queue for a page: it is
sent what the ring of samples has since the last one that it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from aiohttp import web

from appliance.admin.process import Process
from appliance.admin.route import Call, get
from appliance.admin.traffic import Sample, Traffic

TRAFFIC: web.AppKey[Traffic] = web.AppKey("traffic")
ENDING: web.AppKey[asyncio.Event] = web.AppKey("ending")
HEARTBEAT_S = 15.0  # without one, proxies and browsers think that nobody is there
EVENTS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


def add_to(app: web.Application, process: Process) -> None:
    app[TRAFFIC] = Traffic(process)
    app[ENDING] = asyncio.Event()
    app.cleanup_ctx.append(_taking)
    app.on_shutdown.append(_end)


async def _taking(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(app[TRAFFIC].run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _end(app: web.Application) -> None:
    """Streams have no end of their own, and a stop should not wait for them."""
    app[ENDING].set()


async def get_live(call: Call) -> web.StreamResponse:
    traffic, ending = call.request.app[TRAFFIC], call.request.app[ENDING]
    answer = web.StreamResponse(headers=EVENTS)
    await answer.prepare(call.request)
    with contextlib.suppress(ConnectionResetError):  # the page was closed
        seen = 0
        while not ending.is_set():
            samples = traffic.since(seen)
            await answer.write(_event(samples, seen) if samples else b": nothing new\n\n")
            seen = samples[-1].number if samples else seen
            await traffic.grown(HEARTBEAT_S)
    return answer


def _event(samples: list[Sample], seen: int) -> bytes:
    skipped = samples[0].number - seen - 1 if seen else 0
    told = {"skipped": skipped, "samples": [each.as_json() for each in samples]}
    return b"data: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"


ROUTES = [
    get(
        "/live",
        get_live,
        None,
        "Traffic of the last ten minutes, then a sample a second, as server-sent events.",
        media="text/event-stream",
    ),
]
