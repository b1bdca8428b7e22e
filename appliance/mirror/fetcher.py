"""Reads committed batches of the partitions that one source broker leads, on a thread of its own.

It uses Fetch up to version 12, which names topics, without a session. It sends the next request
before it puts the last response into the inbox, so the broker reads while the target writes. All
responses use one buffer: batches to send were copied out of it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from appliance.client.connection import Connection
from appliance.client.errors import BrokerRefused
from appliance.errors import ApplianceError
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import PositionMoved, TopicRefused
from appliance.mirror.inbox import Aborted, Fetched, Inbox, Octets
from appliance.mirror.progress import UNKNOWN, MirrorProgress
from appliance.mirror.refusals import REMEDIES
from appliance.mirror.site import COMMITTED, TopicPartition
from appliance.protocol import ErrorCode, codec
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse

BY_NAME = 12
NO_SESSION = -1

# (partition, records, next offset, aborted transactions) -> (payload, next offset, records, bytes)
Prepare = Callable[[TopicPartition, Octets, int, Aborted], tuple[Any, int, int, int]]


@dataclass(slots=True)
class Cursor:
    """The next fetch of one partition. The batch at the offset may begin below it."""

    fetch_offset: int
    next_offset: int  # that the target wants; below fetch_offset if the source has no such records


class Fetcher:
    def __init__(
        self,
        connection: Connection,
        cursors: dict[TopicPartition, Cursor],
        prepare: Prepare,
        inbox: Inbox,
        progress: MirrorProgress,
        config: MirrorConfig,
    ) -> None:
        self._connection, self._cursors = connection, cursors
        self._prepare, self._inbox, self._progress = prepare, inbox, progress
        self._config = config
        self._version = connection.version(FETCH, BY_NAME)
        self._buffer = bytearray()
        self._thread = threading.Thread(target=self._run, name="mirror-fetcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """After the inbox was closed: waits for at most one response."""
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._connection:
                self._fetch_on()
        except Exception as error:  # noqa: BLE001 - raised again by the round's own thread
            self._inbox.fail(error)

    def _fetch_on(self) -> None:
        self._ask()
        while not self._inbox.is_closed:
            answer = self._answer()
            if answer.error_code:
                raise BrokerRefused(answer.error_code, f"fetch at {self._connection.address}")
            found = list(self._taken(answer))
            if not self._cursors:
                return
            if not self._inbox.is_closed:
                self._ask()
            for each in found:
                if not self._inbox.put(each):
                    return

    def _answer(self) -> FetchResponse:
        _, _, version, body = self._connection.receive_bytes(self._room)
        return codec.decode(FetchResponse, body, version, borrow=True)

    def _room(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]

    def _ask(self) -> None:
        config = self._config
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=config.fetch_max_bytes,
            isolation_level=COMMITTED,
            session_epoch=NO_SESSION,
        )
        topics: dict[str, list[FetchRequest.FetchPartition]] = defaultdict(list)
        for partition, cursor in self._cursors.items():
            row = FetchRequest.FetchPartition(partition=partition.partition)
            row.fetch_offset = cursor.fetch_offset
            row.partition_max_bytes = config.fetch_partition_max_bytes
            topics[partition.topic].append(row)
        request.topics = [
            FetchRequest.FetchTopic(topic=name, partitions=rows) for name, rows in topics.items()
        ]
        self._connection.send(FETCH, request, version=self._version)

    def _taken(self, answer: FetchResponse) -> Iterator[Fetched]:
        """The fetched batches by partition. Partitions with records move to the end of the next
        request, because the first partitions of a request get the space."""
        for topic in answer.responses:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic, row.partition_index)
                if row.error_code:
                    self._refuse(partition, row)
                    continue
                fetched = self._of_partition(partition, row)
                if fetched is not None:
                    del self._cursors[partition]
                    self._cursors[partition] = Cursor(fetched.next_offset, fetched.next_offset)
                    yield fetched

    def _of_partition(
        self, partition: TopicPartition, row: FetchResponse.PartitionData
    ) -> Fetched | None:
        end_offset = row.high_watermark if row.last_stable_offset < 0 else row.last_stable_offset
        cursor = self._cursors[partition]
        before = cursor.next_offset
        self._progress.saw(partition, end_offset, UNKNOWN if row.records else before)
        if not row.records:
            return None
        aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()]
        try:
            payload, next_offset, records, size = self._prepare(
                partition, row.records, before, aborted
            )
        except ApplianceError as error:
            self._give_up(partition, f"at offset {cursor.fetch_offset}: {error}")
            return None
        if next_offset == before:
            return None
        return Fetched(partition, payload, next_offset, records, size)

    def _refuse(self, partition: TopicPartition, row: FetchResponse.PartitionData) -> None:
        offset = self._cursors[partition].fetch_offset
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise PositionMoved(f"{partition}: offset {offset} is not in the source any more")
        error = BrokerRefused(row.error_code, f"fetch of {partition} at offset {offset}")
        if row.error_code == ErrorCode.CORRUPT_MESSAGE:
            self._give_up(partition, str(error))
            return
        if error.code in REMEDIES:
            raise TopicRefused(partition.topic, str(error))
        if not self._progress.unread.lasts(partition, self._config.refresh_interval_ms):
            raise error
        self._give_up(partition, str(error))

    def _give_up(self, partition: TopicPartition, why: str) -> None:
        """One partition delays no other; the next round tries this one again."""
        del self._cursors[partition]
        self._progress.failed(partition, why)
