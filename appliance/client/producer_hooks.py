"""Hooks of a producer for its user: encoding, partitioning, events.

Hooks get whole portions of records. In an asynchronous producer they run on its thread, except the
two around enqueuing. If a hook raises, the records of its call fail.
"""

from __future__ import annotations

from typing import Any, Protocol

from appliance.client.outcome import Outcome, Records
from appliance.record._producer_batch_builder import key_hash


class Encoder:
    """Encodes values and keys. This one accepts bytes and returns them."""

    def encode(self, value: Any) -> bytes | None:
        encoded: bytes | None = value
        return encoded

    def encode_key(self, key: Any) -> bytes | None:
        encoded: bytes | None = key
        return encoded


class Partitioner:
    """Chooses one of `count` partitions, counted over all brokers in order. This one uses the hash
    of the key as Kafka's other producers do. It is not called for records without a key, which may
    go to any partition."""

    def partition(self, key: bytes, count: int) -> int:
        return key_hash(key) % count


class Delivery(Protocol):
    """Sends records for an event handler."""

    def send(self, records: list[Records]) -> None: ...


class EventHandler:
    """Takes dequeued records and sends them. This one sends them unchanged."""

    def handle(self, records: list[Records], delivery: Delivery) -> None:
        delivery.send(records)


class CallbackHandler:
    """Called for records at each stage; hooks that return records may change them."""

    def before_enqueue(self, records: Records) -> Records:
        return records

    def after_enqueue(self, records: Records, is_added: bool) -> None:
        """Not added: the queue was full, or the producer was closed."""

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        return records

    def before_send(self, records: list[Records]) -> list[Records]:
        return records

    def after_send(self, outcome: Outcome) -> None:
        """Once for all records that were added, or passed to a synchronous producer."""

    def on_close(self) -> list[Records]:
        """At the end. The returned records are sent last."""
        return []
