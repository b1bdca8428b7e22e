"""Stands between clients and a broker, passes everything on, and keeps the requests."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

CHUNK = 1 << 16


class FrameRelay:
    """`broker` is told after the start: the broker advertises this relay's address, so that clients
    which connect again come here."""

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        self._keep = keep
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.broker = ("", 0)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FrameRelay:
        return self

    def __exit__(self, kind: type | None, value: object, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed: the relay ends
                return
            broker = socket.create_connection(self.broker)
            for job in (self._requests, self._answers):
                threading.Thread(target=self._pass, args=(job, client, broker), daemon=True).start()

    @staticmethod
    def _pass(
        job: Callable[[socket.socket, socket.socket], None],
        client: socket.socket,
        broker: socket.socket,
    ) -> None:
        """One direction; its end is the end of both."""
        try:
            job(client, broker)
        except OSError:  # one side has gone
            pass
        finally:
            for each in (client, broker):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:  # not connected any more
                    each.close()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with client.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                self._keep(frame)
                broker.sendall(size + frame)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        while octets := broker.recv(CHUNK):
            client.sendall(octets)
