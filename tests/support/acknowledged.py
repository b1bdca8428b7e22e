"""A producer in the background, and what was acknowledged to it: the ledger of a test in which
brokers die or partitions move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import Producer

DEADLINE_S = 60.0


class Acknowledged:
    """Into one partition, with acks=all."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0, size: int = 1000) -> None:
        self.values: list[str] = []
        self.refused: list[str] = []
        self._topic, self._partition = topic, partition
        self._padding = "x" * size
        self._is_ending = threading.Event()
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
            "message.timeout.ms": 300_000, "linger.ms": 5,
        })  # fmt: skip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_ending.is_set():
            with suppress(BufferError):  # full: `poll` makes room
                value = f"{number}-{self._padding}"
                self._producer.produce(
                    self._topic, value, partition=self._partition,
                    on_delivery=lambda error, _, value=value: self._note(error, value),
                )  # fmt: skip
                number += 1
            self._producer.poll(0.002)

    def _note(self, error: Any, value: str) -> None:
        if error is None:
            self.values.append(value)
        else:
            self.refused.append(str(error))

    def until_more(self, count: int = 20) -> None:
        """It goes on: so many more are acknowledged."""
        wanted = len(self.values) + count
        until(lambda: len(self.values) >= wanted or bool(self.refused),
              f"{wanted} acknowledged records")  # fmt: skip
        assert self.refused == []

    def end(self) -> list[str]:
        """What was acknowledged; nothing is under way any more."""
        self._is_ending.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0
        return self.values


@contextmanager
def producing(bootstrap: str, topic: str, partition: int = 0) -> Iterator[Acknowledged]:
    found = Acknowledged(bootstrap, topic, partition)
    try:
        yield found
    finally:
        found.end()


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.05)
