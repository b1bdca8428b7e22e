"""Large numbers: thousands of idle connections, and a thousand topics."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from functools import partial

from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.turns import PAGE_CACHE, PROBE_BYTES, Case, Figures
from bench.run_size import Extent
from bench.suites.restart import own

IDLE, SOURCES = 5000, 5  # one address has 28,000 ports
BUSY, SECONDS = 10, 3.0
TOPICS, BATCH = 1000, 100
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
