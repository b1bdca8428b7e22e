"""Stands before a NameNode's WebHDFS, passes requests on, and spoils some of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass
class Passing:
    cuts: str = "none"  # an operation whose connection is cut instead of an answer,
    times: int = 0  # so often,
    is_passed: bool = True  # after it was done, or before
    replaces: bool = False  # renames go over what is there
    status: int = 0  # of all answers


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind: ClassVar[int]
    passing: ClassVar[Passing]

    def pass_on(self) -> None:
        """What is written goes to the DataNodes, not through here: there are no bodies."""
        if self.passing.status:
            return self._answer(self.passing.status, {}, b"<html></html>")
        is_cut = f"op={self.passing.cuts}" in self.path and self.passing.times > 0
        if is_cut:
            self.passing.times -= 1
        if not is_cut or self.passing.is_passed:
            answer = self._asked()
        if is_cut:
            self.close_connection = True
            return None
        return self._answer(*answer)

    def _asked(self) -> tuple[int, dict[str, str], bytes]:
        path = self.path
        spoils = self.passing.replaces and "op=RENAME" in path and "renameoptions" not in path
        if spoils:
            path += "&renameoptions=OVERWRITE"
        connection = HTTPConnection("127.0.0.1", self.behind)
        connection.request(self.command, path)
        answer = connection.getresponse()
        data = b'{"boolean":true}' if spoils and answer.status == 200 else answer.read()
        kept = {name: value for name, value in answer.getheaders()
                if name in ("Location", "Content-Type")}
        connection.close()
        return answer.status, kept, data

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_DELETE = do_POST = pass_on

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def relay_before(port: int, passing: Passing) -> Iterator[int]:
    handler = type("Before", (Relay,), {"behind": port, "passing": passing})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
