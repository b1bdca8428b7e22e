"""Who comes to a port of TLS without it is told so, in the words that he understands.

The first byte of TLS is the type of its first record, a handshake. No request of HTTP begins with
it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress

HANDSHAKE = b"\x16"
UNREAD_MAX = 64 << 10  # of the request: what is left would reset the connection before the answer

TEXT = "this port speaks TLS: wanted https:// in front of the address"
BODY = json.dumps({"error": {"code": "tls_required", "message": TEXT}}).encode()
ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
) % (len(BODY), BODY)


async def begins_tls(found: socket.socket) -> bool:
    """If not, it was told. OSError: it is gone."""
    await readable(found)
    first = found.recv(1, socket.MSG_PEEK)
    if first in (HANDSHAKE, b""):
        return first == HANDSHAKE
    with suppress(OSError):
        found.recv(UNREAD_MAX)
        found.send(ANSWER)
        found.shutdown(socket.SHUT_WR)
    return False


async def readable(found: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(found.fileno(), tell)
    try:
        await came
    finally:
        loop.remove_reader(found.fileno())
