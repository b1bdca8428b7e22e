"""Metrics of topics, and of single partitions while there are not too many of them.

Topics are looked at, and their rows written, a slice at a time: see `metrics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from prometheus_client.core import Metric

from appliance.admin.metrics_of_broker import counter, gauge, one
from appliance.admin.partition_snapshot import slices
from appliance.broker.broker import Broker
from appliance.network._data_plane import DataPlane
from appliance.storage._log_metrics import LogFacts, log_facts
from appliance.topics.topic import Topic

SLICE = 100  # a sample takes about 8 microseconds to write

Row = TypeVar("Row")


class TopicRow(NamedTuple):
    topic: str
    numbers: list[int]  # the partitions that are open
    facts: list[LogFacts]
    sent_bytes: int
    failed_produces: int
    failed_fetches: int

    def sum(self, field: str) -> int:
        return sum(getattr(each, field) for each in self.facts)

    def max(self, field: str) -> int:
        return max((getattr(each, field) for each in self.facts), default=0)


class Column(NamedTuple):
    """One family: a sample for each row."""

    make: Callable[[str, str, Sequence[str]], Any]
    name: str
    text: str
    value: Callable[[Any], float]


TOPIC_COLUMNS = (
    Column(gauge, "topic_partitions", "Partitions.", lambda row: len(row.facts)),
    Column(gauge, "topic_size_bytes", "Size of all segments.", lambda row: row.sum("size")),
    Column(gauge, "topic_segments", "Segments.", lambda row: row.sum("segments")),
    Column(
        counter,
        "topic_received_bytes",
        "Bytes of batches that clients produced, as sent.",
        lambda row: row.sum("bytes_of_clients"),
    ),
    Column(
        counter,
        "topic_received_records",
        "Records that clients produced.",
        lambda row: row.sum("records_of_clients"),
    ),
    Column(
        counter,
        "topic_received_batches",
        "Batches that clients produced.",
        lambda row: row.sum("batches_of_clients"),
    ),
    Column(
        counter,
        "topic_sent_bytes",
        "Bytes that clients fetched. Records are not counted: they leave unread.",
        lambda row: row.sent_bytes,
    ),
    Column(
        counter,
        "topic_failed_produces",
        "Batches that were refused.",
        lambda row: row.failed_produces,
    ),
    Column(
        counter,
        "topic_failed_fetches",
        "Partitions of fetches that got an error.",
        lambda row: row.failed_fetches,
    ),
    Column(
        gauge,
        "topic_unflushed_bytes",
        "Bytes that are written and not yet on disk for certain.",
        lambda row: row.sum("unflushed_bytes"),
    ),
    Column(
        gauge,
        "topic_unflushed_age_seconds",
        "Age of the oldest record not yet on disk for certain; 0: there is none.",
        lambda row: row.max("unflushed_age_ms") / 1000,
    ),
)


class PartitionRow(NamedTuple):
    topic: str
    partition: str
    facts: LogFacts


def offset(name: str, text: str) -> Column:
    return Column(gauge, f"partition_{name}", text, lambda row: getattr(row.facts, name))


PARTITION_COLUMNS = (
    offset("log_start_offset", "First offset that can be read."),
    offset("log_end_offset", "Offset that the next record gets."),
    offset("durable_offset", "Records below it survive a power cut."),
    offset("high_watermark", "How far consumers may read."),
    offset("last_stable_offset", "How far read_committed consumers may read."),
    Column(
        gauge, "partition_size_bytes", "Size of its segments.", lambda row: row.facts.size
    ),
    Column(
        gauge,
        "partition_flush_seconds",
        "What its last flush took.",
        lambda row: row.facts.flush_took_us / 1e6,
    ),
)


def families(
    broker: Broker, data_plane: DataPlane, partitions_max: int
) -> Iterator[Metric | None]:
    """None after each slice that was only looked at."""
    rows: list[TopicRow] = []
    for topics in slices(list(broker.topics.values())):
        rows += _look(topics, data_plane)
        yield None
    yield from _sums(rows)
    for column in TOPIC_COLUMNS:
        yield from in_slices(column, ["topic"], rows, lambda row: [row.topic])
    partitions = sum(len(row.facts) for row in rows)
    shown = gauge("partitions_shown", "1: there are metrics of each partition.")
    yield one(shown, partitions <= partitions_max)
    if partitions <= partitions_max:
        own = [
            PartitionRow(row.topic, str(number), facts)
            for row in rows
            for number, facts in zip(row.numbers, row.facts, strict=True)
        ]
        for column in PARTITION_COLUMNS:
            labels = ["topic", "partition"]
            yield from in_slices(column, labels, own, lambda row: [row.topic, row.partition])


def _look(topics: list[Topic], data_plane: DataPlane) -> Iterator[TopicRow]:
    facts = log_facts([log for each in topics for log in each.open_logs])
    for each in topics:
        numbers = [log.partition for log in each.open_logs]
        own, facts = facts[: len(numbers)], facts[len(numbers) :]
        counts = data_plane.topic_counts(each.name)
        if counts is not None:  # it was not deleted meanwhile
            yield TopicRow(each.name, numbers, own, *counts)


def _sums(rows: list[TopicRow]) -> Iterator[Metric]:
    facts = [each for row in rows for each in row.facts]
    yield one(gauge("topics", "Topics, the broker's own too."), len(rows))
    yield one(gauge("partitions", "Partitions of all topics."), len(facts))
    alive = sum(each.is_alive for each in facts)
    yield one(gauge("logs_failed", "Logs that take no more writes."), len(facts) - alive)
    size = gauge("logs_size_bytes", "Size of all segments.")
    yield one(size, sum(each.size for each in facts))
    unflushed = gauge("unflushed_bytes", "Bytes written and not yet on disk for certain.")
    yield one(unflushed, sum(each.unflushed_bytes for each in facts))
    records = gauge("unflushed_records", "Records written and not yet on disk for certain.")
    yield one(records, sum(each.unflushed_records for each in facts))
    age = gauge("unflushed_age_seconds", "Age of the oldest of them; 0: there is none.")
    yield one(age, max((each.unflushed_age_ms for each in facts), default=0) / 1000)


def in_slices(
    column: Column, labels: list[str], rows: list[Row], labels_of: Callable[[Row], list[str]]
) -> Iterator[Metric]:
    for start in range(0, len(rows), SLICE):
        family = column.make(column.name, column.text, labels)
        for row in rows[start : start + SLICE]:
            family.add_metric(labels_of(row), column.value(row))
        yield family
