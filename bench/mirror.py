"""The mirror compared with plain consumers of the same topic: megabytes per second and CPU time.

    python -m bench.mirror [--size 1000] [--mib 200] [--partitions 4] [--batch-kib 16] [--rounds 3]

One source, an appliance, is filled once. In each round every case reads the whole topic, in turns:

    batches, not decoded   our own client's multifetch, without decoding batches
    lists, not read        confluent-kafka's consume(), thousands of records at a time, not read
    record by record       confluent-kafka's poll() and value() of each, as in a usual consumer
    mirror to appliance    to a second appliance that keeps the offsets, durably
    mirror to kafka        to Apache Kafka, in transactions

A mirror's time is from the first request until the last record is safe in the target. CPU seconds
are those of the client (or mirror), the source and the target per gigabyte; they vary less than
time on a machine with other load. A first round is not counted, because a JVM is slow after its
start.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import confluent_kafka as ck

from appliance.client import FetchConfig, SimpleConsumer
from appliance.client.errors import BrokerRefused
from appliance.client.simple_consumer import FetchRequest
from bench.peers.brokers import Appliance, Broker, Kafka

TOPIC = "load"
TICKS = os.sysconf("SC_CLK_TCK")
LIST = 10_000  # records per call of the consumer


def fill(broker: Broker, size: int, total: int, partitions: int, batch_bytes: int) -> int:
    """Returns the number of records."""
    broker.create_topic(TOPIC, partitions, {})
    producer = ck.Producer({
        "bootstrap.servers": broker.address, "batch.size": batch_bytes, "linger.ms": 50,
        "batch.num.messages": 1_000_000, "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 256 << 10, "enable.idempotence": True,
    })
    count = total // size
    value = bytes(range(256)) * (size // 256 + 1)
    for i in range(count):
        while True:
            try:
                producer.produce(TOPIC, value[i % 7 : i % 7 + size], partition=i % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if i % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0
    return count


class Turn(NamedTuple):
    seconds: float
    client: float  # processor seconds, like the next two
    source: float
    target: float


def take_batches(source: Broker, count: int, partitions: int) -> None:
    offsets = [0] * partitions
    with SimpleConsumer(FetchConfig(broker_list=source.address)) as consumer:
        while sum(offsets) < count:
            fetches = [FetchRequest(TOPIC, index, offsets[index]) for index in range(partitions)]
            for part in consumer.multifetch(fetches):
                if isinstance(part, BrokerRefused):
                    raise part
                offsets[part.partition.partition] = part.next_offset


def take_lists(source: Broker, count: int, partitions: int) -> None:
    consumer, seen = plain(source, partitions), 0
    while seen < count:
        seen += len(consumer.consume(min(LIST, count - seen), 30))
    consumer.close()


def take_records(source: Broker, count: int, partitions: int) -> None:
    consumer, seen = plain(source, partitions), 0
    while seen < count:
        seen += len(consumer.poll(30).value()) > 0
    consumer.close()


def plain(source: Broker, partitions: int) -> ck.Consumer:
    """A consumer of all partitions, from their first offsets."""
    consumer = ck.Consumer({
        "bootstrap.servers": source.address, "group.id": "plain", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "fetch.min.bytes": 1,
        "queued.max.messages.kbytes": 64 << 10,
    })
    consumer.assign([ck.TopicPartition(TOPIC, each, 0) for each in range(partitions)])
    return consumer


def consume(take: Callable[[Broker, int, int], None], source: Broker, count: int,
            partitions: int) -> Turn:
    before, own, began = source.cpu_seconds(), time.process_time(), time.perf_counter()
    take(source, count, partitions)
    took = time.perf_counter() - began
    return Turn(took, time.process_time() - own, source.cpu_seconds() - before, 0)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def mirror(source: Broker, target: Broker, count: int) -> Turn:
    name = f"bench-{time.time_ns()}"
    command = [sys.executable, "-m", "appliance", "mirror", "--from", source.address,
               "--to", target.address, "--topics", TOPIC, "--once", "--json",
               "--name", name, "--progress-s", "0.02"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    began: Turn | None = None
    ended: Turn | None = None
    for line in process.stdout:
        totals = json.loads(line)
        if (totals["connected"] and not began) or (totals["records"] >= count and not ended):
            now = Turn(time.perf_counter(), cpu_of(process.pid), source.cpu_seconds(),
                       target.cpu_seconds())
            began, ended = began or now, now if began else None
    _, said = process.communicate()
    if process.returncode or not began or not ended:
        raise SystemExit(f"the mirror failed:\n{said}")
    return Turn(*(after - before for after, before in zip(ended, began, strict=True)))


CONSUMERS = {"batches, not decoded": take_batches, "lists, not read": take_lists,
             "record by record": take_records}


def rounds(arguments: argparse.Namespace, root: Path) -> dict[str, list[Turn]]:
    brokers: list[Broker] = [Appliance(root / "source", {})]
    took: dict[str, list[Turn]] = {name: [] for name in CONSUMERS}
    try:
        source, partitions = brokers[0], arguments.partitions
        brokers += [KINDS[each](root / each, {}) for each in arguments.targets]
        took |= {f"mirror to {each.name}": [] for each in brokers[1:]}
        count = fill(source, arguments.size, arguments.mib << 20, partitions,
                     arguments.batch_kib << 10)
        for _ in range(arguments.rounds + 1):
            for name, take in CONSUMERS.items():
                took[name].append(consume(take, source, count, partitions))
            for target in brokers[1:]:
                took[f"mirror to {target.name}"].append(mirror(source, target, count))
                target.delete_topic(TOPIC)
    finally:
        for each in brokers:
            each.stop()
    return {name: turns[1:] for name, turns in took.items()}


KINDS: dict[str, type[Appliance | Kafka]] = {"appliance": Appliance, "kafka": Kafka}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-kib", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--targets", nargs="*", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as root:
        took = rounds(arguments, Path(root))
    rows = {name: row_of(turns, arguments.mib * 1.048576e-3) for name, turns in took.items()}
    for name, row in rows.items():
        of_each = " ".join(f"{100 * row['MB/s'] / rows[each]['MB/s']:6.0f} %" for each in CONSUMERS)
        print(f"{name:22} {row['MB/s']:7.0f} MB/s, of each consumer {of_each}; processor "
              + " ".join(f"{row[each]:5.2f}" for each in Turn._fields[1:]) + " s/GB")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows))


def row_of(turns: list[Turn], gigabytes: float) -> dict[str, float]:
    medians = Turn(*(statistics.median(each) for each in zip(*turns, strict=True)))
    rate = 1000 * gigabytes / medians.seconds
    return {"MB/s": rate, **{name: each / gigabytes for name, each
                             in zip(Turn._fields[1:], medians[1:], strict=True)}}


if __name__ == "__main__":
    main()
