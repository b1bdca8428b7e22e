"""The queue of an asynchronous producer: bounded by records, emptied in portions by one thread.

A portion is due when there are `batch_size` records, when the oldest has waited `queue_time`, or
when somebody flushes. The thread sleeps on a file descriptor beside its sockets; the first record,
a full portion and a mark wake it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from appliance.client.outcome import ProducerClosed, Records
from appliance.client.producer_config import ProducerConfig


class Mark(threading.Event):
    """A mark that passes through the queue like a record. It is set when all records before it
    have an outcome."""


class EventQueue:
    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self._items: deque[Records | Mark] = deque()
        self._since: deque[float] = deque()  # by time.monotonic: the arrival of each item
        self._count = 0  # of records
        self._marks = 0
        self._room = threading.Condition()  # for all fields above
        self.is_closed = False
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __len__(self) -> int:
        return self._count

    @property
    def has_items(self) -> bool:
        """Records or marks."""
        return bool(self._items)

    def release(self) -> None:
        os.close(self.wake)

    # producers

    def put(self, records: Records) -> Iterator[tuple[Records, bool]]:
        """Adds the records piece by piece as space allows; yields each piece and whether it was
        added. Only the last piece may time out."""
        timeout_ms = self.config.queue_enqueue_timeout
        end = time.monotonic() + timeout_ms / 1000 if timeout_ms >= 0 else float("inf")
        at = 0
        while at < len(records):
            added = self._put_some(records, at, end)
            yield records.cut(at, at + added if added else len(records)), added > 0
            if not added:
                return
            at += added

    def _put_some(self, records: Records, at: int, end: float) -> int:
        size = self.config.queue_size
        with self._room:
            while self._count >= size and not self.is_closed:
                left_s = end - time.monotonic()
                if left_s <= 0:
                    return 0
                self._room.wait(None if left_s == float("inf") else left_s)
            if self.is_closed:
                raise ProducerClosed("this producer was closed")
            piece = records.cut(at, at + size - self._count)
            before, self._count = self._count, self._count + len(piece)
            self._items.append(piece)
            self._since.append(time.monotonic())
            if len(self._items) == 1 or before < self.config.batch_size <= self._count:
                self._signal()
            return len(piece)

    def put_mark(self) -> Mark:
        mark = Mark()
        with self._room:
            self._items.append(mark)
            self._since.append(time.monotonic())
            self._marks += 1
            self._signal()
        return mark

    def close(self) -> None:
        """Closes the queue. Calls that wait for room fail."""
        with self._room:
            self.is_closed = True
            self._room.notify_all()
            self._signal()

    def _signal(self) -> None:
        os.eventfd_write(self.wake, 1)

    # the thread

    def due_in_s(self) -> float:
        """Seconds until a portion is due. 0: now. Infinity: the queue is empty."""
        with self._room:
            if self._marks or self._count >= self.config.batch_size:
                return 0.0
            if self.is_closed and self._items:
                return 0.0
            if not self._since:
                return float("inf")
            left_s = self._since[0] + self.config.queue_time / 1000 - time.monotonic()
            return max(0.0, left_s)

    def take(self) -> tuple[list[Records], Mark | None]:
        """A portion of at most `batch_size` records, up to a mark."""
        taken: list[Records] = []
        left = self.config.batch_size
        mark = None
        with self._room:
            self._drain_signal()
            while self._items and left and mark is None:
                item = self._items.popleft()
                since = self._since.popleft()
                if isinstance(item, Mark):
                    mark, self._marks = item, self._marks - 1
                    continue
                if len(item) > left:
                    self._items.appendleft(item.cut(left, len(item)))
                    self._since.appendleft(since)
                    item = item.cut(0, left)
                taken.append(item)
                left -= len(item)
            self._count -= sum(map(len, taken))
            self._room.notify_all()
        return taken, mark

    def quiet(self) -> None:
        """Clears the wake-up."""
        with self._room:
            self._drain_signal()

    def _drain_signal(self) -> None:
        with suppress(BlockingIOError):  # no signal was pending
            os.eventfd_read(self.wake)
