"""Throughput of consumers: from the page cache, from the disk, and ten consumers at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.limits import COLD, LOOPBACK, Limit
from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.cost import measured
from bench.peers.crowd import run_all
from bench.peers.turns import PAGE_CACHE, Case, Figures, Goals
from bench.run_size import Extent
from bench.suites.writing import FLOOR, LOADS, by_librdkafka, loaded

GOALS: Goals = {"records/s": 1.5, "cpu s/GB": 1 / 3}
READERS = 10


def librdkafka_reads(broker: Broker, topic: str, size: int, count: int) -> Figures:
    words = clients.rdkafka_consume(broker.address, topic, count)
    return loaded(broker, words, size * count)


def java_reads(broker: Broker, topic: str, size: int, count: int) -> Figures:
    words = clients.java_consume(broker.address, topic, count)
    return loaded(broker, words, size * count)


def librdkafka_reads_cold(broker: Broker, topic: str, size: int, count: int) -> Figures:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")
    return librdkafka_reads(broker, topic, size, count)


def readers_at_once(broker: Broker, topic: str, size: int, count: int) -> Figures:
    words = clients.rdkafka_consume(broker.address, topic, count)
    with measured(broker) as cost:
        begin = time.monotonic()
        run_all(words, READERS, broker.name)
        took = time.monotonic() - begin
    return {"records/s": READERS * count / took, **cost.per_byte(READERS * count * size)}


def consume(extent: Extent) -> Iterator[Case]:
    """Consumes a topic from the page cache, from its first record to its last."""
    for size in (100, 1000):
        load = {"size": size, "count": extent.records(LOADS[size])}
        for client, job in (("librdkafka", librdkafka_reads), ("Java", java_reads)):
            yield Case(f"consume {size} B, {client}", partial(job, **load), PAGE_CACHE,
                       fill=partial(by_librdkafka, **load), goals=GOALS,
                       limit=Limit(LOOPBACK, size), floor=FLOOR)


def cold(extent: Extent) -> Iterator[Case]:
    """The same from the disk: root empties the page cache first."""
    if os.geteuid() == 0:
        load = {"size": 1000, "count": extent.records(LOADS[1000])}
        yield Case("consume 1000 B, cold", partial(librdkafka_reads_cold, **load), PAGE_CACHE,
                   fill=partial(by_librdkafka, **load), goals=GOALS, limit=Limit(COLD, 1000),
                   floor=FLOOR)


def fan_out(extent: Extent) -> Iterator[Case]:
    """Ten consumers of the same topic at once; the sum of their records per second."""
    load = {"size": 1000, "count": extent.records(LOADS[1000])}
    yield Case(f"fan-out to {READERS}, 1000 B", partial(readers_at_once, **load), PAGE_CACHE,
               fill=partial(by_librdkafka, **load), goals=GOALS, weight=2,
               limit=Limit(LOOPBACK, 1000), floor=FLOOR)
