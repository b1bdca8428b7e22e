"""The admin pages over HTTP: health for machines, metrics, and the REST API of `admin/api.py`.

An error is {"error": {"code": ..., "message": ...}} with a fitting status, whoever finds it. Routes
are described in docs/admin-api.md; a test holds the two together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web, web_app

from appliance.admin import access_page, api, audit, history, live, mirrors, topic_schemas
from appliance.admin.admission import Connections, within_descriptors
from appliance.admin.broker_process import Process
from appliance.admin.bulk_tickets import Tickets
from appliance.admin.connection_timeouts import Site, bounded
from appliance.admin.console import Console
from appliance.admin.guard import Denied, Guard
from appliance.admin.partition_snapshot import Survey
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import BODY_BYTES_MAX, AdminServices, get
from appliance.bulk.reader_threads import Reading
from appliance.config import Address
from appliance.errors import ApplianceError, Refused
from appliance.process import event_log

log = event_log.named("admin")

STOP_SECONDS = 2.0  # what a request in flight gets to end when the broker stops


PROCESS: web.AppKey[Process] = web.AppKey("process")
GUARD: web.AppKey[Guard] = web.AppKey("guard")
SERVICES: web.AppKey[AdminServices] = web.AppKey("services")
CONNECTIONS: web.AppKey[Connections] = web.AppKey("connections")
METRICS: web.AppKey[list[Any]] = web.AppKey("metrics")  # its writer, once it was asked for


async def get_livez(_: web.Request) -> web.Response:
    return web.json_response({"status": "alive"})


HEALTH_ROUTE = get(
    "/healthz",
    lambda _: None,
    None,
    "Health, with its reasons.",
    prefix="",
    rights=(DESCRIBE_CLUSTER,),
)


async def get_healthz(request: web.Request) -> web.Response:
    """Answers everybody, as load balancers have no login. Reasons may name topics, files and what
    was in records: they are for who is let in, and others get their areas."""
    health = request.app[PROCESS].health()
    try:
        request.app[GUARD].check(request, HEALTH_ROUTE)
        body = {"status": health.status, "reasons": health.reasons, **health.facts}
    except (Denied, Refused):
        body = {"status": health.status, "reasons": health.areas, **health.public_facts}
    return web.json_response(body, status=200 if health.is_serving else 503)


METRICS_ROUTE = get(
    "/metrics",
    lambda _: None,
    None,
    "Metrics for Prometheus.",
    prefix="",
    rights=(DESCRIBE_CLUSTER,),
)


async def get_metrics(request: web.Request) -> web.Response:
    # only now: few brokers are asked at once, and the library takes a start 40 ms
    from appliance.admin import metrics

    request.app[GUARD].check(request, METRICS_ROUTE)
    writers = request.app[METRICS]
    if not writers:
        writers.append(metrics.Metrics(request.app[PROCESS], request.app[SERVICES].reading))
    page = await writers[0].page()
    return web.Response(body=page, headers={"Content-Type": metrics.CONTENT_TYPE})


ROUTES = [
    web.get("/livez", get_livez),
    web.get("/healthz", get_healthz),
    web.get("/metrics", get_metrics),
]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        allow = {name: text for name, text in error.headers.items() if name == "Allow"}
        return error_response(request, error.status, error.reason, allow)
    except ApplianceError as refused:
        return api.refusal(refused)
    except ConnectionError:
        return error_response(request, 400, "Client Gone", {})  # nobody reads it
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return error_response(request, 500, "Internal Server Error", {})


def error_response(
    request: web.Request, status: int, reason: str, headers: dict[str, str]
) -> web.Response:
    code = reason.lower().replace(" ", "_")
    answer = api.error(status, code, f"{request.method} {request.path}: {reason}")
    answer.headers.update(headers)
    return answer


async def say_how_to_take_it(request: web.Request, response: web.StreamResponse) -> None:
    for name, text in api.ANSWER_HEADERS.items():
        response.headers.setdefault(name, text)
    response.headers["Server"] = api.ANSWER_HEADERS["Server"]  # aiohttp names itself
    if request.secure:  # without TLS browsers do not believe it
        seconds = request.app[PROCESS].config.admin.hsts_seconds
        response.headers["Strict-Transport-Security"] = f"max-age={seconds}"


def make_app(process: Process) -> web.Application:
    app = web.Application(middlewares=[bounded, errors_as_json], client_max_size=BODY_BYTES_MAX)
    app.on_response_prepare.append(say_how_to_take_it)
    app[PROCESS] = process
    app[GUARD] = Guard(process)
    app[METRICS] = []
    app.add_routes(ROUTES)
    survey = Survey(process)
    live.add_to(app, process, survey)
    history.add_to(app, process, survey)
    reading = Reading(process.config.export)
    app.on_cleanup.append(lambda _: asyncio.to_thread(reading.close))
    schemas = topic_schemas.Schemas(process.config.schema_registry)
    app.on_cleanup.append(lambda _: schemas.close())
    kept = audit.Trail(lambda: process.broker), schemas, mirrors.Mirrors()
    app.on_cleanup.append(forget_handlers)
    app[SERVICES] = services = AdminServices(process, survey, app[GUARD], *kept, reading, Tickets())
    app.add_routes(api.web_routes(services))
    app.add_routes(Console().routes())
    return app


async def forget_handlers(_: web.Application) -> None:
    """aiohttp keeps the handlers of 1,024 routes for the life of the process, and each keeps its
    application, with the whole broker behind it: a process that had many ran out of descriptors."""
    web_app._cached_build_middleware.cache_clear()


async def stop_connections(app: web.Application) -> None:
    app[CONNECTIONS].stop()


def access_table() -> str:
    """docs/access.md's; a test compares the two, and asks for each of it."""
    unguarded = ["GET /livez", "GET /healthz", "GET /", "GET /assets/..."]
    return access_page.as_markdown(unguarded, [METRICS_ROUTE, *api.ROUTES])


async def move(runner: web.AppRunner, address: Address) -> None:
    """Listens there and nowhere else; requests under way go on."""
    for site in list(runner.sites):
        await site.stop()
    await site_at(runner, address).start()


def site_at(runner: web.AppRunner, address: Address) -> Site:
    process = runner.app[PROCESS]
    https = process.https if process.config.admin_has_tls else None
    return Site(runner, runner.app[CONNECTIONS], address, https)


async def start(process: Process, address: Address) -> tuple[web.AppRunner, Address]:
    """Listens; also says where, since port 0 is the kernel's choice."""
    app, config = make_app(process), process.config
    most = within_descriptors(config.admin, config.network.max_connections)
    app[CONNECTIONS] = Connections("admin", config.admin, most)
    app.on_cleanup.append(stop_connections)
    runner = web.AppRunner(app, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await site_at(runner, address).start()
    except OSError:
        await runner.cleanup()
        raise
    host, port = runner.addresses[0][:2]
    return runner, Address(host, port)


def ruled_table() -> str:
    """The second one."""
    return access_page.ruled_as_markdown([METRICS_ROUTE, *api.ROUTES])


if __name__ == "__main__":
    print(access_table(), end="\n")
    print(ruled_table(), end="")
