"""Connections of the admin port: their number, and the time limits of each.

    accept     one at a time, so that no descriptor beyond the share is used. At the limit the
               connection that the broker has waited for longest is closed, of the address with
               most: holding all connections keeps nobody out. The broker waits for a request, for
               its rest, and for a client that reads nothing of a response
    a head     arrives within `admin.request.timeout.ms`, in at most HEAD_BYTES_MAX
    a body     arrives within that time plus the time of its size at BODY_BYTES_PER_SECOND
    a response is read: some of it every `admin.send.timeout.ms`
    idle       for at most `admin.idle.timeout.ms`

aiohttp only limits idle connections. A closed connection is logged, with a line per address, reason
and minute.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum
from http import HTTPStatus
from typing import Any, cast

from aiohttp import StreamReader, hdrs, web

from appliance.api.closures import ClosureLog
from appliance.config import AdminConfig
from appliance.data_dir import descriptors
from appliance.process import event_log

log = event_log.named("admin")

# Of a request: it includes cookies of other programs on this machine, and nothing else is large.
HEAD_BYTES_MAX = 16 << 10
HEADERS_MAX = 64
LINE_BYTES_MAX = 8190
# Requests that wait for an earlier response. Browsers send none before they have it.
PIPELINED_MAX = 8
# The slowest connection for large bodies, as at the Kafka port.
BODY_BYTES_PER_SECOND = 4 << 10
# After its response a body is read for so long, so that the client sees the response.
LINGER_SECONDS = 2.0
# How late a deadline may fire.
SWEEP_SECONDS = 0.25
# A connection whose response has not moved for so long may be closed for a new connection: a lost
# packet is resent sooner.
STALLED_SECONDS = 2.0
# Bytes of a response in the kernel, as at the Kafka port: a client that reads nothing could hold
# megabytes, and a few hundred of those are all that the kernel has for TCP.
UNSENT_MAX = 256 << 10
BACKLOG = 128  # of the kernel
PAUSE_SECONDS = 1.0  # if no descriptor is free

REASONS = {
    "connections": "there are {got} connections, wanted at most {wanted} "
    "(admin.max.connections.total)",
    "connections per ip": "there are {got} connections of this address, wanted at most {wanted} "
    "(admin.max.connections.per.ip)",
    "room": "the broker had waited for it longest when one more came to {wanted} "
    "(admin.max.connections.total)",
    "head size": "the head of a request has {got} bytes, wanted at most {wanted}",
    "pipelined": "{got} requests wait for a response, wanted at most {wanted}",
    "upgrade": "another protocol was asked for: {got}",
    "malformed": "no request: {got}",
    "request timeout": "a request did not arrive within {wanted} ms (admin.request.timeout.ms)",
    "send timeout": "no response read for {wanted} ms (admin.send.timeout.ms), {got} bytes wait",
    "idle": "",  # normal for a browser
}


class Phase(Enum):
    IDLE, HEAD, ANSWER = range(3)


def network_of(address: str | None) -> str:
    """The key by which an address is counted: with IPv6 one machine has a whole network."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if found.version == 4:
        return str(found)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


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
        self._owner.came(self)

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


