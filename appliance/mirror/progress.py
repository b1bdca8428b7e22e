"""The mirror's progress: its threads write it; the line, the JSON and the metrics read it.

Fields of a partition change one at a time, and each is right by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from appliance.mirror.site import TopicPartition
from appliance.mirror.unserved import Unserved

UNKNOWN = -1


@dataclass(slots=True)
class Partition:
    position: int = UNKNOWN  # in the source: the target has everything below
    end_offset: int = UNKNOWN  # in the source: end of the committed records
    records: int = 0
    bytes: int = 0
    lost_offsets: int = 0  # deleted in the source before they were mirrored
    drained_at: int = UNKNOWN  # the source had no records from this offset on at the last request
    failure: str = ""
    caught_up: float = 0.0  # by time.time: when the target last had everything, or the start

    def __post_init__(self) -> None:
        self.caught_up = time.time()

    @property
    def behind_s(self) -> float:
        return max(time.time() - self.caught_up, 0.0) if self.lag else 0.0

    def look(self) -> None:
        if UNKNOWN not in (self.position, self.end_offset) and not self.lag:
            self.caught_up = time.time()

    @property
    def lag(self) -> int:
        if UNKNOWN in (self.position, self.end_offset):
            return 0
        return max(self.end_offset - self.position, 0)


class MirrorProgress:
    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.refused: dict[str, str] = {}  # the reason by topic
        self.is_connected = False
        self.has_worked = False  # since the start something was written, or there was nothing to do
        self.failures = 0  # of rounds
        self.last_failure = ""
        self.transactions = 0
        self.last_written = 0.0  # by time.time: the last write to the target
        self.unread, self.unwritten = Unserved(), Unserved()  # in the source, in the target
        self.groups_refreshed: dict[str, float] = {}  # by time.monotonic, for GroupOffsets
        self._lock = threading.Lock()  # guards the dictionary

    def of(self, partition: TopicPartition) -> Partition:
        with self._lock:
            return self.partitions.setdefault(partition, Partition())

    # written by the threads

    def begin(self, positions: dict[TopicPartition, int]) -> None:
        """Starts a round with these partitions and positions."""
        with self._lock:
            self.partitions = {
                partition: self.partitions.get(partition, Partition()) for partition in positions
            }
        for partition, offset in positions.items():
            each = self.of(partition)
            each.position, each.failure, each.drained_at = offset, "", UNKNOWN

    def saw(self, partition: TopicPartition, end_offset: int, drained_at: int) -> None:
        self.unread.serves(partition)
        each = self.of(partition)
        each.look()  # with the values before this response
        each.end_offset, each.drained_at = end_offset, drained_at
        each.look()

    def wrote(self, partition: TopicPartition, position: int, records: int, size: int) -> None:
        self.unwritten.serves(partition)
        each = self.of(partition)
        each.position = position
        each.records += records
        each.bytes += size
        each.look()
        self.last_written = time.time()
        self.has_worked = True

    def lost(self, partition: TopicPartition, count: int) -> None:
        self.of(partition).lost_offsets += count

    def failed(self, partition: TopicPartition, why: str) -> None:
        self.of(partition).failure = why

    def refuse(self, topic: str, why: str) -> bool:
        """Returns whether the reason is new."""
        is_news = self.refused.get(topic) != why
        self.refused = {**self.refused, topic: why}
        return is_news

    def forget_refused(self, but: set[str]) -> None:
        self.refused = {name: why for name, why in self.refused.items() if name in but}

    # read by others

    def __iter__(self) -> Iterator[tuple[TopicPartition, Partition]]:
        with self._lock:
            return iter(sorted(self.partitions.items()))

    @property
    def is_caught_up(self) -> bool:
        """Whether the target has everything that the source had at the last request."""
        return all(each.failure or each.position == each.drained_at for _, each in self)

    def totals(self) -> dict[str, Any]:
        rows = [each for _, each in self]
        return {
            "connected": self.is_connected,
            "partitions": len(rows),
            "records": sum(each.records for each in rows),
            "bytes": sum(each.bytes for each in rows),
            "lag": sum(each.lag for each in rows),
            "lost_offsets": sum(each.lost_offsets for each in rows),
            "transactions": self.transactions,
            "failures": self.failures,
            "last_failure": self.last_failure,
            "refused": {
                **self.refused,
                **{str(partition): each.failure for partition, each in self if each.failure},
            },
        }

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "position": each.position,
                "end_offset": each.end_offset,
                "lag": each.lag,
                "lost_offsets": each.lost_offsets,
                "behind_s": round(each.behind_s, 3),
            }
            for partition, each in self
        ]


PREFIX = "appliance_mirror"
LABELS = ["topic", "partition"]
OF_PARTITIONS: list[tuple[type, str, str, str]] = [
    (GaugeMetricFamily, "position", "position", "Next offset of the source to mirror."),
    (GaugeMetricFamily, "source_end_offset", "end_offset", "End of the source's committed data."),
    (GaugeMetricFamily, "lag_records", "lag", "Offsets between position and end."),
    (CounterMetricFamily, "records", "records", "Records written to the target."),
    (CounterMetricFamily, "bytes", "bytes", "Bytes written to the target, as compressed."),
    (
        CounterMetricFamily,
        "lost_offsets",
        "lost_offsets",
        "Offsets that the source had deleted before they were mirrored.",
    ),
]


class Metrics(Collector):
    """The metrics for Prometheus."""

    def __init__(self, progress: MirrorProgress) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        for family, name, field, text in OF_PARTITIONS:
            metric = family(f"{PREFIX}_{name}", text, labels=LABELS)
            for partition, each in self._progress:
                metric.add_metric([partition.topic, str(partition.partition)], getattr(each, field))
            yield metric
        progress = self._progress
        for family, name, value, text in (
            (GaugeMetricFamily, "connected", progress.is_connected,
             "1 while the mirror is connected to both sides."),
            (GaugeMetricFamily, "refused", len(progress.totals()["refused"]),
             "Topics and partitions that cannot be mirrored."),
            (GaugeMetricFamily, "last_written_timestamp_seconds", progress.last_written,
             "Time of the last write to the target."),
            (CounterMetricFamily, "failures", progress.failures,
             "Rounds that ended with a failure."),
            (CounterMetricFamily, "transactions", progress.transactions,
             "Transactions committed."),
        ):  # fmt: skip
            yield family(f"{PREFIX}_{name}", text, value)


def serve_metrics(progress: MirrorProgress, host: str, port: int) -> int:
    """Serves on its own thread and returns the port."""
    registry = CollectorRegistry()
    registry.register(Metrics(progress))
    server, _ = start_http_server(port, host, registry)
    return int(server.server_port)
