"""Comparisons with brokers of other protocols, each with its own Python client."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial

from bench.peers import clients, other_protocol_brokers
from bench.peers.brokers import Broker
from bench.peers.cost import measured
from bench.peers.turns import PAGE_CACHE, Case, Figures
from bench.run_size import Extent

SIZE, COUNT = 1000, 400_000
# Divisors of the count for slower servers, so that all cases take about the same time.
SLOWER = {"nats": 10, "redis": 4, "rabbitmq": 4}
NAMES = {"nats": "NATS JetStream", "redis": "Redis Streams", "rabbitmq": "RabbitMQ streams"}


def job(broker: Broker, topic: str, what: str, counts: Mapping[str, int]) -> Figures:
    count = counts[broker.name]
    words = [sys.executable, "-m", "bench.peers.other_protocol_clients", f"{broker.name} {what}",
             broker.address, topic, str(SIZE), str(count)]
    with measured(broker) as cost:
        figures = json.loads(clients.run(words))
    return {"records/s": count / figures["seconds"], **cost.per_byte(SIZE * count)}


def others(extent: Extent) -> Iterator[Case]:
    """Streams of NATS, Redis (AOF), RabbitMQ, where installed; durable only where it says so."""
    for peer, name in NAMES.items():
        if other_protocol_brokers.missing(peer):
            continue
        count = extent.records(COUNT)
        counts = {"appliance": count, peer: count // SLOWER[peer]}
        write = partial(job, what="write", counts=counts)
        yield Case(f"write beside {name}, page cache", write, PAGE_CACHE, peer=peer)
        yield Case(f"read beside {name}", partial(job, what="read", counts=counts), PAGE_CACHE,
                   peer=peer, fill=write)
        if peer == "redis":
            yield Case(f"write beside {name}, durable",
                       partial(job, what="write durable", counts=counts),
                       {"redis": {"appendfsync": "always"}}, peer=peer)
