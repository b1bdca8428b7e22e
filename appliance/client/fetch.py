"""One Fetch to one broker: partitions and offsets in, whole undecoded batches out.

A topic is requested by its id, so a new topic of the same name is never read in its place. Only
brokers without ids (Apache Kafka before 3.1) are asked by name. Records are not copied out of the
response.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from appliance.client.cluster import Cluster
from appliance.client.connection import Connection, Room
from appliance.client.consumer_config import READ_COMMITTED, FetchConfig
from appliance.client.errors import (
    BrokerRefused,
    MessageTooLarge,
    OffsetOutOfRange,
    TopicMadeAnew,
)
from appliance.client.metadata import NO_ID
from appliance.client.range_assignor import TopicPartition
from appliance.protocol import ErrorCode, codec
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.record import _batch

LAST_BY_NAME = 12
OF_ANOTHER_ID = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
LENGTH_AT, LENGTH_END = 8, 12  # of a batch: the number of the following bytes
FETCH_SIZE_MAX = 2**31 - 1  # an int32

Aborted = FetchResponse.AbortedTransaction


class Wanted(NamedTuple):
    of: TopicPartition
    offset: int
    size: int
    topic_id: UUID | None  # of the topic that the offset belongs to; None: unknown


@dataclass(slots=True)
class Fetched:
    """A broker's data of one partition, from an offset on."""

    wanted: Wanted
    records: memoryview
    high_watermark: int
    log_start_offset: int
    end_offset: int  # the end for readers
    aborted: list[Aborted]

    @property
    def visible(self) -> memoryview | bytes:
        """Without the batches of aborted transactions."""
        return committed(self.records, self.aborted) if self.aborted else self.records

    @property
    def is_left_out(self) -> bool:
        """Whether only an incomplete batch arrived."""
        size = batch_size(self.records)
        is_cut = size == 0 or size > len(self.records)
        return is_cut and (size > 0 or self.wanted.offset < self.end_offset)

    def next_size(self, size_max: int) -> int:
        """The size to request for a whole batch: twice as much, until it fits."""
        needed, size = batch_size(self.records), self.wanted.size
        if needed > size_max or size >= size_max:
            claimed = f"of {needed}" if needed else f"of more than {size}"
            raise MessageTooLarge(
                f"{self.wanted.of} offset {self.wanted.offset}: a batch {claimed} bytes, "
                f"fetch_size_max is {size_max}"
            ).at(self.wanted.of, offset=self.wanted.offset)
        size *= 2
        while size < needed:
            size *= 2
        return min(size, size_max)

    def check_size(self, size_max: int) -> None:
        """A broker sends the first batch whole, however large it is."""
        size = batch_size(self.records)
        if size > size_max:
            raise MessageTooLarge(
                f"{self.wanted.of} offset {self.wanted.offset}: a batch of {size} bytes, "
                f"fetch_size_max is {size_max}"
            ).at(self.wanted.of, offset=self.wanted.offset)


def batch_size(records: memoryview) -> int:
    """The size of the first batch; 0 if too little of it arrived."""
    if len(records) < LENGTH_END:
        return 0
    return LENGTH_END + int.from_bytes(records[LENGTH_AT:LENGTH_END], "big")


def committed(records: memoryview, aborted: Iterable[Aborted]) -> bytes:
    """The batches outside aborted transactions. An aborted transaction of a producer begins at an
    offset that the broker lists, and ends with its marker."""
    begins = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_ids: set[int] = set()
    kept = []
    for batch in _batch.headers(records, partial_tail=True):
        while begins and begins[-1].first_offset <= batch.last_offset:
            open_ids.add(begins.pop().producer_id)
        octets = records[batch.position : batch.position + batch.size]
        if batch.is_control:
            ended = _batch.control(octets)
            if ended and ended[0] == "abort":
                open_ids.discard(batch.producer_id)
        elif not batch.is_transactional or batch.producer_id not in open_ids:
            kept.append(octets)
    return b"".join(kept)


def send(
    connection: Connection, config: FetchConfig, wanted: Sequence[Wanted], wait_ms: int
) -> None:
    """Requests all at once. The sum of their sizes limits the response."""
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=min(sum(each.size for each in wanted), FETCH_SIZE_MAX),
        isolation_level=int(config.isolation_level == READ_COMMITTED),
    )
    rows: dict[tuple[str, UUID], FetchRequest.FetchTopic] = {}
    for each in wanted:
        topic, name = each.of
        key = topic, each.topic_id or NO_ID
        row = rows.setdefault(key, FetchRequest.FetchTopic(*key))
        row.partitions.append(
            FetchRequest.FetchPartition(
                partition=name.partition,
                fetch_offset=each.offset,
                partition_max_bytes=each.size,
            )
        )
    request.topics = [*rows.values()]
    timeout_ms = config.socket_timeout_ms + wait_ms
    may_go_by_id = all(each.topic_id for each in wanted)
    version = connection.version(FETCH, most=None if may_go_by_id else LAST_BY_NAME)
    connection.send(FETCH, request, timeout_ms=timeout_ms, version=version)


def receive(
    connection: Connection, config: FetchConfig, wanted: Iterable[Wanted], room: Room = bytearray
) -> list[Fetched | BrokerRefused]:
    """In the order of `wanted`; an error concerns one partition."""
    _, _, version, body = connection.receive_bytes(room)
    answer = codec.decode(FetchResponse, body, version, borrow=True)
    if answer.error_code:
        address = connection.address
        raise BrokerRefused(answer.error_code, f"broker {address}: Fetch").at(broker=address)
    by_name = version <= LAST_BY_NAME
    parts: dict[tuple[object, int], FetchResponse.PartitionData] = {
        (topic.topic if by_name else topic.topic_id, part.partition_index): part
        for topic in answer.responses
        for part in topic.partitions
    }
    return [
        of_answer(
            config,
            each,
            parts[each.of.topic if by_name else each.topic_id, each.of.partition.partition],
        )
        for each in wanted
    ]


def explained(
    cluster: Cluster, broker: int, wanted: Wanted, refusal: BrokerRefused
) -> BrokerRefused:
    """The broker does not know the requested id: returns whether another topic has its name."""
    if refusal.code not in OF_ANOTHER_ID or wanted.topic_id is None:
        return refusal
    try:
        now = cluster.topic_id(broker, wanted.of.topic)
    except BrokerRefused as error:  # deleted, and no topic has its name
        return error
    if now is None or now == wanted.topic_id:
        return refusal
    return TopicMadeAnew(wanted.of, wanted.offset, wanted.topic_id, now)


def of_answer(
    config: FetchConfig, wanted: Wanted, part: FetchResponse.PartitionData
) -> Fetched | BrokerRefused:
    if part.error_code:
        out_of_range = part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        kind = OffsetOutOfRange if out_of_range else BrokerRefused
        refusal = kind(part.error_code, f"{wanted.of} offset {wanted.offset}")
        return refusal.at(wanted.of, offset=wanted.offset)
    is_committed = config.isolation_level == READ_COMMITTED
    return Fetched(
        wanted,
        memoryview(part.records or b""),
        part.high_watermark,
        part.log_start_offset,
        part.last_stable_offset if is_committed else part.high_watermark,
        part.aborted_transactions or [],
    )
