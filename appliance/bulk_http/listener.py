"""The bulk port: listens, lets in as many as may be, and stops."""

from __future__ import annotations

import asyncio
import socket

from appliance.admin.admission import Accepting, Connections, listening
from appliance.admin.route import AdminServices
from appliance.bulk.line import Line, TlsLine
from appliance.bulk_http.connection import Connection
from appliance.bulk_http.routes import Answers
from appliance.certificates.https import Https
from appliance.config import Address

STOP_SECONDS = 2.0  # what a stream gets to end when the broker stops


class Listener:
    def __init__(self, services: AdminServices, most: int, https: Https | None) -> None:
        """`most`: connections, as many as there are descriptors for."""
        self._https = https
        self.connections = Connections("export", services.process.config.admin, most)
        self._answers = Answers(services)
        self._accepting: Accepting | None = None

    async def listen(self, address: Address) -> Address:
        """There and nowhere else; requests under way go on. Says where, since port 0 is the
        kernel's choice."""
        if self._accepting is not None:
            self._accepting.close()
        sockets = await listening("export.address", address.host, address.port)
        self._accepting = Accepting(sockets, self.connections, self._begin)
        host, port = sockets[0].getsockname()[:2]
        return Address(host, port)

    async def _begin(self, line: socket.socket, address: str) -> None:
        made = Line(line) if self._https is None else TlsLine(line, self._https.context)
        await Connection(self.connections, made, address).run(self._answers.answer)

    async def stop(self) -> None:
        """Streams may end for a while; who only waits has nothing to wait for."""
        if self._accepting is not None:
            self._accepting.close()
        self.connections.stop()
        await asyncio.sleep(0)  # whoever was just let in has begun
        self.connections.end_waiting()
        if begun := list(self.connections.begun):
            _, late = await asyncio.wait(begun, timeout=STOP_SECONDS)
            for each in late:
                each.cancel()
            await asyncio.gather(*begun, return_exceptions=True)
