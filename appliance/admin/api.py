"""The REST API: its table of routes, its one error shape, and how the routes are served.

An error is {"error": {"code": ..., "message": ...}}. The code of a refusal is Kafka's name for it;
the message has the received and the allowed values.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable
from http import HTTPStatus
from typing import Any

from aiohttp import web

from appliance.admin import (
    acl_decisions,
    acls,
    alerts,
    audit,
    backup,
    bulk_read,
    bundle,
    client_connections,
    clock,
    cluster,
    config_rows,
    doctor,
    download,
    export_holds,
    export_letters,
    export_schedules,
    exports,
    groups,
    health,
    history,
    live,
    live_messages,
    log_dirs,
    log_lines,
    login,
    loss_ledger,
    message_ranges,
    message_replay,
    messages,
    mirrors,
    oidc,
    openapi,
    partition_logs,
    produce,
    quotas,
    repair,
    replicas,
    scrub,
    segments,
    settings,
    several_topics,
    topic_consumers,
    topic_producers,
    topic_schemas,
    topics,
)
from appliance.admin.guard import Denied
from appliance.admin.route import ANYONE, AdminServices, Call, Route, get
from appliance.admin.shared_responses import Shared
from appliance.admin.stream_limit import StreamsTooMany
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode

# The status of a refusal, by its Kafka code; others are the client's error (400).
STATUS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.LOG_DIR_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.NON_EMPTY_GROUP: HTTPStatus.CONFLICT,
    ErrorCode.DUPLICATE_RESOURCE: HTTPStatus.CONFLICT,
    ErrorCode.MESSAGE_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.TOPIC_DELETION_DISABLED: HTTPStatus.FORBIDDEN,
    ErrorCode.POLICY_VIOLATION: HTTPStatus.FORBIDDEN,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: HTTPStatus.TOO_MANY_REQUESTS,
    ErrorCode.REQUEST_TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NOT_COORDINATOR: HTTPStatus.MISDIRECTED_REQUEST,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: HTTPStatus.MISDIRECTED_REQUEST,
    ErrorCode.KAFKA_STORAGE_ERROR: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: HTTPStatus.SERVICE_UNAVAILABLE,  # another broker is away
    ErrorCode.OFFSET_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}

# An answer is no page, whatever is in it, and is kept by nobody; nor is it told what software made
# it.
ANSWER_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Server": "appliance",
}

ROUTES: list[Route] = [
    *login.ROUTES,
    *oidc.ROUTES,
    *health.ROUTES,
    *loss_ledger.ROUTES,
    *alerts.ROUTES,
    *live.ROUTES,
    *history.ROUTES,
    *topics.ROUTES,
    *several_topics.ROUTES,
    *config_rows.ROUTES,
    *topic_consumers.ROUTES,
    *topic_producers.ROUTES,
    *partition_logs.ROUTES,
    *replicas.ROUTES,
    *log_dirs.ROUTES,
    *segments.ROUTES,
    *messages.ROUTES,
    *message_ranges.ROUTES,
    *live_messages.ROUTES,
    *produce.ROUTES,
    *message_replay.ROUTES,
    *download.ROUTES,
    *topic_schemas.ROUTES,
    *bulk_read.ROUTES,
    *export_schedules.ROUTES,
    *exports.ROUTES,
    *export_letters.ROUTES,
    *export_holds.ROUTES,
    *backup.ROUTES,
    *groups.ROUTES,
    *mirrors.ROUTES,
    *client_connections.ROUTES,
    *clock.ROUTES,
    *cluster.ROUTES,
    *doctor.ROUTES,
    *scrub.ROUTES,
    *repair.ROUTES,
    *settings.ROUTES,
    *acls.ROUTES,
    *quotas.ROUTES,
    *acl_decisions.ROUTES,
    *audit.ROUTES,
    *log_lines.ROUTES,
    *bundle.ROUTES,
]


def get_openapi(call: Call) -> Any:
    return openapi.document(ROUTES)


ROUTES.append(
    get(
        "/openapi.json",
        get_openapi,
        dict[str, Any],
        "This API as an OpenAPI document.",
        role=ANYONE,
        version=lambda _: 0,
    )
)

WebHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


def refusal(raised: ApplianceError) -> web.Response:
    return error(*told_of(raised))


def told_of(raised: ApplianceError) -> tuple[int, str, str]:
    """Status, code and message."""
    if isinstance(raised, Denied):
        return raised.status, raised.code, str(raised)
    code = ErrorCode(raised.kafka_code)
    return STATUS.get(code, HTTPStatus.BAD_REQUEST), code.name.lower(), str(raised)


def served(route: Route, services: AdminServices) -> WebHandler:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            identity = services.guard.check(request, route)
            call = await route.call(services, request, identity)
        except ApplianceError as raised:
            if told_of(raised)[0] == HTTPStatus.FORBIDDEN:
                asks = services.guard.identity(request, is_used=False)
                services.trail.refused(asks, request.remote or "", route, request.path)
            return refusal(raised)
        if route.reads_messages and services.trail.reads.is_new(call):
            await services.trail.note(call, route, HTTPStatus.OK)
        answer = await (streamed if route.is_long else answered)(route, call, services)
        if route.has_audit:
            services.changed()
            await services.trail.note(call, route, answer.status)
        return answer

    return handle


async def streamed(route: Route, call: Call, services: AdminServices) -> web.StreamResponse:
    try:
        with services.streams.one(call.who, call.request):
            return await answered(route, call, services)
    except StreamsTooMany as raised:
        return refusal(raised)


async def answered(route: Route, call: Call, services: AdminServices) -> web.StreamResponse:
    try:
        if route.version is not None:
            return await from_shared(route, call, services.shared, route.version(call))
        answer = await told(route, call)
    except ApplianceError as raised:
        return refusal(raised)
    if isinstance(answer, web.StreamResponse):
        return answer
    if route.answer is None:
        return web.Response(status=route.status)
    return web.json_response(answer, status=route.status)


async def told(route: Route, call: Call) -> Any:
    answer = route.handler(call)
    return await answer if inspect.isawaitable(answer) else answer


async def from_shared(
    route: Route, call: Call, shared: Shared, version: Hashable
) -> web.StreamResponse:
    question = route.path, tuple(call.params.values()), call.rights.view
    found = await shared.body(question, version, lambda: told(route, call))
    headers = {"Content-Type": "application/json; charset=utf-8", "Vary": "Accept-Encoding"}
    if "gzip" not in call.request.headers.get("Accept-Encoding", ""):
        return web.Response(body=found.plain, headers=headers)
    return web.Response(body=found.zipped, headers={**headers, "Content-Encoding": "gzip"})


def web_routes(services: AdminServices) -> list[web.RouteDef]:
    return [web.route(each.method, each.url, served(each, services)) for each in ROUTES]


def as_markdown() -> str:
    """The table of routes in docs/admin-api.md; a test compares the two."""
    lines = ["| route | role | with rules | what |", "|---|---|---|---|"]
    for each in ROUTES:
        names = ", ".join(f"`{one.name}`" for one in each.params)
        more = f" Parameters: {names}." if names else ""
        path = f"`{each.method} {each.url}`"
        role = f"{each.role}, messages" if each.reads_messages else each.role
        rights = "the role" if each.rights is None else each.rights_in_words
        lines.append(f"| {path} | {role} | {rights} | {each.text}{more} |")
    return "\n".join(lines) + "\n"
