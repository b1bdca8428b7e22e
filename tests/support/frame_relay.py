"""Stands between clients and a broker, passes everything on, and tells what is requested.

It can also lose an answer: the client never hears it, and its connection is cut, as by a line that
breaks just then, or stays, as where the broker is slow.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType

CHUNK = 1 << 16


class ConnectionCut(OSError):
    """On purpose, instead of an answer."""


class FrameRelay:
    """`broker` is told after the start: the broker advertises this relay's address, so that clients
    which connect again come here. It may change: the address of the relay stays."""

    def __init__(
        self,
        keep: Callable[[bytes], None] = lambda frame: None,
        loses: Callable[[bytes, bytes], bool] | None = None,
        *,
        cuts: bool = True,
    ) -> None:
        """`loses` is asked of each request and its answer."""
        self._keep, self._loses, self._cuts = keep, loses, cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.broker = ("", 0)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FrameRelay:
        return self

    def __exit__(self, kind: type | None, value: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed: the relay ends
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                broker = socket.create_connection(self.broker)
            except OSError:  # it is down, and the client sees the same
                return
            with broker:
                both, asked = (client, broker), dict[bytes, bytes]()
                jobs = (partial(self._requests, asked), partial(self._answers, asked))
                back = threading.Thread(target=self._pass, args=(jobs[1], *both), daemon=True)
                back.start()
                self._pass(jobs[0], *both)
                back.join()

    @staticmethod
    def _pass(
        job: Callable[[socket.socket, socket.socket], None],
        client: socket.socket,
        broker: socket.socket,
    ) -> None:
        """One direction; its end is the end of both. Either side may be gone at any time."""
        with suppress(OSError):
            job(client, broker)
        for each in (client, broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _requests(
        self, asked: dict[bytes, bytes], client: socket.socket, broker: socket.socket
    ) -> None:
        for size, frame in frames(client):
            self._keep(frame)
            if self._loses:
                asked[frame[4:8]] = frame  # by its correlation id
            broker.sendall(size + frame)

    def _answers(
        self, asked: dict[bytes, bytes], client: socket.socket, broker: socket.socket
    ) -> None:
        if self._loses is None:
            while octets := broker.recv(CHUNK):
                client.sendall(octets)
            return
        for size, frame in frames(broker):
            if not self._loses(asked.pop(frame[:4]), frame):
                client.sendall(size + frame)
            elif self._cuts:
                raise ConnectionCut


def frames(side: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Each with the four bytes of its size."""
    with side.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            yield size, stream.read(struct.unpack(">i", size)[0])
