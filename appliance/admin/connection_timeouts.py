"""How long each connection of the admin port may take. How many there may be is `admission.py`'s.

    TLS        is agreed upon within `admin.request.timeout.ms`
    a head     comes whole within the same time, in HEAD_BYTES_MAX
    a body     comes within that time and what its bytes take at BODY_BYTES_PER_SECOND
    an answer  is taken: some of it every `admin.send.timeout.ms`
    idle       for `admin.idle.timeout.ms` at most

aiohttp has no deadline but for idle connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from aiohttp import StreamReader, hdrs, web

from appliance.admin.admission import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    LINGER_SECONDS,
    STALLED_SECONDS,
    Accepting,
    Connections,
    Phase,
    listening,
)
from appliance.certificates.first_byte import begins_tls
from appliance.certificates.https import Https
from appliance.config import Address, AdminConfig

LINE_BYTES_MAX = 8190
# Requests that wait for an earlier response. Browsers send none before they have it.
PIPELINED_MAX = 8
# The slowest connection for large bodies, as at the Kafka port.
BODY_BYTES_PER_SECOND = 4 << 10
# Who does not say that he has gone gets as long as one who does not read our last answer; the
# option came with Python 3.11.
SHUTDOWN: dict[str, Any] = (
    {"ssl_shutdown_timeout": LINGER_SECONDS} if sys.version_info >= (3, 11) else {}
)


class Connection(web.RequestHandler):
    """aiohttp's connection, with the state that it waits for."""

    def __init__(self, owner: Connections, server: web.Server, address: str) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            auto_decompress=False,  # a decompression bomb would block this thread
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            max_headers=HEADERS_MAX,
            lingering_time=LINGER_SECONDS,
        )
        self._owner = owner
        self.address = address
        self.handshake: Handshake | None = None  # that came before
        self._out: asyncio.Transport | None = None  # aiohttp forgets it while bytes are left
        self.phase = Phase.IDLE
        self.since = time.monotonic()  # of the phase
        self._head_bytes = 0
        self._body: StreamReader | None = None  # of the last request
        self._unsent, self._moved = 0, 0.0  # unsent bytes, and the time of their last change

    @property
    def has_begun(self) -> bool:
        return self._out is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        self._owner.came(self, self.handshake)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._owner.went(self)

    def data_received(self, data: bytes) -> None:
        is_head = self.phase is not Phase.ANSWER and not self.is_body_due
        if is_head and data:
            if self.phase is Phase.IDLE:
                self._now(Phase.HEAD)
                self._head_bytes = 0
            self._head_bytes += len(data)
        super().data_received(data)
        waiting = len(self._messages)
        if self._upgraded:
            self.end("upgrade", data[:40])
        elif waiting > PIPELINED_MAX:
            self.end("pipelined", waiting, PIPELINED_MAX)
        elif waiting:
            self.phase = Phase.ANSWER
        elif is_head and self.phase is Phase.HEAD and self._head_bytes > HEAD_BYTES_MAX:
            self.end("head size", self._head_bytes, HEAD_BYTES_MAX)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Malformed HTTP is the client's error, and needs no trace."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        why = (message or "").partition("\n")[0].strip(" :")
        self._owner.told(self, "malformed", why[:100])
        told = {"error": {"code": "bad_request", "message": f"no request of HTTP: {why[:100]}"}}
        answer = web.json_response(told, status=status)
        answer.force_close()
        return answer

    # Requests, reported by the middleware

    def begins(self, request: web.Request) -> None:
        self._now(Phase.ANSWER)
        self._body = request.content

    def ends(self) -> None:
        self._now(Phase.ANSWER if self._messages else Phase.IDLE)

    def _now(self, phase: Phase) -> None:
        self.phase, self.since = phase, time.monotonic()

    # Deadlines

    @property
    def is_body_due(self) -> bool:
        return self._body is not None and not self._body.is_eof()

    def waits_since(self, now: float) -> float | None:
        """Since when the broker waits: for a request, for its rest, or for space for more of a
        response. None: the broker works on a request."""
        if self.phase is not Phase.ANSWER or self.is_body_due:
            return self.since
        is_stalled = self._unsent > 0 and now > self._moved + STALLED_SECONDS
        return self._moved if is_stalled else None

    def sweep(self, config: AdminConfig, now: float) -> None:
        unsent = 0 if self._out is None else self._out.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._moved = unsent, now
            if self.phase is Phase.IDLE:
                self.since = now  # the last response is still being sent
        if unsent:
            if now > self._moved + config.send_timeout_ms / 1000:
                self.end("send timeout", unsent, config.send_timeout_ms)
            return
        waits, request_s = now - self.since, config.request_timeout_ms / 1000
        if self.is_body_due:
            assert self._body is not None
            if waits > request_s + self._body.total_bytes / BODY_BYTES_PER_SECOND:
                self.end("request timeout", 0, config.request_timeout_ms)
        elif self.phase is Phase.HEAD and waits > request_s:
            self.end("request timeout", 0, config.request_timeout_ms)
        elif self.phase is Phase.IDLE and waits > config.idle_timeout_ms / 1000:
            self.end("idle")

    def end(self, reason: str, got: object = 0, wanted: object = 0) -> None:
        self._owner.told(self, reason, got, wanted)
        self._close = True  # the rest of its input is ignored
        if self._out is not None:
            self._out.abort()

