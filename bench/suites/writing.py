"""Throughput of producers: sizes of records, partitions, codecs, and the ceiling of the client.

`page cache` means acks=1 and, on ours, topics with visibility=appended: no request waits for syncs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from bench.limits import WRITTEN, Limit
from bench.peers import clients
from bench.peers.brokers import Broker, FloorBroker
from bench.peers.cost import measured
from bench.peers.turns import PAGE_CACHE, Case, Figures, Goals
from bench.run_size import Extent

LOADS = {10: 8_000_000, 100: 5_000_000, 1000: 1_000_000, 10_000: 100_000}  # bytes, records
GOALS: Goals = {"records/s": 1.3, "cpu s/GB": 1 / 3}
FLOOR = FloorBroker.name  # reads a batch, writes it to a file, responds and sends from it


def loaded(broker: Broker, command: Sequence[str], moved: int) -> Figures:
    """Includes the client's processor time, which shows how far the broker determines the rate."""
    with measured(broker) as cost:
        rate = clients.rates(clients.run(command))[-1]
    return {"records/s": rate, **cost.per_byte(moved)}


def by_librdkafka(broker: Broker, topic: str, size: int, count: int,
                  codec: str = "none") -> Figures:
    words = clients.rdkafka_produce(broker.address, topic, size, count, 1, "-z", codec,
                                    *broker.words)
    return loaded(broker, words, size * count)


def by_java(broker: Broker, topic: str, size: int, count: int) -> Figures:
    words = clients.java_produce(broker.address, topic, size, count, "acks=1",
                                 *clients.JAVA_PRODUCER)
    return loaded(broker, words, size * count)


def produce(extent: Extent) -> Iterator[Case]:
    """Records of 10 B to 10 KB into one partition, by librdkafka and by Java."""
    for size, whole in LOADS.items():
        count = extent.records(whole)
        for client, job in (("librdkafka", by_librdkafka), ("Java", by_java)):
            yield Case(f"produce {size} B, {client}", partial(job, size=size, count=count),
                       PAGE_CACHE, goals=GOALS, limit=Limit(WRITTEN, size), floor=FLOOR)


def partitions(extent: Extent) -> Iterator[Case]:
    """Records of 100 B into 10 and 100 partitions, at random."""
    job = partial(by_librdkafka, size=100, count=extent.records(LOADS[100]))
    for count in (10, 100):
        yield Case(f"produce 100 B, {count} partitions", job, PAGE_CACHE, count, goals=GOALS,
                   limit=Limit(WRITTEN, 100), floor=FLOOR)


def codecs(extent: Extent) -> Iterator[Case]:
    """Records of 1 KB that compress well, with each codec."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        job = partial(by_librdkafka, size=1000, count=extent.records(LOADS[1000]), codec=codec)
        yield Case(f"produce 1000 B, {codec}", job, PAGE_CACHE, goals=GOALS, floor=FLOOR)


def ceiling(extent: Extent) -> Iterator[Case]:
    """Compared with librdkafka's mock broker in the client's process."""
    for size in (100, 1000):
        job = partial(by_librdkafka, size=size, count=extent.records(LOADS[size]))
        yield Case(f"produce {size} B, ceiling", job, PAGE_CACHE, peer="mock",
                   goals={"records/s": 0.6}, limit=Limit(WRITTEN, size))
