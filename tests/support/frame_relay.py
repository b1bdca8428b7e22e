"""Stands between clients and a broker, passes everything on, and tells what is requested."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

CHUNK = 1 << 16


class FrameRelay:
    """`broker` is told after the start: the broker advertises this relay's address, so that clients
    which connect again come here. It may change: the address of the relay stays."""

    def __init__(self, keep: Callable[[bytes], None] = lambda frame: None) -> None:
        self._keep = keep
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
                both = (client, broker)
                back = threading.Thread(target=self._pass, args=(self._answers, *both), daemon=True)
                back.start()
                self._pass(self._requests, *both)
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

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with client.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                self._keep(frame)
                broker.sendall(size + frame)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        while octets := broker.recv(CHUNK):
            client.sendall(octets)
