"""Batches that were read and not sent yet: many fetchers put, one thread takes."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from appliance.mirror.site import TopicPartition

Octets = bytes | memoryview  # records of a Fetch response; the last batch may be incomplete
Aborted = list[tuple[int, int]]  # producer id, first offset


@dataclass(slots=True)
class Fetched:
    """Committed batches of one partition, ready for the target."""

    partition: TopicPartition
    payload: Any  # returned by the target's `prepare`
    next_offset: int  # of the source, after these batches
    records: int
    size: int


class Inbox:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._waiting: deque[Fetched] = deque()
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self.is_closed = False

    def put(self, each: Fetched) -> bool:
        """Waits for space; False when the inbox is closed."""
        with self._changed:
            while self._bytes >= self._bytes_max and not self.is_closed:
                self._changed.wait()
            if not self.is_closed:
                self._waiting.append(each)
                self._bytes += each.size
                self._changed.notify_all()
            return not self.is_closed

    def take(self, bytes_max: int, timeout_s: float) -> list[Fetched]:
        """About `bytes_max` bytes in order. Raises a fetcher's error after everything before it
        was taken."""
        with self._changed:
            if not self._waiting and not self._failure and timeout_s > 0:
                self._changed.wait(timeout_s)
            if not self._waiting and self._failure:
                raise self._failure
            taken: list[Fetched] = []
            size = 0
            while self._waiting and (not taken or size + self._waiting[0].size <= bytes_max):
                taken.append(self._waiting.popleft())
                size += taken[-1].size
            self._bytes -= size
            self._changed.notify_all()
            return taken

    def fail(self, failure: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
