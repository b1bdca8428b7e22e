"""What a few small clients feel beside large ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.peers import clients, disturbers
from bench.peers.brokers import Broker, FloorBroker
from bench.peers.turns import PAGE_CACHE, PROBE_BYTES, Case, Figures, Goals
from bench.run_size import Extent

RATE, SECONDS = 500, 6.0  # of the small one
SECONDS_LEAST = 3.0
TIMES = "p99, times of alone"
KINDS = {
    "unread": f"{disturbers.UNREAD} readers that do not read",
    "fetch": f"a reader of {disturbers.GIANT_BYTES >> 20} MiB at once",
    "produce": f"a producer of {disturbers.PARTITIONS} MB at once",
}
GOALS: Goals = {f"{stage} p99 us": 1 / 2 for stage in ("ack", "end to end")}


def beside(broker: Broker, topic: str, kind: str, seconds: float) -> Figures:
    """The same probe alone, then beside the large client, on topics of their own."""
    large = f"{topic}-large"
    alone_of = f"{topic}-alone"
    broker.create_topic(large, disturbers.PARTITIONS, PAGE_CACHE.get(broker.name, {}))
    broker.create_topic(alone_of, 1, PAGE_CACHE.get(broker.name, {}))
    try:
        disturbers.fill(broker.address, large)
        alone = probed(broker, alone_of, seconds)
        with disturbers.disturbed(kind, broker.address, large):
            crowded = probed(broker, topic, seconds)
    finally:
        broker.delete_topic(large)
        broker.delete_topic(alone_of)
    return {"ack p99 us": crowded["ack_p99_us"], "end to end p99 us": crowded["end_to_end_p99_us"],
            f"ack {TIMES}": crowded["ack_p99_us"] / alone["ack_p99_us"],
            f"end to end {TIMES}": crowded["end_to_end_p99_us"] / alone["end_to_end_p99_us"]}


def probed(broker: Broker, topic: str, seconds: float) -> dict[str, float]:
    count = round(RATE * (1 + seconds))  # the probe leaves the first second out
    return clients.probe_latency(broker.address, topic, PROBE_BYTES, 1, RATE, count)


def fairness(extent: Extent) -> Iterator[Case]:
    """500 records a second, one per request, beside a client that takes as much as it can."""
    seconds = max(SECONDS_LEAST, extent.seconds(SECONDS))
    for kind, name in KINDS.items():
        yield Case(f"beside {name}", partial(beside, kind=kind, seconds=seconds), PAGE_CACHE,
                   goals=GOALS, floor=FloorBroker.name)
