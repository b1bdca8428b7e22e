"""Large numbers: thousands of connections, partitions, groups and transactions, and a thousand
topics."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Iterator
from functools import partial

from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import clients, transactions
from bench.peers.brokers import Broker
from bench.peers.turns import PAGE_CACHE, PROBE_BYTES, Case, Figures
from bench.run_size import Extent
from bench.suites.groups import ready
from bench.suites.restart import own

IDLE, SOURCES = 5000, 5  # one address has 28,000 ports
BUSY, SECONDS = 10, 3.0
TOPICS, BATCH = 1000, 100
WRITERS, SOME_PARTITIONS, MANY_PARTITIONS = 10_000, 16, 10_000
WRITERS_PART = 2 / 5  # of the descriptors: our broker keeps half of them for its logs
LOGS_PART = 1 / 5  # one that is written to holds two: its directory, its file
GROUPS, TRANSACTIONAL, CONNECTIONS = 5000, 1000, 64
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def idle_connections(address: str, count: int) -> list[socket.socket]:
    """Each has sent one ApiVersions request, as clients do."""
    host, _, port = address.partition(":")
    sockets = []
    for number in range(count):
        source = (f"127.0.0.{2 + number % SOURCES}", 0)
        sockets.append(socket.create_connection((host, int(port)), 20, source))
        sockets[-1].sendall(API_VERSIONS)
        if not sockets[-1].recv(4096):
            raise ConnectionError(f"connection {number} of {count} was closed")
    return sockets


def busy(broker: Broker, topic: str, seconds: float) -> Figures:
    probe = clients.probe_produce(broker.address, topic, PROBE_BYTES, 1, BUSY, 1, seconds)
    return {"requests/s": probe["answers"] / probe["seconds"], "p99 us": probe["answer_p99_us"]}


def among_idle(broker: Broker, topic: str, seconds: float) -> Figures:
    sockets = idle_connections(broker.address, IDLE)
    try:
        return busy(broker, topic, seconds)
    finally:
        for connection in sockets:
            connection.close()


def memory_of_idle(broker: Broker, topic: str) -> Figures:
    """In a new process: a process that had many connections before keeps their memory."""
    with own(broker) as made:
        before = made.resident_bytes()
        sockets = idle_connections(made.address, IDLE)
        growth = made.resident_bytes() - before
        for connection in sockets:
            connection.close()
    return {"KiB/connection": growth / IDLE / 1024}


def many_topics(broker: Broker, topic: str, count: int) -> Figures:
    """Creates topics until all have leaders, and deletes them."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    names = [f"{topic}-{number}" for number in range(count)]
    before, begin = broker.resident_bytes(), time.monotonic()
    for at in range(0, count, BATCH):
        wanted = [NewTopic(name, 1, 1) for name in names[at:at + BATCH]]
        for one in admin.create_topics(wanted, operation_timeout=60).values():
            one.result(60)
    created = time.monotonic() - begin
    begin = time.monotonic()
    for at in range(0, count, BATCH):
        for one in admin.delete_topics(names[at:at + BATCH], operation_timeout=60).values():
            one.result(60)
    return {"ms/topic created": created / count * 1000,
            "ms/topic deleted": (time.monotonic() - begin) / count * 1000,
            "KiB/topic": max(broker.resident_bytes() - before, 0) / count / 1024}


def connections(extent: Extent) -> Iterator[Case]:
    """Ten busy connections, alone and among 5,000 idle ones; the memory of an idle connection."""
    seconds = extent.seconds(SECONDS)
    yield Case(f"{BUSY} busy connections", partial(busy, seconds=seconds), PAGE_CACHE)
    yield Case(f"{BUSY} busy among {IDLE} idle", partial(among_idle, seconds=seconds), PAGE_CACHE)
    yield Case(f"{IDLE} idle connections", memory_of_idle, {}, rounds=extent.long_rounds,
               warm_up=False)


def topics(extent: Extent) -> Iterator[Case]:
    """Creates and deletes a thousand topics."""
    yield Case(f"{TOPICS} topics", partial(many_topics, count=TOPICS), {}, weight=2)


def rate_of(broker: Broker, probe: dict[str, float], cpu: float, what: str) -> Figures:
    return {f"{what}s/s": probe["answers"] / probe["seconds"], "p99 us": probe["answer_p99_us"],
            f"cpu us/{what}": (broker.cpu_seconds() - cpu) / probe["answers"] * 1e6}


def as_many_as(wanted: int, part: float) -> int:
    """Both brokers have the same limit of descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(wanted, int(most * part))


def writers(broker: Broker, topic: str, connections: int, partitions: int, seconds: float
            ) -> Figures:
    cpu = broker.cpu_seconds()
    probe = clients.probe_produce(broker.address, topic, PROBE_BYTES, 1, connections, 1, seconds,
                                  partitions)
    return rate_of(broker, probe, cpu, "request")


def committing_groups(broker: Broker, topic: str, seconds: float) -> Figures:
    ready(broker)
    cpu = broker.cpu_seconds()
    probe = clients.probe_commit(broker.address, topic, GROUPS, CONNECTIONS, 1, seconds)
    return rate_of(broker, probe, cpu, "commit")


def open_transactions(broker: Broker, topic: str, seconds: float) -> Figures:
    """Whole rounds of all producers until the time is over."""
    producers = transactions.begun(broker, TRANSACTIONAL, SOME_PARTITIONS)
    transactions.transact(producers, topic)  # warms up
    cpu, begin, done = broker.cpu_seconds(), time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        transactions.transact(producers, topic)
        done += len(producers)
    took = time.monotonic() - begin
    transactions.closed(producers)
    return {"transactions/s": done / took,
            "cpu us/transaction": (broker.cpu_seconds() - cpu) / done * 1e6}


def thousands(extent: Extent) -> Iterator[Case]:
    """Thousands that write: connections, partitions in turn, groups, transactions at once."""
    # Our commits and transactions are durable, Kafka's are in its page cache.
    seconds = extent.seconds(SECONDS)
    connected = as_many_as(WRITERS, WRITERS_PART)
    partitions = as_many_as(MANY_PARTITIONS, LOGS_PART)
    yield Case(f"{connected} connections produce", partial(
        writers, connections=connected, partitions=SOME_PARTITIONS, seconds=2 * seconds),
        PAGE_CACHE, partitions=SOME_PARTITIONS)
    yield Case(f"{partitions} partitions in turn", partial(
        writers, connections=CONNECTIONS, partitions=partitions, seconds=2 * seconds),
        PAGE_CACHE, partitions=partitions, rounds=1, warm_up=False, weight=3,
        settings={"max.partitions.per.topic": str(partitions)})
    yield Case(f"{GROUPS} groups commit", partial(committing_groups, seconds=seconds), {})
    yield Case(f"{TRANSACTIONAL} transactions at once", partial(
        open_transactions, seconds=seconds), {}, partitions=SOME_PARTITIONS)