class Connections:
    """All connections of one broker. Lives on the event loop."""

    def __init__(self, config: AdminConfig, most: int) -> None:
        self.config = config
        self.most = most  # the limit by descriptors
        self.ended: Counter[str] = Counter()  # by reason
        self.refused_at: float | None = None  # time of the last refusal at the limit
        self._all: set[Connection] = set()
        self._coming: set[asyncio.Task[None]] = set()
        self._counts: Counter[str] = Counter()  # by address
        self._log = ClosureLog()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    @property
    def open(self) -> int:
        return sum(self._counts.values())

    # New connections

    def let_in(self, server: web.Server, found: socket.socket, peer: str) -> None:
        address = network_of(peer)
        reason = self._refusal(address)
        if reason is not None:
            self._told(address, *reason)
            found.close()
            return
        self._counts[address] += 1
        coming = asyncio.get_running_loop().create_task(self._begin(server, found, address))
        self._coming.add(coming)
        coming.add_done_callback(self._coming.discard)

    def _refusal(self, address: str) -> tuple[str, int, int] | None:
        own, most = self._counts[address], self.config.connections_per_ip
        if own >= most:
            return "connections per ip", own, most
        if self.open >= self.most:
            self.refused_at = time.monotonic()
            if not self._make_room():
                return "connections", self.open, self.most
        return None

    def _make_room(self) -> bool:
        now = time.monotonic()
        all_since = {each: each.waits_since(now) for each in self._all}
        waiting = {each: since for each, since in all_since.items() if since is not None}
        if not waiting:
            return False
        most = max(self._counts[each.address] for each in waiting)
        rows = [each for each in waiting if self._counts[each.address] == most]
        last = min(rows, key=waiting.__getitem__)
        last.end("room", 0, self.most)
        self.went(last)  # its descriptor is closed in the next turn of the loop
        return True

    async def _begin(self, server: web.Server, found: socket.socket, address: str) -> None:
        loop, made = asyncio.get_running_loop(), Connection(self, server, address)
        try:
            await loop.connect_accepted_socket(lambda: made, found)
        except OSError:  # gone already
            found.close()
            if not made.has_begun:
                self._less(address)

    def came(self, connection: Connection) -> None:
        self._all.add(connection)

    def went(self, connection: Connection) -> None:
        if connection in self._all:
            self._all.remove(connection)
            self._less(connection.address)

    def _less(self, address: str) -> None:
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    # Ended connections

    def told(
        self, connection: Connection, reason: str, got: object = 0, wanted: object = 0
    ) -> None:
        self._told(connection.address, reason, got, wanted)

    def _told(self, address: str, reason: str, got: object, wanted: object) -> None:
        self.ended[reason] += 1
        if text := REASONS[reason]:
            self._log.say(address, reason, text.format(got=got, wanted=wanted), port="admin")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for each in list(self._all):
                each.sweep(self.config, now)

    async def stop(self, _: web.Application) -> None:
        self._sweeper.cancel()


class Accepting:
    """The equivalent of asyncio's `Server` for a site of aiohttp. asyncio's own accepts all that
    wait, before anybody can refuse."""

    def __init__(
        self, sockets: list[socket.socket], server: web.Server, connections: Connections
    ) -> None:
        self.sockets = sockets
        self._loop = asyncio.get_running_loop()
        self._server, self._connections = server, connections
        for each in sockets:
            self._listen(each)

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:  # not closed meanwhile
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            found, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            log.warning("no connection can be accepted for a while", error=error)
            self._loop.remove_reader(listener)
            self._loop.call_later(PAUSE_SECONDS, self._listen, listener)
            return
        found.setblocking(False)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_MAX)
        self._connections.let_in(self._server, found, peer[0])

    def close(self) -> None:
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()
        self.sockets = []


class Site(web.BaseSite):
    def __init__(self, runner: web.AppRunner, connections: Connections, host: str, port: int):
        super().__init__(runner)
        self._connections, self._host, self._port = connections, host, port

    @property
    def name(self) -> str:
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        sockets = await listening(self._host, self._port)
        self._server = cast(Any, Accepting(sockets, server, self._connections))


async def listening(host: str, port: int) -> list[socket.socket]:
    """Listens at every address of the name, on one port."""
    loop, found = asyncio.get_running_loop(), list[socket.socket]()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, address in dict.fromkeys((row[0], row[4][0]) for row in rows):
            own = found[0].getsockname()[1] if found else port
            found.append(socket.create_server((address, own), family=family, backlog=BACKLOG))
            found[-1].setblocking(False)
    except OSError as error:
        for each in found:
            each.close()
        reason = os.strerror(error.errno).lower() if error.errno else error
        raise OSError(error.errno, f"admin.address {host}:{port}: {reason}") from error
    return found


def within_descriptors(config: AdminConfig, clients: int) -> int:
    """The limit by descriptors."""
    found = descriptors.take(clients, config.connections_max).admin_connections
    if found < config.connections_max:
        log.warning(
            "fewer connections than admin.max.connections.total are allowed: other descriptors are "
            "for Kafka clients and logs; raise LimitNOFILE of the service, or `ulimit -n`",
            wanted=config.connections_max, taken=found,
        )  # fmt: skip
    return found


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
