"""The sockets that Kafka clients come in by: opened, or taken over from the process before."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack

from appliance.config import Address
from appliance.errors import ListenFailed
from appliance.process.succession import Predecessor


def listening(
    addresses: Iterable[Address], succeeds: Predecessor | None = None
) -> list[socket.socket]:
    """At all of them, or at none."""
    with ExitStack() as opened:
        found = [opened.enter_context(_listening(each, succeeds)) for each in addresses]
        opened.pop_all()
    return found


def _listening(address: Address, succeeds: Predecessor | None) -> socket.socket:
    given = None if succeeds is None else succeeds.socket_of(str(address))
    if given is not None:
        return given
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as error:
        raise ListenFailed(f"listeners: {address}: {error.strerror or error}") from error
