"""What a topic holds, read by a client that is not ours."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

DEADLINE_S = 30.0


class Consumed(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]] | None = None


def consumed(bootstrap: str, topic: str) -> list[Consumed]:
    """All records, partition by partition in their order; none when there is no such topic."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
    }
    consumer = Consumer(settings)
    try:
        known = consumer.list_topics(topic, DEADLINE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in known])
        found: list[Consumed] = []
        left = len(known)
        while left:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"{topic}: nothing for {DEADLINE_S} s"
            error = message.error()
            if error is None:
                found.append(as_consumed(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
        return sorted(found, key=lambda each: each[:2])
    finally:
        consumer.close()


def as_consumed(message: Message) -> Consumed:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers = message.headers()
    return Consumed(
        partition, offset, message.key(), message.value(), message.timestamp()[1], headers
    )
