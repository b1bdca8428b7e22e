"""A data plane with real logs, an open listener and one that asks for a login; the test is its
control plane."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from appliance._log import Log
from appliance.config import LogConfig, NetworkConfig
from appliance.data_dir.log_dir import LogDir
from appliance.network._data_plane import DataPlane, Punt
from appliance.network._handed_out import Closure, Question
from appliance.record import _batch_builder
from appliance.record._records import Record
from tests.support.wire_client import TOPIC_ID, WireClient

DEADLINE_S = 10
ANONYMOUS, HOST = "User:ANONYMOUS", "127.0.0.1"
PARTITIONS = 3
NETWORK = NetworkConfig(drain_timeout_ms=1000)
READ, WRITE, DESCRIBE = 1, 2, 4

Found = TypeVar("Found")


def batch(text: bytes = b"value", **facts: Any) -> bytes:
    now = time.time_ns() // 1_000_000
    return bytes(_batch_builder.batch([Record(now, b"key", text)], **facts))


class SmallControl:
    def __init__(self, path: Path, **limits: Any) -> None:
        self.log_dir = LogDir.open(path)
        self.log_config = LogConfig(visibility="appended")
        self.logs = [self.log_dir.create("t", each, self.log_config) for each in range(PARTITIONS)]
        self.plane = DataPlane(replace(NETWORK, **limits))
        # Nobody looks here for a broker that is gone: see `support/data_plane.py`.
        listeners = [socket.create_server(("127.0.0.2", 0), backlog=1024) for _ in range(2)]
        self.open, self.gated = (each.getsockname() for each in listeners)
        for each, asks_login in zip(listeners, (False, True), strict=True):
            self.plane.listen(each, asks_login)
        self.plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](self.logs))
        self.plane.start()
        self._punts: list[Punt] = []
        self._closures: list[Closure] = []
        self._questions: list[Question] = []
        self.gone: list[int] = []

    def close(self) -> None:
        self.plane.stop(1000)
        self.log_dir.close()

    # What the data plane hands out

    def take(self) -> None:
        punts, gone = self.plane.punts()
        self._punts += punts
        self.gone += gone
        self._closures += self.plane.closures()[0]
        self._questions += self.plane.questions()

    def _next(self, found: list[Found], what: str) -> Found:
        deadline = time.monotonic() + DEADLINE_S
        handed_out = select.poll()
        handed_out.register(self.plane.punt_fd, select.POLLIN)
        self.take()
        while not found:
            left = deadline - time.monotonic()
            assert left > 0, f"no {what} in {DEADLINE_S} s"
            handed_out.poll(left * 1000)
            self.take()
        return found.pop(0)

    def punt(self) -> Punt:
        return self._next(self._punts, "punt")

    def closure(self) -> Closure:
        return self._next(self._closures, "closure")

    def question(self) -> Question:
        return self._next(self._questions, "question")

    def has_nothing(self) -> bool:
        """Whatever the clients sent before is dealt with when a request of another is."""
        self.take()
        return not (self._punts or self._closures or self._questions)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    # What it is told

    def reply(self, punt: Punt, frame: bytes | None) -> None:
        self.plane.reply_all([(punt.connection, punt.slot, frame)])

    def decide(
        self, known: int, allowed: int, generation: int = 1, topic: str = "t",
        principal: str = ANONYMOUS,
    ) -> None:  # fmt: skip
        self.plane.decide(principal, HOST, topic, known, allowed, generation)

    def settle(self, question: Question, allowed: int, generation: int = 1) -> None:
        for topic in question.topics:
            self.plane.decide(question.principal, question.host, topic, READ, allowed, generation)
        self.plane.wake(question.connection, question.slot)

    def client(self, is_gated: bool = False, timeout: float = DEADLINE_S) -> WireClient:
        return WireClient(self.gated if is_gated else self.open, timeout)

    def logged_in(self, principal: str, expires_ns: int = 0) -> tuple[WireClient, int]:
        """A client, and the number of its connection."""
        client = self.client(is_gated=True)
        client.send(SASL_AUTHENTICATE)
        punt = self.punt()
        self.plane.log_in(punt.connection, principal, expires_ns)
        self.reply(punt, b"welcome")
        assert client.receive() == b"welcome"
        return client, punt.connection


@contextmanager
def small_control(path: Path, **limits: Any) -> Iterator[SmallControl]:
    made = SmallControl(path, **limits)
    try:
        yield made
    finally:
        made.close()


def request(key: int, version: int = 0, body: bytes = b"") -> bytes:
    """A frame without its length, with a client id of one letter."""
    return struct.pack(">hhih", key, version, 7, 1) + b"c" + body


SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = request(17), request(18), request(36)
