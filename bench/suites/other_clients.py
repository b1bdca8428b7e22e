"""Both brokers under clients in other languages, with what each client does by default.

Those with acks=1 are acknowledged in the page cache by both. With acks=all each broker does what it
does by default: ours has the records on disk, Kafka has them in the page cache.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from bench import client_limit
from bench.limits import LOOPBACK, WRITTEN, Limit
from bench.peers import clients, other_clients
from bench.peers.brokers import Broker
from bench.peers.cost import Cost, measured
from bench.peers.other_clients import CLIENTS, Done
from bench.peers.turns import PAGE_CACHE, Case, Figures
from bench.run_size import Extent
from bench.suites import reading, writing

LOADS = {100: 4_000_000, 1000: 1_000_000}  # bytes, records
OF_JAVA = {100: 2_000_000, 1000: 500_000}  # small batches take longer
OF_NODE, OF_AIOKAFKA = 400_000, 200_000  # records of clients that take longer for one


def produced(broker: Broker, topic: str, client: str, size: int, count: int, acks: str = "1",
             codec: str = "none") -> Figures:
    other_clients.program(client)  # its build is not in the cost
    with measured(broker) as cost:
        done = other_clients.produce(client, broker.address, topic, size, count, acks, codec)
    return figures(client, cost, done, size)


def consumed(broker: Broker, topic: str, client: str, size: int, count: int) -> Figures:
    with measured(broker) as cost:
        done = other_clients.consume(client, broker.address, topic, count)
    return figures(client, cost, done, size)


def figures(client: str, cost: Cost, done: Done, size: int) -> Figures:
    """The client's processor time is that of the job, without its start."""
    moved = done.records * size
    return {"records/s": done.records / done.seconds, **cost.per_byte(moved),
            "client's cpu s/GB": done.cpu / (moved / 1e9),
            **client_limit.figures(done.cpu, cost.cpu_seconds, done.seconds,
                                   CLIENTS[client].is_one_thread)}


def writes(client: str, size: int, count: int, acks: str = "1", codec: str = "none") -> Case:
    words = "" if codec == "none" else f", {codec}"
    return Case(f"{CLIENTS[client].library}, produce {size} B, acks={acks}{words}",
                partial(produced, client=client, size=size, count=count, acks=acks, codec=codec),
                PAGE_CACHE if acks == "1" else {}, goals=writing.GOALS, limit=Limit(WRITTEN, size),
                floor=writing.FLOOR)


def reads(client: str, size: int, count: int, acks: str = "1") -> Case:
    """Reads what the client itself has written, with these acks. kafkajs commits after each batch,
    to the broker behind a floor as well: that is no least work."""
    load = {"client": client, "size": size, "count": count}
    return Case(f"{CLIENTS[client].library}, consume {size} B", partial(consumed, **load),
                PAGE_CACHE, fill=partial(produced, **load, acks=acks), goals=reading.GOALS,
                limit=Limit(LOOPBACK, size), floor=None if client == "node" else writing.FLOOR)


def by_java(broker: Broker, words: Sequence[str], moved: int) -> Figures:
    """Kafka's own tool tells its rate alone, so its processor time has its start in it."""
    with measured(broker) as cost:
        begin = time.monotonic()
        rate = clients.rates(clients.run(words))[-1]
        took = time.monotonic() - begin
    return {"records/s": rate, **cost.per_byte(moved),
            **client_limit.figures(cost.clients_cpu_seconds, cost.cpu_seconds, took, False)}


def java_writes(broker: Broker, topic: str, size: int, count: int) -> Figures:
    words = clients.java_produce(broker.address, topic, size, count)
    return by_java(broker, words, size * count)


def java_reads(broker: Broker, topic: str, size: int, count: int) -> Figures:
    return by_java(broker, clients.java_consume(broker.address, topic, count), size * count)


def java_defaults(extent: Extent) -> Iterator[Case]:
    """Java's client as it comes: acks=all, idempotent, batches of 16 KB."""
    loads = {size: {"size": size, "count": extent.records(whole)}
             for size, whole in OF_JAVA.items()}
    for size, load in loads.items():
        yield Case(f"Java's defaults, produce {size} B", partial(java_writes, **load), {},
                   goals=writing.GOALS, limit=Limit(WRITTEN, size), floor=writing.FLOOR)
    for size, load in loads.items():
        yield Case(f"Java's defaults, consume {size} B", partial(java_reads, **load), {},
                   fill=partial(java_writes, **load), goals=reading.GOALS,
                   limit=Limit(LOOPBACK, size), floor=writing.FLOOR)


def go(extent: Extent) -> Iterator[Case]:
    """A Go client (franz-go), with acks=1 and all, and lz4."""
    if CLIENTS["go"].missing():
        return
    for size, whole in LOADS.items():
        yield writes("go", size, extent.records(whole))
    for codec in ("none", "lz4"):
        yield writes("go", 1000, extent.records(LOADS[1000]), "all", codec)
    for size, whole in LOADS.items():
        yield reads("go", size, extent.records(whole))


def node(extent: Extent) -> Iterator[Case]:
    """A client of Node (kafkajs), with acks=1: five sends of 500 records at once."""
    if CLIENTS["node"].missing():
        return
    count = extent.records(OF_NODE)
    yield writes("node", 1000, count)
    yield reads("node", 1000, count)


def rust(extent: Extent) -> Iterator[Case]:
    """A Rust client (rskafka), always with acks=all: five calls of 500 records at once."""
    if CLIENTS["rust"].missing():
        return
    for size, whole in LOADS.items():
        yield writes("rust", size, extent.records(whole), "all")
    for size, whole in LOADS.items():
        yield reads("rust", size, extent.records(whole), "all")


def aiokafka(extent: Extent) -> Iterator[Case]:
    """A Python client (aiokafka), with acks=1."""
    if CLIENTS["aiokafka"].missing():
        return
    count = extent.records(OF_AIOKAFKA)
    yield writes("aiokafka", 1000, count)
    yield reads("aiokafka", 1000, count)
