"""HTTP as it is on the wire: what a client of a library would never send, can be sent."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 20.0


@dataclass
class Heard:
    status: int
    headers: dict[str, str]  # in small letters; of several the first
    body: bytes
    cookies: list[str]

    @property
    def told(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error."""
        return str(self.told["error"]["code"])


class HttpClient:
    """One connection."""

    def __init__(
        self, address: tuple[str, int], source: str = "127.0.0.1", timeout: float = TIMEOUT_S
    ) -> None:
        self.host = f"{address[0]}:{address[1]}"
        self.socket = socket.create_connection(address, timeout, (source, 0))
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def head(self, line: str, *headers: str) -> bytes:
        return "\r\n".join([f"{line} HTTP/1.1", f"Host: {self.host}", *headers, "", ""]).encode()

    def send(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def ask(
        self, line: str, body: bytes | object | None = None, headers: Iterable[str] = ()
    ) -> Heard:
        """`line` is method and path; a body that is no bytes is sent as JSON."""
        octets = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        given = list(headers)
        if body is not None:
            given += [f"Content-Length: {len(octets)}"]
            if not any(each.lower().startswith("content-type") for each in given):
                given += ["Content-Type: application/json"]
        self.send(self.head(line, *given) + octets)
        return self.answer()

    def answer(self) -> Heard:
        """EOFError: the broker closed the connection."""
        line = self._file.readline()
        if not line:
            raise EOFError
        headers: dict[str, str] = {}
        cookies = []
        while text := self._file.readline().strip().decode("latin-1"):
            name, _, value = text.partition(":")
            headers.setdefault(name.lower(), value.strip())
            if name.lower() == "set-cookie":
                cookies.append(value.partition(";")[0].strip())
        body = self._file.read(int(headers.get("content-length", "0")))
        return Heard(int(line.split()[1]), headers, body, cookies)

    def line(self) -> bytes:
        return self._file.readline().strip()

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def reset(self) -> None:
        """Leaves without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def ends(self) -> bool:
        """Whether the broker closes it, whatever it says before."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True


def _json(body: object) -> bytes:
    return json.dumps(body).encode()
