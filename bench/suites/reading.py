"""Consumers that want throughput: from the page cache, from the disk, and ten at a time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.cost import measured
from bench.peers.turns import PAGE_CACHE, Case, Figures, Goals
from bench.suites.writing import LOADS, by_librdkafka, loaded

GOALS: Goals = {"records/s": 1.5, "cpu s/GB": 1 / 3}
READERS = 10


def librdkafka_reads(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.rdkafka_consume(broker.address, topic, LOADS[size])
    return loaded(broker, words, size * LOADS[size])


def java_reads(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.java_consume(broker.address, topic, LOADS[size])
    return loaded(broker, words, size * LOADS[size])


def librdkafka_reads_cold(broker: Broker, topic: str, size: int) -> Figures:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")
    return librdkafka_reads(broker, topic, size)


def everybody_reads(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.rdkafka_consume(broker.address, topic, LOADS[size])
    with measured(broker) as cost:
        begin = time.monotonic()
        each = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True) for _ in range(READERS)]
        told = [one.communicate(timeout=600)[1] for one in each]
        took = time.monotonic() - begin
    if any(one.returncode for one in each):
        raise SystemExit(f"{broker.name}: a consumer failed:\n{''.join(told)}")
    count = READERS * LOADS[size]
    return {"records/s": count / took, **cost.per_byte(count * size)}


def consume() -> Iterator[Case]:
    """A topic that lies in the page cache, from its first record to its last."""
    for size in (100, 1000):
        fill = partial(by_librdkafka, size=size)
        yield Case(f"consume {size} B, librdkafka", partial(librdkafka_reads, size=size),
                   PAGE_CACHE, fill=fill, goals=GOALS)
        yield Case(f"consume {size} B, Java", partial(java_reads, size=size), PAGE_CACHE,
                   fill=fill, goals=GOALS)


def cold() -> Iterator[Case]:
    """The same from the disk: the page cache is emptied first, which takes root."""
    if os.geteuid() == 0:
        yield Case("consume 1000 B, cold", partial(librdkafka_reads_cold, size=1000), PAGE_CACHE,
                   fill=partial(by_librdkafka, size=1000), goals=GOALS)


def fan_out() -> Iterator[Case]:
    """Ten readers of the same topic at once; records a second of all of them."""
    yield Case(f"fan-out to {READERS}, 1000 B", partial(everybody_reads, size=1000), PAGE_CACHE,
               fill=partial(by_librdkafka, size=1000), goals=GOALS)
