"""From a request of the bulk port to its answer: the guard, the trail, the routes.

Guard, roles and trail are those of the admin port. A ticket of its redirect stands for who was
asked there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web

from appliance.admin import bulk_read, bulk_tickets
from appliance.admin.api import told_of
from appliance.admin.guard import Denied
from appliance.admin.route import AdminServices, Call, Route
from appliance.bulk.line import Buffer
from appliance.bulk.sending import Body, Sending
from appliance.bulk_http.connection import Connection, Headers
from appliance.bulk_http.plans import make_plan, topic_names
from appliance.bulk_http.range_read import body_of, check_again
from appliance.bulk_http.request import Request
from appliance.errors import ApplianceError, OffsetOutOfRange, StorageIoFailed
from appliance.native.loopback_congestion import choose_congestion
from appliance.process import event_log

log = event_log.named("export")

ASKED_AGAIN_S = 1.0  # whether who reads may go on: a right that was withdrawn is, soon

JSON_HANDLERS: dict[str, Callable[[Call], Awaitable[Any]]] = {
    bulk_read.TOPICS.url: topic_names,
    bulk_read.PLAN.url: make_plan,
}
PATTERNS = [
    (re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.url)), route)
    for route in bulk_read.ROUTES
]


class Answers:
    def __init__(self, services: AdminServices) -> None:
        self.services = services

    async def answer(self, request: Request, line: Connection) -> None:
        try:
            await self._answer(request, line)
        except ApplianceError as raised:
            # a stream that breaks off is better than one that looks whole
            if line.has_begun:
                log.error("a bulk read was cut off", error=raised)
            else:
                await line.refuse(*told_of(raised))
        except OSError:
            raise  # of the socket: who wanted it is gone, or does not answer
        except Exception:
            log.exception("request failed", method=request.method, path=request.path)
            if not line.has_begun:
                await refuse(line, request, HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _answer(self, request: Request, line: Connection) -> None:
        for route, found in routes_at(request):
            if request.method == route.method:
                await self._called(route, found, line)
            else:
                allow = [("Allow", route.method)]
                await refuse(line, request, HTTPStatus.METHOD_NOT_ALLOWED, allow)
            return
        await refuse(line, request, HTTPStatus.NOT_FOUND)

    async def _called(self, route: Route, request: Request, line: Connection) -> None:
        services = self.services
        sent = services.tickets.take(request.url) if request.has_ticket else None
        if request.has_ticket and sent is None:
            raise Denied(
                HTTPStatus.UNAUTHORIZED, "ticket_used",
                f"ticket: it was used, is older than {bulk_tickets.SECONDS:.0f} s or is for "
                "something else; ask the admin port again",
            )  # fmt: skip
        identity = services.guard.check(request, route, sent)
        # as far as these routes look at it, it is one of aiohttp's
        call = await route.call(services, cast(web.Request, request), identity)
        if route.reads_messages and services.trail.reads.is_new(call):
            await services.trail.note(call, route, HTTPStatus.OK)
        if route.url in JSON_HANDLERS:
            await line.tell(route.status, await JSON_HANDLERS[route.url](call))
        else:
            await send_batches(call, line, lambda: services.guard.may_go_on(request, route, sent))


async def refuse(
    line: Connection, request: Request, status: HTTPStatus, headers: Headers = ()
) -> None:
    code = status.phrase.lower().replace(" ", "_")
    text = f"{request.method} {request.path}: {status.phrase}"
    await line.refuse(status, code, text, headers)


def routes_at(request: Request) -> Iterator[tuple[Route, Request]]:
    for pattern, route in PATTERNS:
        if found := pattern.fullmatch(request.path):
            yield route, request.at(found.groupdict())


async def send_batches(call: Call, line: Connection, may_go_on: Callable[[], bool]) -> None:
    is_decoded = call.params["format"] != "batches"
    call.reading.begin(is_decoded)
    is_complete = False
    try:
        body = await with_first_piece(call, await body_of(call))
        choose_congestion(line.line.socket)
        await line.begin(HTTPStatus.OK, [*body.headers, ("Content-Type", body.media)])
        await send_body(call, body, line, may_go_on)
        await line.finish()
        is_complete = True
    finally:
        call.reading.end(is_complete, is_decoded)


async def with_first_piece(call: Call, body: Body) -> Body:
    """What cannot be read, or is gone, is told in the answer's status. Damaged batches break the
    answer off: the read has noted them, and a program that asks again is told of the hole."""
    waiting: list[Buffer | None] = []
    try:
        waiting.append(await call.reading.on_thread(body.piece))
    except StorageIoFailed:
        raise
    except ApplianceError as error:
        if isinstance(error, OffsetOutOfRange):
            check_again(body.reader)
        if body.media != bulk_read.BATCHES_MEDIA:
            raise Denied(HTTPStatus.SERVICE_UNAVAILABLE, "unreadable", str(error)) from error
    return replace(body, piece=lambda: waiting.pop() if waiting else body.piece())


async def send_body(
    call: Call, body: Body, line: Connection, may_go_on: Callable[[], bool]
) -> None:
    """At the pace of all bulk reads, and while who asked may read."""
    sending, reader, reading = Sending(body, line.line, line.framed), body.reader, call.reading
    asked_at = time.monotonic()
    passed = sent = 0  # so far; the first piece is read
    while not sending.has_ended:
        if time.monotonic() - asked_at >= ASKED_AGAIN_S:
            if not may_go_on():
                text = f"{call.who} may read no more"
                raise Denied(HTTPStatus.FORBIDDEN, "access_withdrawn", text)
            asked_at = time.monotonic()
        await reading.on_thread(sending.step)
        taken = reader.bytes - sent
        reading.bytes += taken
        reading.passed_bytes += reader.passed_bytes - passed
        passed, sent = reader.passed_bytes, reader.bytes
        await reading.pace.took(taken, reader.is_quiet)
        if sending.is_blocked:
            await sending.room()
