"""Who comes to a port of HTTP, and how long each may keep us waiting: the admin port's and the bulk
port's connections.

    let in     one at a time, so that no descriptor is taken beyond their share; when there are as
               many as may be, the one that has kept us waiting longest goes, of the address that
               has most: who holds all of them keeps nobody out. We wait for a request, for the rest
               of one, and for who takes nothing of an answer
    swept      each looks at its own deadlines, four times a second

What is closed is told in the log, a line for each address, reason and minute.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Protocol

from appliance.api.closed_connections import ClosureLog
from appliance.config import AdminConfig
from appliance.data_dir import descriptor_budget
from appliance.native._peer_network import network_of
from appliance.process import event_log

log = event_log.named("admin")

# Of a request: cookies of other programs on this machine come along, and nothing else is large.
HEAD_BYTES_MAX = 16 << 10
HEADERS_MAX = 64
# What comes behind an answer that ends a connection is read for so long, so that a client sees it.
LINGER_SECONDS = 2.0
# How late a deadline may be.
SWEEP_SECONDS = 0.25
# Whose answers have not moved for so long may be closed for one more connection: a packet that was
# lost comes again sooner.
STALLED_SECONDS = 2.0
# Of an answer handed to the kernel, as at the Kafka port: for a client that reads nothing it would
# take megabytes, and a few hundred of those are all that it has for TCP.
UNSENT_MAX = 256 << 10
BACKLOG = 128  # that the kernel keeps for us
PAUSE_SECONDS = 1.0  # when the system gives no descriptor

REASONS = {
    "connections": "there are {got} connections, wanted at most {wanted} "
    "(admin.max.connections.total)",
    "connections per ip": "there are {got} connections of this address, wanted at most {wanted} "
    "(admin.max.connections.per.ip)",
    "stopped": "",  # with the broker
    "room": "the broker had waited for it longest when one more came to {wanted} "
    "(admin.max.connections.total)",
    "head size": "the head of a request has {got} bytes, wanted at most {wanted}",
    "pipelined": "{got} requests wait for a response, wanted at most {wanted}",
    "upgrade": "another protocol was asked for: {got}",
    "malformed": "no request: {got}",
    "no tls": "no TLS was agreed upon: {got}",
    "handshake timeout": "no TLS was agreed upon within {wanted} ms (admin.request.timeout.ms)",
    "request timeout": "a request did not arrive within {wanted} ms (admin.request.timeout.ms)",
    "send timeout": "no response read for {wanted} ms (admin.send.timeout.ms), {got} bytes wait",
    "idle": "",  # normal for a browser
}


class Phase(Enum):
    IDLE, HEAD, ANSWER = range(3)


class Member(Protocol):
    """A connection, as all of them together see it."""

    @property
    def address(self) -> str: ...
    def waits_since(self, now: float) -> float | None: ...
    def sweep(self, config: AdminConfig, now: float) -> None: ...
    def end(self, reason: str, got: object = 0, wanted: object = 0) -> None: ...


# Makes a connection of a socket and its address; it tells `came` and `went`, or `left` without.
Begin = Callable[[socket.socket, str], Coroutine[Any, Any, None]]


class Connections:
    """All of one port. Lives on the event loop."""

    def __init__(self, port: str, config: AdminConfig, most: int) -> None:
        self.port, self.config = port, config
        self.most = most  # as many as there are descriptors for
        self.ended: Counter[str] = Counter()  # by reason
        self.refused_at: float | None = None  # when one was last, for want of room
        self._all: set[Member] = set()
        self._some = asyncio.Event()  # there are; without, nothing wakes the loop up
        self.begun: set[asyncio.Task[None]] = set()
        self._counts: Counter[str] = Counter()  # by address
        self._log = ClosureLog()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    @property
    def open(self) -> int:
        return sum(self._counts.values())

    # Who comes

    def let_in(self, begin: Begin, found: socket.socket, peer: str) -> None:
        address = network_of(peer)
        reason = self._refusal(address)
        if reason is not None:
            self._told(address, *reason)
            found.close()
            return
        self._counts[address] += 1
        begun = asyncio.get_running_loop().create_task(begin(found, address))
        self.begun.add(begun)
        begun.add_done_callback(self.begun.discard)

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
        self.went(last)  # its descriptor goes in the next turn of the loop
        return True

    def came(self, connection: Member, instead_of: Member | None = None) -> None:
        if instead_of is not None:
            self._all.discard(instead_of)
        self._all.add(connection)
        self._some.set()

    def went(self, connection: Member) -> None:
        if connection in self._all:
            self._all.remove(connection)
            self.left(connection.address)

    def left(self, address: str) -> None:
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    # What became of them

    def told(
        self, connection: Member, reason: str, got: object = 0, wanted: object = 0
    ) -> None:
        self._told(connection.address, reason, got, wanted)

    def _told(self, address: str, reason: str, got: object, wanted: object) -> None:
        self.ended[reason] += 1
        if text := REASONS[reason]:
            self._log.say(address, reason, text.format(got=got, wanted=wanted), port=self.port)

    async def _sweep(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for each in list(self._all):
                each.sweep(self.config, now)
            if not self._all:
                self._some.clear()

    def end_waiting(self) -> None:
        """Who is answered may be answered to the end."""
        now = time.monotonic()
        for each in list(self._all):
            if each.waits_since(now) is not None:
                each.end("stopped")

    def stop(self) -> None:
        self._sweeper.cancel()


class Accepting:
    """asyncio's own `Server` takes as many as wait, before anybody can say that there are too
    many."""

    def __init__(
        self, sockets: list[socket.socket], connections: Connections, begin: Begin
    ) -> None:
        self.sockets = sockets
        self._loop = asyncio.get_running_loop()
        self._connections, self._begin = connections, begin
        for each in sockets:
            self._listen(each)

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:  # it was not closed meanwhile
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            found, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            log.warning("no connection can be let in for a while", error=error)
            self._loop.remove_reader(listener)
            self._loop.call_later(PAUSE_SECONDS, self._listen, listener)
            return
        found.setblocking(False)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_MAX)
        self._connections.let_in(self._begin, found, peer[0])

    def close(self) -> None:
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()
        self.sockets = []

async def listening(setting: str, host: str, port: int) -> list[socket.socket]:
    """At every address that the name has, on one port."""
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
        raise OSError(error.errno, f"{setting} {host}:{port}: {reason}") from error
    return found


def within_descriptors(config: AdminConfig, clients: int) -> int:
    """As many as there are descriptors for."""
    found = descriptor_budget.take(clients, config.connections_max).admin_connections
    if found < config.connections_max:
        log.warning(
            "fewer connections than admin.max.connections.total are taken: other descriptors are "
            "for Kafka clients and logs; raise LimitNOFILE of the service, or `ulimit -n`",
            wanted=config.connections_max, taken=found,
        )  # fmt: skip
    return found
