"""An idempotent producer and a consumer in a group, which go on while a broker is replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS, GROUP = 3, "readers"
DEADLINE_S = 60.0
PAUSE_S = 0.001  # between two records
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 100}


class SteadyLoad:
    """Numbers, one record each: which were acknowledged, and which the group has read."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.acknowledged: set[int] = set()
        self.read: set[int] = set()
        self.failed: list[str] = []
        self.longest_pause_s = 0.0  # between two acknowledgements
        self._sends, self._reads = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(DEADLINE_S)

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """When the group has read all that was acknowledged."""
        self._sends.set()
        self._threads[0].join(2 * DEADLINE_S)
        until(lambda: self.acknowledged <= self.read)
        self._reads.set()
        self._threads[1].join(DEADLINE_S)
        assert not any(each.is_alive() for each in self._threads)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all",
                             "enable.idempotence": True, "linger.ms": 5,
                             "message.timeout.ms": 60_000, **QUIET})  # fmt: skip
        number, self._last_s = 0, time.monotonic()
        while not self._sends.wait(PAUSE_S):
            producer.produce(self.topic, str(number).encode(), partition=number % PARTITIONS,
                             on_delivery=self._heard)  # fmt: skip
            producer.poll(0)
            number += 1
        if left := producer.flush(DEADLINE_S):
            self.failed.append(f"{left} have no outcome")

    def _heard(self, error: Any, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        now = time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, now - self._last_s)
        self._last_s = now
        self.acknowledged.add(number_of(message))

    def _consume(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": GROUP,
                             "auto.offset.reset": "earliest",
                             "enable.auto.commit": True, **QUIET})  # fmt: skip
        consumer.subscribe([self.topic])
        while not self._reads.is_set():
            for each in consumer.consume(500, timeout=0.2):
                if each.error() is None:
                    self.read.add(number_of(each))
        consumer.close()  # and commits


def number_of(message: Message) -> int:
    return int(message.value() or b"")


def held(bootstrap: str, topic: str) -> list[list[int]]:
    """What each partition has, in its order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "proof", **QUIET})
    try:
        return [_of_partition(consumer, TopicPartition(topic, each, 0))
                for each in range(PARTITIONS)]  # fmt: skip
    finally:
        consumer.close()


def count_of(bootstrap: str, topic: str) -> int:
    return sum(map(len, held(bootstrap, topic)))


def _of_partition(consumer: Consumer, partition: TopicPartition) -> list[int]:
    _, end = consumer.get_watermark_offsets(partition, timeout=DEADLINE_S)
    consumer.assign([partition])
    found: list[int] = []
    while len(found) < end:
        batch = consumer.consume(10_000, timeout=5)
        assert batch, f"{len(found)} of {end}"
        found += [number_of(each) for each in batch]
    return found


def committed(bootstrap: str, topic: str) -> int:
    """Of all partitions together."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUIET})
    try:
        wanted = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        return sum(each.offset for each in consumer.committed(wanted, timeout=DEADLINE_S))
    finally:
        consumer.close()


def until(is_so: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)
