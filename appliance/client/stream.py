"""A stream: the messages of its partitions, for one thread of the application.

A fetcher adds readers, one per chunk of a partition; the stream takes one after the other and
yields their messages. `Claim` is the state of one partition that stream and fetcher share.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from uuid import UUID

from appliance.client.errors import ConsumerTimeout
from appliance.client.range_assignor import StreamId, TopicPartition
from appliance.record._record_reader import ConsumerPosition, MessageIterator, RecordReader


class Claim:
    """The fetcher moves `offset`, the stream `progress`; an ended claim is never used again."""

    def __init__(self, of: TopicPartition, stream: Stream, size: int) -> None:
        self.of, self.stream = of, stream
        self.offset: int | None = None  # the next to fetch; None: unknown
        self.topic_id: UUID | None = None  # of the offset's topic
        self.is_of_old_topic = False  # a new topic has its name: no commits
        self.size = size  # of the next fetch
        self.progress = ConsumerPosition(-1)
        self.retry_at = 0.0  # by time.monotonic: before, nothing is asked for it
        self.has_failed = False  # the stream has the error; fetching ended
        self.is_out_of_range = False  # to be reset after all fetched messages are read
        self.has_lost_session = False  # another consumer may own the partition and have committed
        self.committed = -1  # the last stored offset

    def begin(self, offset: int) -> None:
        self.progress.done = self.progress.next_offset = offset
        self.offset, self.is_out_of_range, self.is_of_old_topic = offset, False, False

    @property
    def is_over(self) -> bool:
        return self.progress.is_over

    @property
    def is_drained(self) -> bool:
        """Whether all fetched messages were read and the next one was requested."""
        return self.progress.done == self.offset

    @property
    def can_take(self) -> bool:
        if self.is_over or self.has_failed:
            return False
        return self.is_drained if self.is_out_of_range else self.stream.has_room


class Stream(MessageIterator):
    """A blocking iterator. It ends when the connector shuts down."""

    def __init__(
        self, name: StreamId, chunks_max: int, timeout_ms: int, on_room: Callable[[], None]
    ) -> None:
        self.id = name
        self._chunks_max, self._timeout_ms, self._on_room = chunks_max, timeout_ms, on_room
        self._readers: deque[RecordReader] = deque()
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._is_closed = False

    @property
    def has_room(self) -> bool:
        return len(self._readers) < self._chunks_max

    def put(self, reader: RecordReader) -> None:
        with self._changed:
            self._readers.append(reader)
            self._changed.notify()

    def fail(self, error: Exception) -> None:
        """The iterator raises this error after the messages that it already has."""
        with self._changed:
            self._failure = error
            self._changed.notify()

    def forget_what_is_over(self) -> None:
        with self._changed:
            self._readers = deque(each for each in self._readers if not each.progress.is_over)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._readers.clear()
            self._changed.notify()

    def next_reader(self) -> RecordReader:
        end = time.monotonic() + self._timeout_ms / 1000
        with self._changed:
            if not self._readers:
                self._on_room()  # all is read, which a reset may wait for
            while not self._readers:
                if self._is_closed:
                    raise StopIteration
                if self._failure:
                    raise self._failure
                if self._timeout_ms < 0:
                    self._changed.wait()
                elif not self._changed.wait(end - time.monotonic()):
                    raise ConsumerTimeout(f"{self.id}: nothing to read in {self._timeout_ms} ms")
            reader = self._readers.popleft()
        self._on_room()
        return reader
