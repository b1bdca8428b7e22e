"""What a connection of bulk data reads and writes by: the socket as it is, or TLS on it.

The event loop reads and writes heads and short answers. Data goes from a thread, which nobody else
does meanwhile. With TLS the thread writes through OpenSSL on the socket's own descriptor: by way of
asyncio's memory buffers each byte would be copied three times more, on the loop. Where the kernel
can encrypt, it does.

What OpenSSL asks for:

    a read first        bytes that it holds already make no descriptor readable
    the same bytes      what was not written whole is written again from its beginning; OpenSSL
                        knows how far it came. Nothing else is written before
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from appliance.certificates.first_byte import begins_tls

Buffer = bytes | memoryview
Result = TypeVar("Result")


class Line:
    def __init__(self, found: socket.socket) -> None:
        self.socket = found
        self._loop = asyncio.get_running_loop()

    async def begin(self) -> bool:
        """Before anything else. False: it ends."""
        return True

    async def receive(self, size: int) -> bytes:
        return await self._loop.sock_recv(self.socket, size)

    async def send_all(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    def send_some(self, buffers: Sequence[Buffer]) -> int:
        """Of their beginning, from any thread. BlockingIOError: the socket is full."""
        return self.socket.sendmsg(buffers, (), socket.MSG_DONTWAIT)

    def end_sending(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()


class TlsLine(Line):
    def __init__(self, found: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(found)
        self._context = context

    async def begin(self) -> bool:
        if not await begins_tls(self.socket):
            return False
        agreeing = self._context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.socket = agreeing
        await self._until_done(agreeing.do_handshake)
        return True

    async def receive(self, size: int) -> bytes:
        return await self._until_done(partial(self.socket.recv, size))

    async def send_all(self, data: bytes) -> None:
        begin = 0
        while begin < len(data):
            rest = memoryview(data)[begin:]
            begin += await self._until_done(partial(self.socket.send, rest))

    def send_some(self, buffers: Sequence[Buffer]) -> int:
        try:
            return self.socket.send(buffers[0])
        except ssl.SSLWantWriteError as error:
            raise BlockingIOError from error

    def end_sending(self) -> None:
        self._say_goodbye()
        super().end_sending()

    def close(self) -> None:
        self._say_goodbye()
        super().close()

    def _say_goodbye(self) -> None:
        """If there is room for it, and nothing is half written."""
        with suppress(OSError, ValueError):
            if isinstance(self.socket, ssl.SSLSocket):
                self.socket.unwrap()

    async def _until_done(self, step: Callable[[], Result]) -> Result:
        loop = self._loop
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._ready(loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await self._ready(loop.add_writer, loop.remove_writer)

    async def _ready(self, add: Callable[..., Any], remove: Callable[..., Any]) -> None:
        is_ready: asyncio.Future[None] = self._loop.create_future()

        def tell() -> None:
            if not is_ready.done():
                is_ready.set_result(None)

        add(self.socket.fileno(), tell)
        try:
            await is_ready
        finally:
            remove(self.socket.fileno())
