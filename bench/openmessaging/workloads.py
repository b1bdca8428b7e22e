"""What the OpenMessaging Benchmark is asked to do: eight workloads, each with the options of its
clients and with what an acknowledgement means. Why these: docs/decisions/openmessaging.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.peers.turns import DURABLE, PAGE_CACHE, Configs

DRIVER = "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver"
AT_MOST = 10_000_000  # records/s: more than any client sends, so its full buffer sets the pace
POOL = 1000  # payloads, half of them random bytes; nothing is compressed
CONSUMER = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}  # commits each poll


@dataclass(frozen=True)
class Promise:
    """Where a record is when it is acknowledged. `configs` are those of topics, by broker."""

    ours: str
    theirs: str
    configs: Configs


CACHED = Promise("page cache", "page cache", PAGE_CACHE)
AS_SET = Promise("disk", "page cache", {})  # each broker's own default
ON_DISK = Promise("disk", "disk", DURABLE)

THROUGHPUT = {"acks": "1", "linger.ms": "10", "batch.size": str(1 << 20)}
LATENCY = {"acks": "1", "linger.ms": "0"}
DEFAULTS: Mapping[str, str] = {}  # acks=all, idempotent, batches of 16 KB
PRODUCERS = {"big batches, acks=1": THROUGHPUT, "no linger, acks=1": LATENCY,
             "defaults, acks=all": DEFAULTS}


@dataclass(frozen=True)
class Workload:
    """One producer and one consumer per topic. `rate` is the records/s of all topics."""

    topics: int
    partitions: int
    record_bytes: int
    rate: int
    producer: str  # of PRODUCERS
    promise: Promise
    backlog_gb: int = 0  # GiB that are written while the consumers wait, and then read

    @property
    def is_at_most(self) -> bool:
        return self.rate == AT_MOST

    @property
    def title(self) -> str:
        count, noun = ((self.topics, "topic") if self.topics > 1
                       else (self.partitions, "partition"))
        places = f"{count} {noun}{'s' if count > 1 else ''}"
        rate = "at most" if self.is_at_most else f"{self.rate:,}/s"
        pace = f"backlog of {self.backlog_gb} GiB" if self.backlog_gb else rate
        return f"{places}, {self.record_bytes} B, {pace}"


WORKLOADS = {
    "small-rate": Workload(1, 1, 100, 50_000, "no linger, acks=1", CACHED),
    "small-most": Workload(1, 1, 100, AT_MOST, "big batches, acks=1", CACHED),
    "one-most": Workload(1, 1, 1000, AT_MOST, "big batches, acks=1", CACHED),
    "sixteen-rate": Workload(1, 16, 1000, 20_000, "defaults, acks=all", AS_SET),
    "sixteen-most": Workload(1, 16, 1000, AT_MOST, "defaults, acks=all", ON_DISK),
    "hundred-rate": Workload(1, 100, 1000, 10_000, "defaults, acks=all", ON_DISK),
    "topics-rate": Workload(100, 1, 1000, 10_000, "defaults, acks=all", AS_SET),
    "backlog": Workload(1, 16, 1000, 30_000, "big batches, acks=1", CACHED, backlog_gb=2),
}
BY_TITLE = {each.title: each for each in WORKLOADS.values()}


@dataclass(frozen=True)
class Minutes:
    """Whole ones, as the tool wants them."""

    warm_up: int
    test: int


def of_workload(workload: Workload, minutes: Minutes) -> dict[str, object]:
    return {
        "name": workload.title,
        "topics": workload.topics,
        "partitionsPerTopic": workload.partitions,
        "messageSize": workload.record_bytes,
        "useRandomizedPayloads": True,
        "randomBytesRatio": 0.5,
        "randomizedPayloadPoolSize": POOL,
        "subscriptionsPerTopic": 1,
        "producersPerTopic": 1,
        "consumerPerSubscription": 1,
        "producerRate": workload.rate,
        "consumerBacklogSizeGB": workload.backlog_gb,
        "testDurationMinutes": minutes.test,
        "warmupDurationMinutes": minutes.warm_up,
    }


def of_driver(workload: Workload, broker: str, address: str) -> dict[str, object]:
    return {
        "name": broker,
        "driverClass": DRIVER,
        "replicationFactor": 1,
        "topicConfig": properties(workload.promise.configs.get(broker, {})),
        "commonConfig": properties({"bootstrap.servers": address}),
        "producerConfig": properties(PRODUCERS[workload.producer]),
        "consumerConfig": properties(CONSUMER),
    }


def properties(options: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in options.items())


def write_yaml(file: Path, content: Mapping[str, object]) -> None:
    """JSON is YAML."""
    file.write_text(json.dumps(content, indent=1) + "\n")
