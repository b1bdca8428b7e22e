"""Reads partitions at offsets that the caller keeps. The consumer only remembers connections, and
the id of each topic since its first use.

    consumer = SimpleConsumer(FetchConfig(broker_list="box:9092"))
    fetched = consumer.fetch("clicks", 0, offset)
    for message in fetched: ...
    offset = fetched.next_offset

One thread at a time may use it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import UUID

from appliance.client import fetch
from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.connection import Connection, Room
from appliance.client.consumer_config import FetchConfig
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConnectionLost,
    PartitionUnknown,
)
from appliance.client.fetch import Fetched, Wanted
from appliance.client.moved_leaders import followed, may_have_moved, moved
from appliance.client.offsets_before import EARLIEST, LATEST, ask_offset, spread
from appliance.client.range_assignor import TopicPartition
from appliance.record import arrow
from appliance.record._record_reader import ConsumerPosition, Message, RecordReader, whole_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EARLIEST", "LATEST", "FetchRequest", "MessageSet", "SimpleConsumer"]

T = TypeVar("T")


class FetchRequest(NamedTuple):
    """A request of a multifetch."""

    topic: str
    partition: BrokerPartition | int
    offset: int
    size: int = 0  # 0: `fetch_size`


class MessageSet:
    """The messages of one fetch. Each iteration decodes them again."""

    def __init__(self, fetched: Fetched) -> None:
        self.topic, self.partition = fetched.wanted.of
        self.offset = fetched.wanted.offset
        self.high_watermark = fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        self._visible = fetched.visible
        self.size, end_offset = whole_batches(fetched.records, self.offset)
        self.next_offset = max(self.offset, end_offset)

    def __iter__(self) -> Iterator[Message]:
        position = ConsumerPosition(self.offset)
        return iter(RecordReader(self._visible, self.topic, self.partition, position))

    def arrow(self) -> pa.RecordBatch:
        """The messages as columns. `next_offset` and `high_watermark` are in the metadata."""
        facts = {
            "next_offset": str(self.next_offset),
            "high_watermark": str(self.high_watermark),
        }
        return arrow.record_batch(
            self._visible, first_offset=self.offset, partial_tail=True, metadata=facts
        )


class SimpleConsumer:
    def __init__(self, config: FetchConfig) -> None:
        self.config = config
        self.cluster = Cluster(config)
        self._connections: dict[int, Connection] = {}
        self._topic_ids: dict[tuple[str, int], UUID | None] = {}  # by broker and topic
        self._buffer = bytearray()
        self._ahead: dict[int, list[Wanted]] = {}  # requested from a broker, response not read yet
        self._follows: Wanted | None = None  # the likely next request of the reader

    def __enter__(self) -> SimpleConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for each in self._connections.values():
            each.close()
        self.cluster.close()

    # records

    def fetch(
        self, topic: str, partition: BrokerPartition | int, offset: int, size: int = 0
    ) -> MessageSet:
        """Messages from `offset` on; empty, if there are none within `fetch_wait_max_ms`. For a
        batch larger than `size` it fetches again with twice as much, up to `fetch_size_max`."""
        return MessageSet(self._whole(self._wanted(topic, partition, offset, size)))

    def multifetch(self, requests: Iterable[FetchRequest]) -> list[MessageSet | BrokerRefused]:
        """Fetches many partitions, in the order of the requests; one request per broker, all sent
        before the first response. A partition with an error has the error as its result."""
        wanted = [self._wanted(*each) for each in requests]
        parts: dict[int, Fetched | BrokerRefused] = {}
        questions = [*self._by_broker(wanted)]
        self._ask_each_ahead([wanted[i] for i in indices] for indices in questions)
        for indices in questions:
            for index, part in zip(indices, self._ask([wanted[i] for i in indices]), strict=True):
                parts[index] = part
        return [self._settled(wanted[index], parts[index]) for index in range(len(wanted))]

    def fetch_arrow(
        self, topic: str, partition: BrokerPartition | int, offset: int, size: int = 0
    ) -> pa.RecordBatch:
        """The result of `fetch` as columns, without a Python object per record."""
        wanted = self._wanted(topic, partition, offset, size)
        part = self._whole(wanted, self._room)
        messages = MessageSet(part)
        follows = wanted._replace(offset=messages.next_offset)
        if (
            self.config.fetch_ahead
            and wanted == self._follows
            and messages.next_offset < part.end_offset
        ):
            self._ask_ahead([follows])
        self._follows = follows
        return messages.arrow()

    # offsets

    def get_offsets_before(
        self, topic: str, partition: BrokerPartition | int, time: int, count: int = 1
    ) -> list[int]:
        """At most `count` offsets to start at, largest first, none after `time`: LATEST, EARLIEST,
        or milliseconds since 1970. The first is the offset of the first message not older than
        `time`; the others are evenly spread down to the first existing one."""
        of = self._find(topic, partition)
        self._topic_id(of)  # first, so that a fetch notices a topic that is created later

        def ask(leader: int) -> tuple[int, int]:
            return self._tried(leader, lambda: self._first_and_last(leader, of, time))

        first, last = followed(self.cluster, of, ask)
        return spread(first, max(first, last), count)

    def begin_anew(self, topic: str) -> None:
        """To be called after TopicMadeAnew: offsets are now of the present topic."""
        for key in [key for key in self._topic_ids if key[0] == topic]:
            del self._topic_ids[key]

    # requests

    def _wanted(
        self, topic: str, partition: BrokerPartition | int, offset: int, size: int
    ) -> Wanted:
        of = self._find(topic, partition)
        return Wanted(of, offset, size or self.config.fetch_size, self._topic_id(of))

    def _topic_id(self, of: TopicPartition) -> UUID | None:
        key = of.topic, of.partition.broker
        if key not in self._topic_ids:
            self._topic_ids[key] = followed(
                self.cluster, of, lambda leader: self.cluster.topic_id(leader, of.topic)
            )
        return self._topic_ids[key]

    def _find(self, topic: str, partition: BrokerPartition | int) -> TopicPartition:
        """Accepts a bare number if only one broker has that partition."""
        if isinstance(partition, BrokerPartition):
            return TopicPartition(topic, partition)
        there = self.cluster.partitions(topic)
        named = [each for each in there if each.partition == partition]
        if len(named) != 1:
            names = ", ".join(map(str, there))
            raise PartitionUnknown(
                f"{topic}: got the partition {partition!r}, which {len(named)} of {names} have: "
                "wanted the number of one, or a BrokerPartition"
            ).at(topic=topic)
        return TopicPartition(topic, named[0])

    def _by_broker(self, wanted: list[Wanted]) -> Iterator[list[int]]:
        """Indices, a list per request. A request names a partition once, because the response
        cannot tell two offsets of a partition apart."""
        questions: dict[tuple[int, int], list[int]] = {}
        asked: Counter[TopicPartition] = Counter()
        for index, each in enumerate(wanted):
            leader = self.cluster.leader(*each.of)
            questions.setdefault((asked[each.of], leader), []).append(index)
            asked[each.of] += 1
        yield from questions.values()

    def _connection(self, broker: int, wanted: Sequence[Wanted] = ()) -> Connection:
        """A connection with nothing in flight, or with the response to `wanted`, which was
        requested ahead."""
        connection = self._connections.get(broker)
        ahead = self._ahead.pop(broker, None)
        if (
            connection
            and ahead
            and (ahead != wanted or time.monotonic() > (connection.deadline or 0))
        ):
            connection.close()  # the pending response is not needed
        if connection is None or not connection.is_open:
            connection = self._connections[broker] = self.cluster.connect(broker)
        return connection

    def _ask_each_ahead(self, questions: Iterable[list[Wanted]]) -> None:
        """Sends the first request to each broker, so that all brokers work at the same time."""
        first: dict[int, list[Wanted]] = {}
        for each in questions:
            first.setdefault(self.cluster.leader(*each[0].of), each)
        if len(first) > 1:
            for each in first.values():
                self._ask_ahead(each)

    def _ask_ahead(self, wanted: list[Wanted]) -> None:
        """Requests the next records while the caller decodes: only records that exist already, or
        if the caller asks at once; then an early response is no older than a late one."""
        with suppress(BrokerUnavailable):  # the next fetch reports the error
            broker = self.cluster.leader(*wanted[0].of)
            connection = self._connection(broker, wanted)
            if not connection.in_flight:
                fetch.send(connection, self.config, wanted, self.config.fetch_wait_max_ms)
            self._ahead[broker] = wanted

    def _ask(self, wanted: list[Wanted], room: Room = bytearray) -> list[Fetched | BrokerRefused]:
        """Reads from one broker; what has moved from there, from its new leader."""
        leader = self.cluster.leader(*wanted[0].of)
        parts: list[Fetched | BrokerRefused | BrokerUnavailable]
        try:
            parts = [*self._ask_leader(leader, wanted, room)]
        except BrokerUnavailable as error:
            parts = [error] * len(wanted)
        self._follow(wanted, parts, room)
        for each in parts:
            if isinstance(each, BrokerUnavailable):
                raise each
        return [each for each in parts if not isinstance(each, BrokerUnavailable)]

    def _follow(
        self,
        wanted: list[Wanted],
        parts: list[Fetched | BrokerRefused | BrokerUnavailable],
        room: Room,
    ) -> None:
        """Replaces the errors of what has another leader by that one's answers."""
        both = zip(wanted, parts, strict=True)
        lost = {each.of: i for i, (each, part) in enumerate(both) if may_have_moved(each.of, part)}
        again: dict[int, list[int]] = {}
        for of, leader in moved(self.cluster, lost).items():
            again.setdefault(leader, []).append(lost[of])
        for leader, indices in again.items():
            found = self._ask_leader(leader, [wanted[i] for i in indices], room)
            for index, part in zip(indices, found, strict=True):
                parts[index] = part

    def _ask_leader(
        self, leader: int, wanted: list[Wanted], room: Room
    ) -> list[Fetched | BrokerRefused]:
        def ask() -> list[Fetched | BrokerRefused]:
            connection = self._connection(leader, wanted)
            if not connection.in_flight:
                fetch.send(connection, self.config, wanted, self.config.fetch_wait_max_ms)
            return fetch.receive(connection, self.config, wanted, room)

        return [
            fetch.explained(self.cluster, leader, each, part)
            if isinstance(part, BrokerRefused)
            else part
            for each, part in zip(wanted, self._tried(leader, ask), strict=True)
        ]

    def _first_and_last(self, leader: int, of: TopicPartition, time: int) -> tuple[int, int]:
        connection = self._connection(leader)
        last = ask_offset(connection, self.config, of, time)
        if last is None:  # no record is as new
            last = ask_offset(connection, self.config, of, LATEST)
        first = ask_offset(connection, self.config, of, EARLIEST)
        assert last is not None
        assert first is not None
        return first, last

    def _tried(self, broker: int, ask: Callable[[], T]) -> T:
        """Retries once, because the broker may have closed an idle connection."""
        was_used = broker in self._connections
        try:
            return ask()
        except ConnectionLost:
            if not was_used:
                raise
        return ask()

    def _room(self, size: int) -> memoryview:
        """A buffer for a response that is copied before the next one arrives."""
        if size > len(self._buffer):
            self._buffer = bytearray(max(size, 2 * len(self._buffer)))
        return memoryview(self._buffer)[:size]

    def _whole(self, wanted: Wanted, room: Room = bytearray) -> Fetched:
        while True:
            (part,) = self._ask([wanted], room)
            if isinstance(part, BrokerRefused):
                raise part
            if not part.is_left_out:
                part.check_size(self.config.fetch_size_max)
                return part
            wanted = wanted._replace(size=part.next_size(self.config.fetch_size_max))

    def _settled(self, wanted: Wanted, part: Fetched | BrokerRefused) -> MessageSet | BrokerRefused:
        if isinstance(part, BrokerRefused):
            return part
        if part.is_left_out:  # other partitions took the space: a fetch of this one alone gets data
            part = self._whole(wanted)
        part.check_size(self.config.fetch_size_max)
        return MessageSet(part)
