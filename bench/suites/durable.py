"""Durable produce: acks=all, and on Kafka flush.messages=1, without which it is not durable."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial

from bench.limits import ON_DISK, ONE_SYNC, WRITTEN, Limit
from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.cost import measured
from bench.peers.crowd import run_all
from bench.peers.turns import DURABLE, PAGE_CACHE, Case, Figures
from bench.run_size import Extent
from bench.suites.requests import CONNECTIONS, SECONDS, of_one

PRODUCERS, RECORD_BYTES = 16, 1000
SLOW, FAST = 200_000, 800_000  # records: some seconds for Kafka, durable and not


def producers(broker: Broker, topic: str, acks: int, counts: Mapping[str, int]) -> Figures:
    """Sixteen producers at once: from the first start to the last response."""
    count = counts[broker.name]
    words = clients.rdkafka_produce(broker.address, topic, RECORD_BYTES, count // PRODUCERS, acks)
    with measured(broker) as cost:
        begin = time.monotonic()
        run_all(words, PRODUCERS, broker.name)
        took = time.monotonic() - begin
    return {"records/s": count / took, **cost.per_byte(count * RECORD_BYTES)}


def durable(extent: Extent) -> Iterator[Case]:
    """One record per request; 16 producers on 16 and 64 partitions, durable and page cache."""
    one = partial(of_one, depth=1, seconds=extent.seconds(SECONDS), acks=-1)
    yield Case(f"durable, 1 record, {CONNECTIONS} connections", one, DURABLE,
               goals={"requests/s": 10}, limit=Limit(ONE_SYNC))
    fast = extent.records(FAST)
    for partitions in (16, 64):
        counts = {"appliance": fast, "kafka": extent.records(SLOW)}
        yield Case(f"durable, {partitions} partitions",
                   partial(producers, acks=-1, counts=counts), DURABLE, partitions,
                   goals={"records/s": 10}, weight=1.5, limit=Limit(ON_DISK, RECORD_BYTES))
        yield Case(f"page cache, {partitions} partitions",
                   partial(producers, acks=1, counts={"appliance": fast, "kafka": fast}),
                   PAGE_CACHE, partitions, limit=Limit(WRITTEN, RECORD_BYTES))
