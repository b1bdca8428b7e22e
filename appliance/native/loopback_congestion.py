"""Connections within the machine."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


def choose_congestion(connection: Any) -> None:
    """Within the machine nothing is lost and nothing is worth pacing, and where Linux is set to BBR
    its pacing is half of what sending costs. `connection` is a socket, or what asyncio has for one.
    """
    with suppress(OSError):  # it is not allowed, or broken already: then all is as it was
        if connection.getsockname()[0] == connection.getpeername()[0]:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
