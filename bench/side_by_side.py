"""Our broker beside Apache Kafka: the same clients, the same file system, A B A B, medians.

    RDKAFKA_PERFORMANCE=... python -m bench.side_by_side [SUITE ...] [--rounds 5] [--json FILE]

`page cache` means acks=1 and, on ours, topics with visibility=appended: neither broker waits for
the disk. `durable` means acks=all; on Kafka with flush.messages=1, which is what it takes there.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from bench.peers import clients
from bench.peers.brokers import Broker
from bench.peers.turns import PROBE_BYTES, Case, Configs, Figures, Suites, compare

PAGE_CACHE: Configs = {"appliance": {"visibility": "appended"}}
DURABLE: Configs = {"kafka": {"flush.messages": "1"}}
LOADS = {100: 5_000_000, 1000: 1_000_000}  # bytes of a record, and how many of them
CONNECTIONS, REQUESTS_S = 64, 3.0
RATE, LATENCY_S = 1000, 6
PRODUCERS = 16


def loaded(broker: Broker, command: Sequence[str], bytes_moved: int) -> Figures:
    """What the client itself takes tells how much of a rate a broker can be the cause of."""
    cpu, client = broker.cpu_seconds(), clients_cpu_seconds()
    rate = clients.rates(clients.run(command))[-1]
    gigabytes = bytes_moved / 1e9
    return {"records/s": rate, "cpu s/GB": (broker.cpu_seconds() - cpu) / gigabytes,
            "client's cpu s/GB": (clients_cpu_seconds() - client) / gigabytes}


def clients_cpu_seconds() -> float:
    """Of all that have ended; a broker has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def produce_rdkafka(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.rdkafka_produce(broker.address, topic, size, LOADS[size], 1, *broker.words)
    return loaded(broker, words, size * LOADS[size])


def produce_java(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.java_produce(broker.address, topic, size, LOADS[size], 1)
    return loaded(broker, words, size * LOADS[size])


def consume_rdkafka(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.rdkafka_consume(broker.address, topic, LOADS[size])
    return loaded(broker, words, size * LOADS[size])


def consume_java(broker: Broker, topic: str, size: int) -> Figures:
    words = clients.java_consume(broker.address, topic, LOADS[size])
    return loaded(broker, words, size * LOADS[size])


def requests_of_one(broker: Broker, topic: str, depth: int) -> Figures:
    cpu = broker.cpu_seconds()
    told = clients.probe_produce(broker.address, topic, PROBE_BYTES, 1, CONNECTIONS, depth,
                                 REQUESTS_S)
    cpu = broker.cpu_seconds() - cpu
    return {"requests/s": told["answers"] / told["seconds"], "p99 us": told["answer_p99_us"],
            "cpu us/request": cpu / told["answers"] * 1e6}


def latency(broker: Broker, topic: str, acks: int) -> Figures:
    told = clients.probe_latency(broker.address, topic, PROBE_BYTES, acks, RATE, RATE * LATENCY_S)
    return {name.replace("_", " "): value for name, value in told.items() if name != "records"}


def producers(broker: Broker, topic: str, acks: int, counts: Mapping[str, int]) -> Figures:
    """Sixteen at once, 1 KB records, from the first start to the last answer."""
    count = counts[broker.name]
    words = clients.rdkafka_produce(broker.address, topic, 1000, count // PRODUCERS, acks)
    begin, cpu = time.monotonic(), broker.cpu_seconds()
    each = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(PRODUCERS)]
    told = [one.communicate(timeout=600)[1] for one in each]
    took = time.monotonic() - begin
    if any(one.returncode for one in each):
        raise SystemExit(f"{broker.name}: a producer failed:\n{''.join(told)}")
    return {"records/s": count / took,
            "cpu s/GB": (broker.cpu_seconds() - cpu) / (count * 1000) * 1e9}


# Suites


def produce() -> Iterator[Case]:
    for size in LOADS:
        yield Case(f"produce {size} B, librdkafka", partial(produce_rdkafka, size=size), PAGE_CACHE)
        yield Case(f"produce {size} B, Java", partial(produce_java, size=size), PAGE_CACHE)


def consume() -> Iterator[Case]:
    for size in LOADS:
        fill = partial(produce_rdkafka, size=size)
        yield Case(f"consume {size} B, librdkafka", partial(consume_rdkafka, size=size), PAGE_CACHE,
                   fill=fill)
        yield Case(f"consume {size} B, Java", partial(consume_java, size=size), PAGE_CACHE,
                   fill=fill)


def requests() -> Iterator[Case]:
    for depth in (1, 5):
        yield Case(f"1 record, {CONNECTIONS} connections x {depth}",
                   partial(requests_of_one, depth=depth), PAGE_CACHE)


def latencies() -> Iterator[Case]:
    yield Case(f"{RATE} records/s, page cache", partial(latency, acks=1), PAGE_CACHE)
    yield Case(f"{RATE} records/s, durable", partial(latency, acks=-1), DURABLE)


def durable() -> Iterator[Case]:
    slow, fast = {"appliance": 800_000, "kafka": 32_000}, {"appliance": 800_000, "kafka": 800_000}
    for partitions in (16, 64):
        yield Case(f"durable, {partitions} partitions", partial(producers, acks=-1, counts=slow),
                   DURABLE, partitions)
        yield Case(f"page cache, {partitions} partitions", partial(producers, acks=1, counts=fast),
                   PAGE_CACHE, partitions)


def ceiling() -> Iterator[Case]:
    """The same client against a broker of librdkafka's own, in the client's process."""
    for size in LOADS:
        yield Case(f"produce {size} B, ceiling", partial(produce_rdkafka, size=size), PAGE_CACHE,
                   peer="mock")


def floor() -> Iterator[Case]:
    """A program that only reads, writes and answers, in the place of a broker."""
    for depth in (1, 5):
        yield Case(f"1 record, {CONNECTIONS} x {depth}, floor",
                   partial(requests_of_one, depth=depth), PAGE_CACHE, peer="floor")
    yield Case(f"{RATE} records/s, floor", partial(latency, acks=1), PAGE_CACHE, peer="floor")


SUITES: Suites = {
    each.__name__: each for each in (produce, consume, requests, latencies, durable, ceiling, floor)
}


if __name__ == "__main__":
    compare(__doc__, SUITES)
