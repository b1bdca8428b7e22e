"""Health and the admin API over HTTP. It asks `Source` for snapshots and never touches a log.

Every answer is JSON. An error is {"error": {"code": ..., "message": ...}} with a fitting status.
Routes are described in docs/admin-api.md; a test holds the two together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import web

from appliance import event_log
from appliance.admin.process import Process
from appliance.config import Address

log = event_log.named("admin")

STOP_SECONDS = 2.0  # what a request in flight gets to end when the broker stops


class Source(Process, Protocol):
    """What the pages may ask. `logs` runs on a thread of its own."""

    def logs(self) -> list[dict[str, Any]]: ...


SOURCE: web.AppKey[Source] = web.AppKey("source")
METRICS: web.AppKey[list[Any]] = web.AppKey("metrics")  # its writer, once it was asked for


async def get_livez(_: web.Request) -> web.Response:
    return web.json_response({"status": "alive"})


async def get_healthz(request: web.Request) -> web.Response:
    health = request.app[SOURCE].health()
    body = {"status": health.status, "reasons": health.reasons, **health.facts}
    return web.json_response(body, status=200 if health.status == "ok" else 503)


async def get_logs(request: web.Request) -> web.Response:
    return web.json_response({"logs": await asyncio.to_thread(request.app[SOURCE].logs)})


async def get_metrics(request: web.Request) -> web.Response:
    # only now: few brokers are asked at once, and the library takes a start 40 ms
    from appliance.admin import metrics

    writers = request.app[METRICS]
    if not writers:
        writers.append(metrics.Metrics(request.app[SOURCE]))
    page = await writers[0].page()
    return web.Response(body=page, headers={"Content-Type": metrics.CONTENT_TYPE})


ROUTES = [
    web.get("/livez", get_livez),
    web.get("/healthz", get_healthz),
    web.get("/metrics", get_metrics),
    web.get("/api/v1/logs", get_logs),
]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        allow = {name: text for name, text in error.headers.items() if name == "Allow"}
        return error_response(request, error.status, error.reason, allow)
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return error_response(request, 500, "Internal Server Error", {})


def error_response(
    request: web.Request, status: int, reason: str, headers: dict[str, str]
) -> web.Response:
    code = reason.lower().replace(" ", "_")
    body = {"error": {"code": code, "message": f"{request.method} {request.path}: {reason}"}}
    return web.json_response(body, status=status, headers=headers)


def make_app(source: Source) -> web.Application:
    app = web.Application(middlewares=[errors_as_json])
    app[SOURCE] = source
    app[METRICS] = []
    app.add_routes(ROUTES)
    return app


async def start(source: Source, address: Address) -> tuple[web.AppRunner, Address]:
    """Listens; also says where, since port 0 is the kernel's choice."""
    runner = web.AppRunner(make_app(source), shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError:
        await runner.cleanup()
        raise
    host, port = runner.addresses[0][:2]
    return runner, Address(host, port)
