"""Three brokers on this machine, three replicas of each partition, acks=all. Ours acknowledges what
is on three disks; Kafka what is in three page caches, or with flush.messages=1 on disks, too."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.clusters import Appliances, Cluster, Kafkas
from bench.peers.turns import PROBE_BYTES, Case, Configs, Figures
from bench.run_size import Extent
from bench.suites.durable import producers
from bench.suites.latency import seconds_of

FAST = 400_000  # records
SLOW = 50_000  # for Kafka with a sync for each batch
PARTITIONS = (3, 48)
RATE = 100  # records a second: Kafka takes one request of a connection at a time
ON_DISK: Configs = {Kafkas.name: {"flush.messages": "1"}}
WAYS = (("on disk", ON_DISK, 3.0), ("Kafka's defaults", {}, 1.0))
PAIR = {"ours": Appliances.name, "peer": Kafkas.name}


def at_rate(broker: Broker, topic: str, rate: int, seconds: float) -> Figures:
    """One record a request, at the leader: until it is acknowledged, and until it is read."""
    assert isinstance(broker, Cluster)
    address = broker.leader_of(topic).address
    count = round(rate * (1 + seconds))
    probe = clients.probe_latency(address, topic, PROBE_BYTES, -1, rate, count)
    return {name.replace("_", " "): value for name, value in probe.items() if name != "records"}


def replicated(extent: Extent) -> Iterator[Case]:
    """Three brokers with three replicas, acks=all: throughput, cost, latency."""
    fast, slow = (extent.records(count) for count in (FAST, SLOW))
    for way, configs, goal in WAYS:
        counts = {Appliances.name: fast, Kafkas.name: slow if configs else fast}
        for partitions in PARTITIONS:
            yield Case(f"three replicas, {way}, {partitions} partitions",
                       partial(producers, acks=-1, counts=counts), configs, partitions,
                       goals={"records/s": goal, "cpu s/GB": 1 / 2}, weight=3, **PAIR)
        job = partial(at_rate, rate=RATE, seconds=seconds_of(extent))
        yield Case(f"three replicas, {way}, {RATE} records/s", job, configs,
                   goals={"end to end p99 us": 1 / 2}, weight=2, **PAIR)
