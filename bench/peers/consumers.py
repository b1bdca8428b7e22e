"""Consumers that read one partition from its start, each in a new process.

    python -m bench.peers.consumers WAY ADDRESS ZOOKEEPER TOPIC COUNT

prints the number of records, the seconds from the first fetch on, and the processor seconds of all
threads, without the start of the client.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

FETCH_SIZE = 4 << 20  # for all clients that have such a setting
CONSUME = 10_000  # messages per call of consume(); more are no faster
PATIENCE_S = 60


def simple(address: str, zookeeper: str, topic: str, count: int) -> Callable[[], int]:
    """Messages of SimpleConsumer."""
    from appliance.client.consumer_config import FetchConfig
    from appliance.client.simple_consumer import SimpleConsumer

    consumer = SimpleConsumer(FetchConfig(broker_list=address, fetch_size=FETCH_SIZE))
    consumer.fetch(topic, 0, count)

    def read() -> int:
        offset = seen = 0
        while offset < count:
            messages = consumer.fetch(topic, 0, offset)
            for _ in messages:
                seen += 1
            offset = messages.next_offset
        return seen

    return read


def stream(address: str, zookeeper: str, topic: str, count: int) -> Callable[[], int]:
    """Messages of a ConsumerConnector's stream."""
    from appliance.client.consumer_config import ConsumerConfig
    from appliance.client.consumer_connector import ConsumerConnector

    # a new group: the last turn did not leave its group, and still owns the partition
    config = ConsumerConfig(zk_connect=zookeeper, group_id=f"bench-{os.getpid()}",
                            fetch_size=FETCH_SIZE, autocommit_enable=False, queuedchunks_max=4)
    connector = ConsumerConnector(config)

    def read() -> int:
        seen = 0
        (messages,) = connector.create_message_streams({topic: 1})[topic]
        for _ in messages:
            seen += 1
            if seen == count:
                break
        return seen

    return read


def arrow(address: str, zookeeper: str, topic: str, count: int) -> Callable[[], int]:
    """Columns of fetch_arrow."""
    from appliance.client.consumer_config import FetchConfig
    from appliance.client.simple_consumer import SimpleConsumer

    consumer = SimpleConsumer(FetchConfig(broker_list=address, fetch_size=FETCH_SIZE))
    consumer.fetch_arrow(topic, 0, count)

    def read() -> int:
        offset = seen = 0
        while offset < count:
            batch = consumer.fetch_arrow(topic, 0, offset)
            seen += batch.num_rows
            offset = int(batch.schema.metadata[b"next_offset"])
        return seen

    return read


def confluent(address: str, zookeeper: str, topic: str, count: int) -> Callable[[], int]:
    """Messages of confluent-kafka's consume()."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": address,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": FETCH_SIZE,
        # the default stops fetching for a second at 100,000 queued messages
        "queued.min.messages": 10_000_000,
        "queued.max.messages.kbytes": 1 << 20,
    })
    consumer.list_topics(topic, PATIENCE_S)

    def read() -> int:
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = 0
        while seen < count:
            for message in consumer.consume(min(CONSUME, count - seen), PATIENCE_S):
                assert message.error() is None
                seen += 1
        return seen

    return read


def kafka_python(address: str, zookeeper: str, topic: str, count: int) -> Callable[[], int]:
    """Messages of kafka-python's iterator."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False,
                             auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_SIZE)
    consumer.assign([TopicPartition(topic, 0)])

    def read() -> int:
        seen = 0
        for _ in consumer:
            seen += 1
            if seen == count:
                break
        return seen

    return read


WAYS = {each.__name__: each for each in (simple, stream, arrow, confluent, kafka_python)}


def main(way: str, address: str, zookeeper: str, topic: str, count: str) -> None:
    read = WAYS[way](address, zookeeper, topic, int(count))
    begin, cpu = time.perf_counter(), time.process_time()
    seen = read()
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"records": seen, "seconds": took, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
