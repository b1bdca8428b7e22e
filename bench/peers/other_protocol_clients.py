"""Producers and consumers of one topic for brokers of several protocols. Each uses the common
Python client of its protocol, with many records in flight.

    python -m bench.peers.other_protocol_clients WAY ADDRESS TOPIC SIZE COUNT

prints the seconds from the first record to the last response, or to the last record read.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

IN_FLIGHT = 1000  # records in flight, or per read
PATIENCE_S = 120


def kafka_write(address: str, topic: str, size: int, count: int, acks: str) -> float:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "acks": acks, "log_level": 0,
                         "queue.buffering.max.messages": 10 * IN_FLIGHT})
    producer.list_topics(topic, PATIENCE_S)
    value, begin = os.urandom(size), time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(PATIENCE_S):
        raise TimeoutError("not all records were acknowledged")
    return time.perf_counter() - begin


def kafka_read(address: str, topic: str, size: int, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "log_level": 0,
                         "enable.auto.commit": False, "queued.min.messages": 10_000_000})
    consumer.list_topics(topic, PATIENCE_S)
    begin, seen = time.perf_counter(), 0
    consumer.assign([TopicPartition(topic, 0, 0)])
    while seen < count:
        messages = consumer.consume(min(IN_FLIGHT, count - seen), PATIENCE_S)
        seen += must_be_some(len(messages))
    return time.perf_counter() - begin


def must_be_some(count: int) -> int:
    if not count:
        raise TimeoutError(f"no record arrived for {PATIENCE_S} s")
    return count


def with_nats(job: Callable[[Any], Awaitable[float]], address: str) -> float:
    async def whole() -> float:
        client: Any = await importlib.import_module("nats").connect(f"nats://{address}")
        try:
            return await job(client.jetstream(timeout=PATIENCE_S))
        finally:
            await client.close()

    return asyncio.run(whole())


def nats_write(address: str, topic: str, size: int, count: int) -> float:
    async def job(stream: Any) -> float:
        value, begin = os.urandom(size), time.perf_counter()
        for at in range(0, count, IN_FLIGHT):
            await asyncio.gather(*(stream.publish(topic, value)
                                   for _ in range(min(IN_FLIGHT, count - at))))
        return time.perf_counter() - begin

    return with_nats(job, address)


def nats_read(address: str, topic: str, size: int, count: int) -> float:
    async def job(stream: Any) -> float:
        begin, seen = time.perf_counter(), 0
        reader = await stream.subscribe(topic, ordered_consumer=True)
        while seen < count:
            await reader.next_msg(PATIENCE_S)
            seen += 1
        return time.perf_counter() - begin

    return with_nats(job, address)


def redis_client(address: str) -> Any:
    port = int(address.rpartition(":")[2])
    return importlib.import_module("redis").Redis(port=port, socket_timeout=PATIENCE_S)


def redis_write(address: str, topic: str, size: int, count: int) -> float:
    client = redis_client(address)
    client.ping()
    value, begin = os.urandom(size), time.perf_counter()
    for at in range(0, count, IN_FLIGHT):
        under_way = client.pipeline(transaction=False)
        for _ in range(min(IN_FLIGHT, count - at)):
            under_way.xadd(topic, {"v": value})
        under_way.execute()
    return time.perf_counter() - begin


def redis_read(address: str, topic: str, size: int, count: int) -> float:
    client = redis_client(address)
    client.ping()
    begin, seen, last = time.perf_counter(), 0, b"0"
    while seen < count:
        ((_, entries),) = client.xread({topic: last}, count=IN_FLIGHT)
        seen, last = seen + must_be_some(len(entries)), entries[-1][0]
    return time.perf_counter() - begin


def rabbitmq_client(kind: str, address: str) -> Any:
    """A producer or a consumer, with the default user, which a new node accepts on loopback."""
    host, port = address.split(":")
    client: Any = getattr(importlib.import_module("rstream"), kind)
    return client(host, int(port), username="guest", password="guest")


def rabbitmq_write(address: str, topic: str, size: int, count: int) -> float:
    """Sends each batch as one frame; a node accepts up to 1 MiB."""
    async def job() -> float:
        value = os.urandom(size)
        async with rabbitmq_client("Producer", address) as producer:
            begin = time.perf_counter()
            for at in range(0, count, IN_FLIGHT):
                await batch(producer, [value] * min(IN_FLIGHT, count - at))
            return time.perf_counter() - begin

    async def batch(producer: Any, values: list[bytes]) -> None:
        answered, left = asyncio.get_running_loop().create_future(), len(values)

        def on_confirm(status: Any) -> None:
            nonlocal left
            left -= 1
            if not status.is_confirmed and not answered.done():
                answered.set_exception(ValueError(f"refused: code {status.response_code}"))
            elif not left and not answered.done():
                answered.set_result(None)

        await producer.send_batch(topic, values, on_publish_confirm=on_confirm)
        await asyncio.wait_for(answered, PATIENCE_S)

    return asyncio.run(job())


def rabbitmq_read(address: str, topic: str, size: int, count: int) -> float:
    async def job() -> float:
        seen = 0

        def on_record(value: bytes, context: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                consumer.stop()

        async with rabbitmq_client("Consumer", address) as consumer:
            begin = time.perf_counter()
            await consumer.subscribe(topic, on_record)
            await asyncio.wait_for(consumer.run(), PATIENCE_S)
            return time.perf_counter() - begin

    return asyncio.run(job())


def appliance_write(address: str, topic: str, size: int, count: int) -> float:
    return kafka_write(address, topic, size, count, "1")


def appliance_write_durable(address: str, topic: str, size: int, count: int) -> float:
    return kafka_write(address, topic, size, count, "all")


WAYS: dict[str, Callable[[str, str, int, int], float]] = {
    "appliance write": appliance_write, "appliance write durable": appliance_write_durable,
    "appliance read": kafka_read, "nats write": nats_write, "nats read": nats_read,
    "redis write": redis_write, "redis write durable": redis_write, "redis read": redis_read,
    "rabbitmq write": rabbitmq_write, "rabbitmq read": rabbitmq_read,
}


def main(way: str, address: str, topic: str, size: str, count: str) -> None:
    print(json.dumps({"seconds": WAYS[way](address, topic, int(size), int(count))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
