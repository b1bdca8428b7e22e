"""The lag of an export behind the log, and the time until retention overtakes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.export.definitions_and_runs import Last, fault_of, wanted_by
from appliance.topics.topic import Topic


class ExportProgress(NamedTuple):
    records: int  # unexported offsets
    seconds: float | None  # largest possible age of the oldest one; None: nothing was exported yet
    seconds_left: float | None  # until time-based retention may delete one; None: never
    lost: int  # offsets deleted before they were exported


def topics_of(definition: Mapping[str, Any], topics: Mapping[str, Topic]) -> list[Topic]:
    if fault_of(definition):
        return []
    is_wanted = wanted_by(definition)
    return [
        each for name, each in sorted(topics.items()) if not each.is_internal and is_wanted(name)
    ]


def progress_of(definition: Mapping[str, Any], last: Last, broker: Broker) -> ExportProgress:
    """Reads the segments of its topics in memory; no disk."""
    now_ms = broker.clock.now_ms()  # the clock of retention
    taken = {
        (each["topic"], each["partition"]): each["to"]
        for each in (last.success or {}).get("partitions", [])
    }
    records = lost = 0
    left: list[float] = []
    for topic in topics_of(definition, broker.topics):
        retention_ms = int(broker.configs.of_topic(topic.name, "retention.ms"))
        deletes = "delete" in broker.configs.of_topic(topic.name, "cleanup.policy")
        for log in topic.open_logs:
            begin, end = log.log_start_offset, log.last_stable_offset
            at = taken.get((topic.name, log.partition), begin)
            lost += max(0, begin - at)
            records += max(0, end - max(at, begin))
            if at < end and deletes and retention_ms >= 0:
                left += _left(log, max(at, begin), retention_ms - now_ms)
    # unexported records were written after the last plan, so they cannot be older
    seconds = max(0.0, now_ms - last.success["started_ms"]) / 1000 if last.success else None
    return ExportProgress(records, seconds if records else 0.0, min(left, default=None), lost)


def _left(log: Log, offset: int, more_ms: float) -> list[float]:
    """Seconds until the segment with this offset is due for deletion."""
    for each in log.segments():
        if each.end_offset > offset and each.largest_timestamp not in (None, -1):
            return [max(0.0, (each.largest_timestamp + more_ms) / 1000)]
    return []
