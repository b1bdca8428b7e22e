"""A line between a client and a server that can be cut, and mended: the server lives meanwhile."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

CHUNK = 1 << 16


class CutLine:
    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_cut = False
        self._guard = threading.Lock()  # who is let in is seen by `cut`
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> CutLine:
        return self

    def __exit__(self, kind: type | None, value: object, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.cut()
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._ends):
            each.close()

    def cut(self) -> None:
        """Who is connected is cut off, and who comes is turned away."""
        with self._guard:
            self._is_cut = True
            for each in self._ends:
                end(each)

    def mend(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._guard:
                if self._is_cut:
                    client.close()
                    continue
                both = (client, socket.create_connection(self._server))
                self._ends += both
                for one, other in (both, both[::-1]):
                    self._threads.append(threading.Thread(target=self._pass, args=(one, other)))
                    self._threads[-1].start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while octets := one.recv(CHUNK):
                other.sendall(octets)
        end(one)
        end(other)


def end(side: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        side.shutdown(socket.SHUT_RDWR)
