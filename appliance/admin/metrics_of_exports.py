"""Metrics of exports: how reading goes, how far each defined export is behind, what holds keep."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric

from appliance.admin.export_progress import progress_of
from appliance.admin.metrics_of_broker import counter, gauge
from appliance.broker.broker import Broker
from appliance.bulk.reader_threads import Reading
from appliance.export.definitions_and_runs import Last, fault_of
from appliance.export.due import overdue

NAN = float("nan")


def families(broker: Broker, reading: Reading) -> Iterator[Metric | None]:
    yield from of_reading(reading)
    yield from of_holds(broker)
    yield from of_exports(broker)


def of_reading(reading: Reading) -> Iterator[Metric]:
    open_now = gauge("export_streams_open", "Exports that are being read.")
    open_now.add_metric([], reading.streams)
    ended = counter("export_streams", "Exports that were read, by how they ended.", ["ended"])
    for how, count in reading.streams_ended.items():
        ended.add_metric([how], count)
    sent = counter("export_read_bytes", "Bytes of batches read for exports.")
    sent.add_metric([], reading.bytes)
    passed = counter("export_uncached_bytes", "Of them, read from disk and dropped from memory.")
    passed.add_metric([], reading.passed_bytes)
    yield from (open_now, ended, sent, passed)


def of_holds(broker: Broker) -> Iterator[Metric]:
    names = ["hold", "topic"]
    kept = gauge("export_hold_bytes", "What a hold keeps beyond retention.", names)
    most = gauge("export_hold_max_bytes", "What it keeps at most.", names)
    gone = gauge("export_hold_released", "1: it let go, and retention deletes again.", names)
    for each in broker.holds.all():
        labels = [each.name, each.topic]
        kept.add_metric(labels, each.held_bytes)
        most.add_metric(labels, each.max_bytes)
        gone.add_metric(labels, 0 if each.is_holding else 1)
    yield from (kept, most, gone)


def of_exports(broker: Broker) -> Iterator[Metric | None]:
    """None after each export that was looked at."""
    success = gauge(
        "export_last_success_seconds", "Since 1970, start of the last run that succeeded.", EXPORT
    )
    failing = gauge("export_last_run_failed", "1: the last run failed, or none can begin.", EXPORT)
    late = gauge("export_overdue", "1: a run was due, and nobody has begun or ended it.", EXPORT)
    rows = gauge("export_last_rows", "Rows of the last run that succeeded.", EXPORT)
    dead = gauge("export_last_dead_letters", "Of them, records that did not parse.", EXPORT)
    behind = gauge("export_behind_records", "Offsets that are not exported yet.", EXPORT)
    hours = gauge("export_behind_hours", "Age of the oldest of them, at most.", EXPORT)
    left = gauge(
        "export_seconds_until_deleted",
        "Until time-based retention may delete what is not exported; NaN: it will not.",
        EXPORT,
    )
    lost = gauge("export_lost_records", "Offsets deleted before they were exported.", EXPORT)
    for definition, last in broker.exports.all():
        labels = [definition["name"]]
        now = progress_of(definition, last, broker)
        success.add_metric(labels, last.success["started_ms"] / 1000 if last.success else NAN)
        failing.add_metric(labels, int(is_failing(definition, last)))
        late.add_metric(labels, int(is_late(definition, last, broker)))
        rows.add_metric(labels, total(last.success, "rows"))
        dead.add_metric(labels, total(last.success, "dead_letters"))
        behind.add_metric(labels, now.records)
        hours.add_metric(labels, now.seconds / 3600 if now.seconds is not None else NAN)
        left.add_metric(labels, now.seconds_left if now.seconds_left is not None else NAN)
        lost.add_metric(labels, now.lost)
        yield None
    yield from (success, failing, late, rows, dead, behind, hours, left, lost)


EXPORT = ["export"]


def is_failing(definition: dict[str, Any], last: Last) -> bool:
    return bool(fault_of(definition) or (last.run and last.run["state"] == "failed"))


def is_late(definition: dict[str, Any], last: Last, broker: Broker) -> bool:
    if fault_of(definition):
        return False
    seconds = broker.clock.now_ms() / 1000
    return bool(overdue(definition, last, broker.exports, seconds, time.monotonic()))


def total(run: dict[str, Any] | None, name: str) -> int:
    return sum(each.get(name, 0) for each in run.get("partitions", [])) if run else 0
