"""One record per request: the cost of a request, independent of its records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.peers import clients
from bench.peers.brokers import Broker, Floor
from bench.peers.turns import PAGE_CACHE, PROBE_BYTES, Case, Figures
from bench.run_size import Extent

CONNECTIONS, SECONDS = 64, 3.0


def of_one(
    broker: Broker, topic: str, depth: int, seconds: float, acks: int = 1
) -> Figures:
    cpu = broker.cpu_seconds()
    probe = clients.probe_produce(broker.address, topic, PROBE_BYTES, acks, CONNECTIONS, depth,
                                 seconds)
    cpu = broker.cpu_seconds() - cpu
    return {"requests/s": probe["answers"] / probe["seconds"], "p99 us": probe["answer_p99_us"],
            "cpu us/request": cpu / probe["answers"] * 1e6}


def requests(extent: Extent) -> Iterator[Case]:
    """64 connections with one request in flight each, and with five."""
    for depth in (1, 5):
        job = partial(of_one, depth=depth, seconds=extent.seconds(SECONDS))
        yield Case(f"1 record, {CONNECTIONS} connections x {depth}", job, PAGE_CACHE,
                   goals={"requests/s": 3}, floor=Floor.name)
