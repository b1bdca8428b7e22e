"""What a producer lets its user put in: how values become bytes, where records go, who hears of it.

Hooks get records in the portions in which they travel, not one by one. Those of an asynchronous
producer run on its thread, but for the two around enqueuing; what they raise is reported as the
failure of the records that they were given.
"""

from __future__ import annotations

from typing import Any, Protocol

from appliance.client.outcome import Outcome, Records
from appliance.record._record_builder import key_hash


class Encoder:
    """Makes bytes of values and keys. This one takes bytes and does nothing."""

    def encode(self, value: Any) -> bytes | None:
        encoded: bytes | None = value
        return encoded

    def encode_key(self, key: Any) -> bytes | None:
        encoded: bytes | None = key
        return encoded


class Partitioner:
    """Picks one of `count` partitions, which are those of all brokers in order. This one takes the
    hash of the key, the one that Kafka's other producers use. Without a key nobody is asked: any
    partition will do."""

    def partition(self, key: bytes, count: int) -> int:
        return key_hash(key) % count


class Delivery(Protocol):
    """What an event handler has records sent by."""

    def send(self, records: list[Records]) -> None: ...


class EventHandler:
    """Takes what was dequeued and has it sent. This one sends it as it is."""

    def handle(self, records: list[Records], delivery: Delivery) -> None:
        delivery.send(records)


class CallbackHandler:
    """Hears of records at each stage of their way; those hooks that return records may change
    them."""

    def before_enqueue(self, records: Records) -> Records:
        return records

    def after_enqueue(self, records: Records, is_added: bool) -> None:
        """Not added: the queue was full, or the producer was closed."""

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        return records

    def before_send(self, records: list[Records]) -> list[Records]:
        return records

    def after_send(self, outcome: Outcome) -> None:
        """Once for all records that were added or given to a synchronous producer."""

    def on_close(self) -> list[Records]:
        """When no more is taken. What it returns is sent with the rest."""
        return []
