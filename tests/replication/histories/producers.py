"""Producers that append to lists: each value is one of its own, and has a key whose list it joins.

    idempotent  acks=all: exactly once, in the order of sending
    all         acks=all: at least once; who tries again may append it twice
    leader      acks=1: what was acknowledged may be lost with the leader that died
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.replication.histories.ledger import Append, Ledger
from tests.replication.histories.site import Site

KEYS = 12
PAUSE_S = 0.012
# Longer than a round: who gives up a part of a batch has to end its producer for good.
TIMEOUT_MS = 7_200_000
KINDS: dict[str, dict[str, Any]] = {
    "idempotent": {"acks": "all", "enable.idempotence": True},
    "all": {"acks": "all"},
    "leader": {"acks": "1"},
}


def key_of(value: str) -> int:
    return int(value.split(":")[1]) % KEYS


class Appending:
    def __init__(self, site: Site, ledger: Ledger, kind: str, name: str, partitions: int) -> None:
        self.kind, self.name = kind, name
        self.fatal = ""
        self._ledger, self._partitions = ledger, partitions
        self._is_ending = threading.Event()
        self._producer = Producer({
            "bootstrap.servers": site.bootstrap, "message.timeout.ms": TIMEOUT_MS, "linger.ms": 5,
            "client.id": name, "request.timeout.ms": 10_000, "socket.timeout.ms": 15_000,
            "reconnect.backoff.max.ms": 1000, "log_level": 2, **KINDS[kind],
        })  # fmt: skip
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_ending.is_set():
            self._send(number)
            number += 1
            with suppress(KafkaException):
                self._producer.poll(PAUSE_S)

    def _send(self, number: int) -> None:
        value = f"{self.name}:{number}"
        partition = ("log", key_of(value) % self._partitions)
        append = Append(self.name, number, partition, time.monotonic())
        with self._ledger.guard:
            self._ledger.appends[value] = append
        try:
            self._producer.produce(
                "log", value, key=str(key_of(value)), partition=partition[1],
                on_delivery=partial(self._note, append),
            )  # fmt: skip
            return
        except BufferError:  # full: the next `poll` makes room
            pass
        except KafkaException as error:  # it has given up for good
            self.fatal = self.fatal or str(error)
            self._is_ending.set()
        with self._ledger.guard:
            del self._ledger.appends[value]

    def _note(self, append: Append, error: Any, message: Any) -> None:
        if error is None:
            is_all = self.kind != "leader"
            # Not known where a second attempt found that the first had been taken.
            offset = -1 if message.offset() is None else message.offset()
            self._ledger.acked(append, offset, time.monotonic(), is_all)
            return
        append.error = str(error)
        if error.fatal():
            self.fatal = str(error)

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()

    def flush(self, timeout_s: float) -> int:
        """How many are neither acknowledged nor refused in time. They are not sent any more: what
        came behind the last look at the logs would be taken for gone."""
        with suppress(KafkaException):
            self._producer.flush(timeout_s)
        left = len(self._producer)
        with suppress(KafkaException):
            self._producer.purge()
        return left
