"""The sockets that Kafka clients come in by: opened, or taken over from the process before.

A broker of a cluster has its ports before it joins, since it tells the others of them; but clients
are let in when it knows the cluster. Before that it would tell them that topics are unknown, and
that there is no other broker: clients believe it, and give up what they were to send. Until then
they are refused, and ask another broker.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from appliance.config import Address
from appliance.errors import ListenFailed
from appliance.network._data_plane import DataPlane
from appliance.network._tls_context import TlsContext
from appliance.process.succession import Predecessor

BACKLOG = 1024


class KafkaListeners:
    def __init__(
        self, plane: DataPlane, sockets: Sequence[socket.socket],
        ways: Sequence[tuple[bool, TlsContext | None]],
    ) -> None:
        """`ways` of each: whether it asks for a login, and its TLS."""
        self._plane, self._sockets, self._ways = plane, sockets, ways

    def open(self) -> None:
        for each in self._sockets:
            _listen(each)
        for each, (asks_login, tls) in zip(self._sockets, self._ways, strict=True):
            self._plane.listen(each, asks_login, tls)
        self._plane.start()

    def close(self, drain_ms: int) -> None:
        """Clients get the answers that are due."""
        self._plane.stop(drain_ms)
        for each in self._sockets:
            each.close()


def _listen(bound: socket.socket) -> None:
    """Two may be bound to a port, but one listens there."""
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        where = Address(*bound.getsockname()[:2])
        raise ListenFailed(f"listeners: {where}: {error.strerror or error}") from error


def bound(
    addresses: Iterable[Address], succeeds: Predecessor | None = None
) -> list[socket.socket]:
    """At all of them, or at none."""
    with ExitStack() as opened:
        found = [opened.enter_context(_bound(each, succeeds)) for each in addresses]
        opened.pop_all()
    return found


def _bound(address: Address, succeeds: Predecessor | None) -> socket.socket:
    given = None if succeeds is None else succeeds.socket_of(str(address))
    if given is not None:
        return given  # it listens: who comes waits in the kernel's queue
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind((address.host, address.port))
    except OSError as error:
        found.close()
        raise ListenFailed(f"listeners: {address}: {error.strerror or error}") from error
    return found
