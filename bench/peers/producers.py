"""Producers that send lists of values to one partition, each in a new process.

    python -m bench.peers.producers WAY ADDRESS TOPIC SIZE COUNT

prints the number of records, the seconds until the last was acknowledged with acks=all, and the
processor seconds of all threads, without the start of the client.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

LIST = 10_000  # records per call
PATIENCE_S = 100
# confluent-kafka raises when its queue is full, so the queue has space for all records.
QUEUE = {"queue.buffering.max.messages": 5_000_000, "queue.buffering.max.kbytes": 2_000_000}

Send = Callable[[list[bytes], int], None]  # sends a list a number of times


def lists(address: str, topic: str) -> Send:
    """Our synchronous producer."""
    from appliance.client.producer import Producer
    from appliance.client.producer_config import ProducerConfig

    producer = Producer(ProducerConfig(broker_list=address))

    def send(values: list[bytes], times: int) -> None:
        for _ in range(times):
            producer.send(topic, values)

    return send


def queue(address: str, topic: str) -> Send:
    """Our asynchronous producer."""
    from appliance.client.outcome import Outcome
    from appliance.client.producer import Producer
    from appliance.client.producer_config import ProducerConfig
    from appliance.client.producer_hooks import CallbackHandler

    class RaiseErrors(CallbackHandler):
        def after_send(self, outcome: Outcome) -> None:
            if outcome.error:
                raise outcome.error

    config = ProducerConfig(broker_list=address, producer_type="async")
    producer = Producer(config, callback_handler=RaiseErrors())

    def send(values: list[bytes], times: int) -> None:
        for _ in range(times):
            producer.send(topic, values)
        producer.flush()

    return send


def confluent(address: str, topic: str) -> Send:
    """confluent-kafka's produce()."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "acks": "all", **QUEUE})

    def send(values: list[bytes], times: int) -> None:
        for _ in range(times):
            for value in values:
                producer.produce(topic, value)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    return send


def confluent_batch(address: str, topic: str) -> Send:
    """confluent-kafka's produce_batch(), which takes lists of dicts."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "acks": "all", **QUEUE})

    def send(values: list[bytes], times: int) -> None:
        for _ in range(times):
            messages = [{"value": value} for value in values]
            assert producer.produce_batch(topic, messages) == len(messages)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    return send


def kafka_python(address: str, topic: str) -> Send:
    """kafka-python's send()."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, acks="all")

    def send(values: list[bytes], times: int) -> None:
        for _ in range(times):
            for value in values:
                producer.send(topic, value)
        producer.flush(PATIENCE_S)

    return send


WAYS = {each.__name__: each for each in (lists, queue, confluent, confluent_batch, kafka_python)}
SLOWER = {"kafka_python": 50}  # divisor of the number of records, for a shorter turn


def main(way: str, address: str, topic: str, size: str, count: str) -> None:
    send = WAYS[way](address, topic)
    values = [os.urandom(int(size)) for _ in range(LIST)]
    send(values[:1], 1)
    times = max(1, int(count) // LIST // SLOWER.get(way, 1))
    begin, cpu = time.perf_counter(), time.process_time()
    send(values, times)
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"records": times * LIST, "seconds": took, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
