"""Acknowledged means on disk: acks=all, and on Kafka flush.messages=1, which is what that takes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from functools import partial

from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.cost import measured
from bench.peers.turns import DURABLE, PAGE_CACHE, Case, Figures

PRODUCERS, RECORD_BYTES = 16, 1000


def producers(broker: Broker, topic: str, acks: int, counts: Mapping[str, int]) -> Figures:
    """Sixteen at once, from the first start to the last answer."""
    count = counts[broker.name]
    words = clients.rdkafka_produce(broker.address, topic, RECORD_BYTES, count // PRODUCERS, acks)
    with measured(broker) as cost:
        begin = time.monotonic()
        each = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True) for _ in range(PRODUCERS)]
        told = [one.communicate(timeout=600)[1] for one in each]
        took = time.monotonic() - begin
    if any(one.returncode for one in each):
        raise SystemExit(f"{broker.name}: a producer failed:\n{''.join(told)}")
    figures = {"records/s": count / took, **cost.per_byte(count * RECORD_BYTES)}
    if cost.syncs is not None:
        figures["syncs/1000 records"] = cost.syncs / count * 1000
    return figures


def durable() -> Iterator[Case]:
    """Sixteen producers of 1 KB over 16 and 64 partitions; the page cache beside it."""
    slow, fast = {"appliance": 800_000, "kafka": 32_000}, {"appliance": 800_000, "kafka": 800_000}
    for partitions in (16, 64):
        yield Case(f"durable, {partitions} partitions", partial(producers, acks=-1, counts=slow),
                   DURABLE, partitions, goals={"records/s": 10})
        yield Case(f"page cache, {partitions} partitions", partial(producers, acks=1, counts=fast),
                   PAGE_CACHE, partitions)
