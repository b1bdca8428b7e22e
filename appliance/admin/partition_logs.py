"""Logs of partitions in numbers over REST."""

from __future__ import annotations

from typing import TypedDict

from appliance._log import Log
from appliance.admin.body_schema import row_of
from appliance.admin.route import Call, get
from appliance.storage._log_metrics import LogFacts, log_facts


class PartitionRow(TypedDict):
    partition: int
    log_start_offset: int
    durable_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    leader_epoch: int
    segments: int
    size_bytes: int
    last_write_ms: int | None
    unflushed_records: int
    unflushed_bytes: int
    unflushed_age_ms: int
    last_flush_ms: float | None  # what it took
    last_flush_ago_ms: int | None
    failed: str | None


class LogRow(PartitionRow):
    topic: str


class LogList(TypedDict):
    logs: list[LogRow]


def partition_row(partition: int, log: Log, facts: LogFacts) -> PartitionRow:
    has_flushed = facts.flushed_ago_ms >= 0
    return row_of(
        PartitionRow,
        facts,
        partition=partition,
        size_bytes=facts.size,
        last_write_ms=facts.largest_timestamp if facts.largest_timestamp >= 0 else None,
        last_flush_ms=facts.flush_took_us / 1000 if has_flushed else None,
        last_flush_ago_ms=facts.flushed_ago_ms if has_flushed else None,
        failed=None if facts.is_alive else log.failed,
    )


def list_logs(call: Call) -> LogList:
    """Of the directory, whatever the topics are."""
    broker, described = call.process.broker, call.described_topics()
    every = sorted(broker.log_dir.logs().items()) if broker else []
    pairs = [(key, log) for key, log in every if key[0] in described]
    found = zip(pairs, log_facts([log for _, log in pairs]), strict=True)
    return {
        "logs": [
            {"topic": topic, **partition_row(partition, log, facts)}
            for ((topic, partition), log), facts in found
        ]
    }


ROUTES = [
    get(
        "/logs",
        list_logs,
        LogList,
        "Every partition on disk, in numbers.",
        rights=(),
        asks="only topics with DESCRIBE",
    )
]