class Site(web.BaseSite):
    def __init__(
        self, runner: web.AppRunner, connections: Connections, address: Address, https: Https | None
    ) -> None:
        super().__init__(runner)
        self._connections, self._address, self._https = connections, address, https

    @property
    def name(self) -> str:
        return f"{'https' if self._https else 'http'}://{self._address}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        sockets = await listening("admin.address", self._address.host, self._address.port)
        begin = partial(begun, server, self._connections, self._https)
        self._server = cast(Any, Accepting(sockets, self._connections, begin))

async def begun(
    server: web.Server, connections: Connections, https: Https | None, found: socket.socket,
    address: str,
) -> None:  # fmt: skip
    made = Connection(connections, server, address)
    accept = asyncio.get_running_loop().connect_accepted_socket
    if https is None:
        try:
            await accept(lambda: made, found)
        except OSError:  # it is gone already
            found.close()
            if not made.has_begun:
                connections.left(address)
        return
    made.handshake = handshake = Handshake(connections, address)
    connections.came(handshake)
    try:
        if await begins_tls(found):
            await accept(lambda: made, found, ssl=https.context, **SHUTDOWN)
        else:
            connections.told(handshake, "no tls", "something else")
    except OSError as error:
        if not made.has_begun and isinstance(error, ssl.SSLError):
            connections.told(handshake, "no tls", error.reason)
    finally:
        connections.went(handshake)
        if not made.has_begun:
            found.close()


class Handshake:
    """A connection that has yet to show that it speaks TLS."""

    def __init__(self, owner: Connections, address: str) -> None:
        self.owner, self.address, self.since = owner, address, time.monotonic()
        task = asyncio.current_task()
        assert task is not None, "a handshake is made by the task that waits for it"
        self._task = task

    def waits_since(self, now: float) -> float | None:
        return self.since

    def sweep(self, config: AdminConfig, now: float) -> None:
        if now - self.since > config.request_timeout_ms / 1000:
            self.end("handshake timeout", 0, config.request_timeout_ms)

    def end(self, reason: str, got: object = 0, wanted: object = 0) -> None:
        self.owner.told(self, reason, got, wanted)
        self._task.cancel()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The outermost middleware: reports the state to the connection, and refuses heads that are too
    expensive."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    connection.begins(request)
    try:
        return refusal(request) or await handler(request)
    finally:
        connection.ends()


def refusal(request: web.Request) -> web.Response | None:
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
    if encoding != "identity":
        text = f"Content-Encoding: got {encoding[:40]!r}, wanted a body as it is"
        return refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "encoding_refused", text)
    size = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    size += len(request.raw_path)
    if size > HEAD_BYTES_MAX:
        text = f"the head of the request has {size} bytes, wanted at most {HEAD_BYTES_MAX}"
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        return refused(status, "head_too_large", text)
    return None


def refused(status: HTTPStatus, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)
