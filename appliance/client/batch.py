"""Batches in flight, and the sequence numbers by which a broker detects repeated ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from appliance.client.broker_partition import BrokerPartition
from appliance.client.outcome import Outcome, Records, told_as
from appliance.errors import BatchTooLarge
from appliance.process import event_log
from appliance.protocol.codec import Pieces
from appliance.record import compression
from appliance.record._producer_batch_builder import EncodedRecords, batch_head, encode_records

log = event_log.named("client")

SEQUENCE_END = 2**31  # after it a producer starts at 0 again


@dataclass(eq=False, slots=True)
class Identity:
    """The identity of an idempotent producer for one partition."""

    producer_id: int
    epoch: int
    next_sequence: int = 0

    def take(self, count: int) -> int:
        taken = self.next_sequence
        self.next_sequence = (taken + count) % SEQUENCE_END
        return taken


@dataclass(slots=True)
class Group:
    """Records for one partition, as the caller passed them and as bytes."""

    topic: str
    partition: BrokerPartition
    given: Records
    values: list[bytes | None]
    keys: list[bytes | None] | None
    timestamps: int | list[int]
    headers: list[bytes | None] | None = None  # from `encode_headers`


@dataclass(eq=False, slots=True)
class Batch:
    group: Group
    start: int  # of its records in the group
    encoded: EncodedRecords
    payload: bytes  # the bytes of `encoded`, compressed if the codec says so
    codec: int
    order: int  # over the whole producer: batches of a partition are sent in this order
    deadline: float  # of time.monotonic
    identity: Identity | None = None
    sequence: int = -1
    tries: int = 0
    is_under_way: bool = False  # sent, and not answered yet
    may_be_written: bool = False  # its connection was lost, or its answer is not conclusive
    head: bytes = field(default=b"", repr=False)

    @property
    def topic(self) -> str:
        return self.group.topic

    @property
    def partition(self) -> BrokerPartition:
        return self.group.partition

    @property
    def records(self) -> Records:
        return self.group.given.cut(self.start, self.start + self.encoded.count)

    def take_identity(self, identity: Identity | None) -> None:
        """Assigns its sequence number, which it keeps when it is sent again."""
        self.identity, self.head = identity, b""
        self.sequence = identity.take(self.encoded.count) if identity else -1

    def on_the_wire(self) -> Pieces:
        if not self.head:
            who = (self.identity.producer_id, self.identity.epoch) if self.identity else (-1, -1)
            self.head = batch_head(self.encoded, self.payload, self.codec, *who, self.sequence)
        return Pieces((self.head, self.payload))


def batches_of(
    group: Group, codec: int, size_max: int, orders: Iterator[int], deadline: float
) -> Iterator[Batch | Outcome]:
    """Makes batches one by one, on request. A record that fits into none gets its outcome."""
    at = 0
    while at < len(group.values):
        try:
            made = encode_records(
                group.values, group.keys, group.timestamps, at, size_max, group.headers
            )
            payload = compression.compress(codec, made.data) if codec else made.data
        except BatchTooLarge as error:
            yield Outcome(group.given.cut(at, at + 1), group.partition, error=error)
            at += 1
            continue
        except Exception as error:  # such as no memory for the compressed bytes
            rest = group.given.cut(at, len(group.given))
            log.exception("no batch could be made", topic=group.topic, records=len(rest))
            yield Outcome(rest, group.partition, error=told_as(error))
            return
        yield Batch(group, at, made, payload, codec, next(orders), deadline)
        at += made.count
