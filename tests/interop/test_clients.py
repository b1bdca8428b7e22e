"""Unmodified clients of today against `appliance serve`: what they produce is what they consume."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.test_server import Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DEADLINE_S = 30.0
COUNT = 300


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data: Path = tmp_path_factory.mktemp("clients")
    with Broker(data) as broker:
        yield broker.kafka


def sent() -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values, with and without."""
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"only-key", None), (None, b"only-value")]
    return pairs + [(b"k%d" % i, b"v" * i) for i in range(COUNT)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["1", "all"])
def test_confluent_kafka(bootstrap: str, codec: str, acks: str) -> None:
    topic = f"librdkafka-{codec}-{acks}"
    faults: list[object] = []
    producer = confluent_kafka.Producer({
        "bootstrap.servers": bootstrap, "compression.type": codec, "acks": acks,
        "enable.idempotence": acks == "all", "linger.ms": 5,
    })
    for key, value in sent():
        producer.produce(topic, value, key, headers=[("h", b"1")],
                         on_delivery=lambda error, _: faults.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert faults == []
    found = consumed(bootstrap, topic, len(sent()))
    assert [(each.key(), each.value()) for each in found] == sent()
    assert {str(each.headers()) for each in found} == {"[('h', b'1')]"}


def consumed(bootstrap: str, topic: str, count: int) -> list[confluent_kafka.Message]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "none",
                                         "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[confluent_kafka.Message] = []
    end = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < end:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


def compacted(bootstrap: str, name: str) -> None:
    new = NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[name].result(DEADLINE_S)


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_names_the_records_without_a_key(bootstrap: str, codec: str) -> None:
    topic = f"keyless-{codec}"
    compacted(bootstrap, topic)
    found: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 200,
                                         "compression.type": codec})
    for i in range(20):
        producer.produce(topic, b"v" * 100, None if i % 10 == 0 else b"k",
                         on_delivery=lambda error, _: found.append(error.name()))
    assert producer.flush(DEADLINE_S) == 0
    assert sorted(found) == ["INVALID_RECORD"] * 2 + ["_INVALID_DIFFERENT_RECORD"] * 18


def test_confluent_kafka_admin(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic("made", 3, 1, config={"retention.ms": "60000"})
    admin.create_topics([new])["made"].result(DEADLINE_S)
    assert len(admin.list_topics(timeout=DEADLINE_S).topics["made"].partitions) == 3
    resource = confluent_kafka.admin.ConfigResource("topic", "made")
    configs = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert configs["retention.ms"].value == "60000"
    admin.delete_topics(["made"])["made"].result(DEADLINE_S)
    assert "made" not in admin.list_topics(timeout=DEADLINE_S).topics


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python(bootstrap: str, codec: str) -> None:
    topic = f"kafka-python-{codec}"
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks="all",
                                   compression_type=None if codec == "none" else codec)
    futures = [producer.send(topic, value, key) for key, value in sent()]
    assert [each.get(DEADLINE_S).offset for each in futures] == list(range(len(sent())))
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None,
                                   consumer_timeout_ms=int(DEADLINE_S * 1000))
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert consumer.end_offsets([partition]) == {partition: len(sent())}
    found = [next(consumer) for _ in sent()]
    consumer.close()
    assert [(each.key, each.value) for each in found] == sent()


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka(bootstrap: str, codec: str) -> None:
    asyncio.run(asyncio.wait_for(through_aiokafka(bootstrap, codec), DEADLINE_S))


async def through_aiokafka(bootstrap: str, codec: str) -> None:
    topic = f"aiokafka-{codec}"
    compression = None if codec == "none" else codec
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", compression_type=compression
    ) as producer:
        for key, value in sent():
            await producer.send(topic, value, key)
        await producer.flush()
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        found = [await consumer.getone() for _ in sent()]
    finally:
        await consumer.stop()
    assert [(each.key, each.value) for each in found] == sent()
