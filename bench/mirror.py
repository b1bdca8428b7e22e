"""The mirror beside a plain consumer of the same topic: megabytes and records a second.

    python -m bench.mirror [--size 1000] [--mib 200] [--partitions 4] [--batch-kib 16] [--rounds 3]

One source, an appliance, is filled once. In each round every case reads the whole topic: a consumer
of confluent-kafka that takes whole lists and looks at no record, the mirror to a second appliance
that keeps the offsets, durably, and the mirror to Apache Kafka in transactions. A round before the
first is not counted: a JVM is slow while it is new.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import confluent_kafka as ck

from bench.peers.brokers import Appliance, Broker, Kafka

TOPIC = "load"
LIST = 10_000  # records that the consumer takes at a time


def fill(broker: Broker, size: int, total: int, partitions: int, batch_bytes: int) -> int:
    """How many records it took."""
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


def consume(broker: Broker, count: int, partitions: int) -> float:
    """Seconds from the first record on."""
    consumer = ck.Consumer({
        "bootstrap.servers": broker.address, "group.id": "plain", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "fetch.min.bytes": 1,
        "queued.max.messages.kbytes": 64 << 10,
    })
    consumer.assign([ck.TopicPartition(TOPIC, each, 0) for each in range(partitions)])
    first = consumer.consume(1, 30)
    began, seen = time.perf_counter(), len(first)
    while seen < count:
        seen += len(consumer.consume(min(LIST, count - seen), 30))
    took = time.perf_counter() - began
    consumer.close()
    return took


def mirror(source: Broker, target: Broker, count: int) -> float:
    """Seconds from when it begins to read until the last record is safe in the target."""
    name = f"bench-{time.time_ns()}"
    command = [sys.executable, "-m", "appliance", "mirror", "--from", source.address,
               "--to", target.address, "--topics", TOPIC, "--once", "--json",
               "--name", name, "--progress-s", "0.02"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    began = ended = 0.0
    for line in process.stdout:
        totals = json.loads(line)
        if totals["connected"] and not began:
            began = time.perf_counter()
        if totals["records"] >= count and not ended:
            ended = time.perf_counter()
    _, said = process.communicate()
    if process.returncode or not began or not ended:
        raise SystemExit(f"the mirror failed:\n{said}")
    return ended - began


def rounds(arguments: argparse.Namespace, root: Path) -> dict[str, list[float]]:
    brokers: list[Broker] = [Appliance(root / "source", {})]
    took: dict[str, list[float]] = {"plain consumer": [], "mirror to appliance": [],
                                    "mirror to kafka": []}
    try:
        source, partitions = brokers[0], arguments.partitions
        brokers += [Appliance(root / "target", {}), Kafka(root / "kafka", {})]
        count = fill(source, arguments.size, arguments.mib << 20, partitions,
                     arguments.batch_kib << 10)
        for _ in range(arguments.rounds + 1):
            took["plain consumer"].append(consume(source, count, partitions))
            for target in brokers[1:]:
                took[f"mirror to {target.name}"].append(mirror(source, target, count))
                target.delete_topic(TOPIC)
    finally:
        for each in brokers:
            each.stop()
    return {name: seconds[1:] for name, seconds in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-kib", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as root:
        took = rounds(arguments, Path(root))
    plain = statistics.median(took["plain consumer"])
    rows = {}
    for name, seconds in took.items():
        median = statistics.median(seconds)
        rows[name] = {"MB/s": arguments.mib * 1.048576 / median,
                      "records/s": (arguments.mib << 20) // arguments.size / median,
                      "of the consumer": plain / median}
        print(f"{name:24} {rows[name]['MB/s']:8.1f} MB/s {rows[name]['records/s']:12,.0f} records/s"
              f" {100 * plain / median:6.0f} %")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
