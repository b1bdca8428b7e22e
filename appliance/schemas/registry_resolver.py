"""Names of hosts to addresses, on threads of its own: a name server that hangs holds these, and not
those of the event loop, which the whole broker waits for."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult


class Resolver(AbstractResolver):
    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, addresses, host, port, family)

    async def close(self) -> None:
        """The threads are another's."""


def addresses(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    found = socket.getaddrinfo(
        host, port, family, socket.SOCK_STREAM, flags=socket.AddressInfo.AI_ADDRCONFIG
    )
    numeric = socket.AddressInfo.AI_NUMERICHOST | socket.AddressInfo.AI_NUMERICSERV
    return [
        ResolveResult(
            hostname=host, host=str(address[0]), port=port, family=kind, proto=proto, flags=numeric
        )
        for kind, _, proto, _, address in found
    ]
