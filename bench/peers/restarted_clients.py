"""Clients of a broker that is restarted: each prints the time of each record that was acknowledged,
or read, until SIGTERM.

    python -m bench.peers.restarted_clients WAY ADDRESS

Producers have acks=all and send one record every 5 ms without waiting for the one before. Consumers
read, in a group, what the producers send. Defaults but for what is named here.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, PARTITIONS = "restarted", 4
EVERY_S = 0.005
VALUE = bytes(100)
DELIVERY_MS = 60_000  # who tries again for so long sees a restart as a pause
# librdkafka begins from its bootstrap servers when its only broker closes a connection, and asks
# then for metadata by a timer of one second.
KEPT = {"metadata.recovery.strategy": "none"}

stopped = threading.Event()


def make_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        made.result(30)


def tell(*_: object) -> None:
    sys.stdout.write(f"{time.monotonic():.6f}\n")


def paced() -> bool:
    """False at the end."""
    return not stopped.wait(EVERY_S)


def confluent_producer(address: str) -> None:
    _confluent_producer(address, {})


def confluent_producer_kept(address: str) -> None:
    _confluent_producer(address, KEPT)


def _confluent_producer(address: str, more: dict[str, str]) -> None:
    from confluent_kafka import Producer

    def acknowledged(error: object, message: object) -> None:
        if error is None:
            tell()

    producer = Producer(
        {"bootstrap.servers": address, "delivery.timeout.ms": DELIVERY_MS, **more}
    )
    while paced():
        producer.produce(TOPIC, VALUE, on_delivery=acknowledged)
        producer.poll(0)
    producer.flush(10)


def kafka_python_producer(address: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, acks="all", retries=1000,
                             delivery_timeout_ms=DELIVERY_MS)  # fmt: skip
    while paced():
        producer.send(TOPIC, VALUE).add_callback(tell)
    producer.close(10)


def aiokafka_producer(address: str) -> None:
    asyncio.run(_aiokafka_producer(address))


async def _aiokafka_producer(address: str) -> None:
    from aiokafka import AIOKafkaProducer

    def acknowledged(done: asyncio.Future[object]) -> None:
        if done.exception() is None:
            tell()

    async with AIOKafkaProducer(bootstrap_servers=address, acks="all") as producer:
        while not stopped.is_set():
            (await producer.send(TOPIC, VALUE)).add_done_callback(acknowledged)
            await asyncio.sleep(EVERY_S)


def our_producer(address: str) -> None:
    from appliance.client import CallbackHandler, Outcome, Producer, ProducerConfig

    class Tells(CallbackHandler):
        def after_send(self, outcome: Outcome) -> None:
            if outcome.is_acknowledged:
                tell()

    config = ProducerConfig(broker_list=address, producer_type="async", queue_time=5)
    with Producer(config, callback_handler=Tells()) as producer:
        while paced():
            producer.send(TOPIC, VALUE)


def confluent_consumer(address: str) -> None:
    _confluent_consumer(address, {"group.id": "classic"})


def confluent_consumer_kept(address: str) -> None:
    _confluent_consumer(address, {"group.id": "kept", **KEPT})


def confluent_consumer_new_kept(address: str) -> None:
    """The group protocol of KIP-848."""
    _confluent_consumer(address, {"group.id": "new", "group.protocol": "consumer", **KEPT})


def _confluent_consumer(address: str, more: dict[str, str]) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": address, **more})
    consumer.subscribe([TOPIC])
    while not stopped.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            tell()
    consumer.close()


def kafka_python_consumer(address: str) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(TOPIC, bootstrap_servers=address, group_id="kafka-python")
    while not stopped.is_set():
        for rows in consumer.poll(100).values():
            for _ in rows:
                tell()
    consumer.close()


WAYS: dict[str, Callable[[str], None]] = {
    "confluent-producer": confluent_producer,
    "confluent-producer-kept": confluent_producer_kept,
    "kafka-python-producer": kafka_python_producer,
    "aiokafka-producer": aiokafka_producer,
    "our-producer": our_producer,
    "confluent-consumer": confluent_consumer,
    "confluent-consumer-kept": confluent_consumer_kept,
    "confluent-consumer-new-kept": confluent_consumer_new_kept,
    "kafka-python-consumer": kafka_python_consumer,
}


def main() -> None:
    way, address = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    WAYS[way](address)


if __name__ == "__main__":
    main()
