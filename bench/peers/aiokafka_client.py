"""A producer and a consumer of one partition, by aiokafka with its defaults: a program of
`other_clients`.

    python -m bench.peers.aiokafka_client produce ADDRESS TOPIC SIZE COUNT ACKS CODEC
    python -m bench.peers.aiokafka_client consume ADDRESS TOPIC COUNT
"""

from __future__ import annotations

import asyncio
import json
import string
import sys
import time
from itertools import chain
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

PATIENCE_S = 120
ACKS = {"1": 1, "all": "all"}
CODECS = {"none": None, "lz4": "lz4"}


class Acknowledged:
    """Counts the answers. The futures themselves would be a million objects."""

    def __init__(self) -> None:
        self.count = 0
        self.error: BaseException | None = None

    def one(self, done: asyncio.Future[Any]) -> None:
        self.error = self.error or done.exception()
        self.count += 1


def known(word: str, what: str, values: dict[str, Any]) -> Any:
    if word not in values:
        raise SystemExit(f"wanted {what} {' or '.join(values)}, got {word}")
    return values[word]


async def produce(address: str, topic: str, size: str, count: str, acks: str, codec: str) -> None:
    value = (string.ascii_lowercase * (int(size) // 26 + 1))[: int(size)].encode()
    acknowledged = Acknowledged()
    async with AIOKafkaProducer(
        bootstrap_servers=address, acks=known(acks, "acks", ACKS),
        compression_type=known(codec, "codec", CODECS),
    ) as producer:  # fmt: skip
        await producer.partitions_for(topic)
        begin = clocks()
        for _ in range(int(count)):
            (await producer.send(topic, value)).add_done_callback(acknowledged.one)
        await producer.flush()
        tell(begin, acknowledged.count)
    if acknowledged.error is not None:
        raise acknowledged.error


async def consume(address: str, topic: str, count: str) -> None:
    async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
        first = TopicPartition(topic, 0)
        consumer.assign([first])
        begin, seen = clocks(), 0
        consumer.seek(first, 0)
        while seen < int(count):
            batches = await asyncio.wait_for(consumer.getmany(timeout_ms=1000), PATIENCE_S)
            seen += sum(1 for _ in chain(*batches.values()))
        tell(begin, seen)


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def tell(begin: tuple[float, float], records: int) -> None:
    seconds, cpu = (now - then for now, then in zip(clocks(), begin, strict=True))
    print(json.dumps({"records": records, "seconds": seconds, "cpu": cpu}))


def main(way: str, *words: str) -> None:
    ways = {"produce": produce, "consume": consume}
    asyncio.run(known(way, "way", ways)(*words))


if __name__ == "__main__":
    main(*sys.argv[1:])
