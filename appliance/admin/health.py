"""Health as one sentence with its cause, and what the first page shows beside it."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any, Literal, NamedTuple, TypedDict

from appliance import __version__
from appliance._engine import LogFacts
from appliance.admin import raid
from appliance.admin.clock import ClockNow
from appliance.admin.export_progress import progress_of
from appliance.admin.process import Process
from appliance.admin.raid import Array
from appliance.admin.route import Call, get
from appliance.admin.storage import Storage, storage_of
from appliance.admin.survey import Survey, Taken
from appliance.broker import Broker

FUTURE_MS = 3_600_000  # what message.timestamp.after.max.ms lets in unless it is set otherwise

Level = Literal["ok", "warning", "critical"]


class Warned(TypedDict):
    level: Level
    text: str


class Unflushed(TypedDict):
    """What a power cut could take now."""

    records: int
    bytes: int
    oldest_ms: int
    last_flush_ms: float | None  # what it took
    last_flush_ago_ms: int | None


class Behind(TypedDict):
    """The consumer group that is farthest behind."""

    group: str
    records: int
    no_commit_records: int  # of them: in partitions for which it committed nothing yet
    seconds: float | None


class WorstExport(TypedDict):
    """The one that retention reaches first, else the one that is farthest behind."""

    name: str
    behind_records: int
    behind_seconds: float | None
    seconds_left: float | None
    lost_records: int


class ExportsNow(TypedDict):
    exports: int
    failed: int  # whose last run failed
    worst: WorstExport | None


class TrafficNow(TypedDict):
    """Over the last 4 to 30 seconds, while somebody looks."""

    received_bytes_per_s: float
    received_records_per_s: float
    sent_bytes_per_s: float
    produce_p99_ms: float | None  # a bound: 99 of 100 took at most so long; None: there were none
    fetch_p99_ms: float | None  # of those that did not wait for data


class HealthAnswer(TypedDict):
    status: str
    level: Level
    sentence: str
    reasons: list[str]
    warnings: list[Warned]
    version: str
    node_id: int
    cluster_id: str | None
    uptime_s: float
    listeners: dict[str, str]
    data_dir: str
    zookeeper: str | None
    topics: int
    partitions: int
    size_bytes: int
    groups: int
    connections: int
    storage: Storage | None
    raid: list[Array]
    unflushed: Unflushed | None
    most_behind: Behind | None
    exports: ExportsNow | None
    traffic: TrafficNow | None
    clock: ClockNow


async def get_health(call: Call) -> HealthAnswer:
    return await health_of(call.process, call.survey)


async def health_of(process: Process, survey: Survey) -> HealthAnswer:
    health = process.health()
    broker = process.broker if process.status == "ok" else None
    taken = await survey.take() if broker else None
    totals = survey.derived(taken, "totals", totals_of) if taken else NO_TOTALS
    unflushed = totals.unflushed
    storage = await storage_of(broker, process, survey) if broker else None
    arrays = await asyncio.to_thread(raid.snapshot)
    warned = warnings(process, storage, arrays)
    warned += [{"level": "warning", "text": text} for text in survey.clock.warnings()]
    if broker is not None and taken is not None:
        warned += from_the_future(broker, taken, time.time() * 1000)
    level: Level = "critical" if health.status != "ok" else "warning" if warned else "ok"
    return {
        "status": health.status,
        "level": level,
        "sentence": sentence(health.status, health.reasons, health.facts, unflushed),
        "reasons": health.reasons,
        "warnings": warned,
        "version": __version__,
        "node_id": process.config.node_id,
        "cluster_id": broker.cluster_id if broker else None,
        "uptime_s": round(time.monotonic() - process.started, 1),
        "listeners": listeners(process),
        "data_dir": str(process.config.data_dir.absolute()),
        "zookeeper": process.registration.status if process.registration else None,
        "topics": len(broker.topics) if broker else 0,
        "partitions": totals.partitions,
        "size_bytes": totals.size,
        "groups": len(broker.groups.groups) if broker else 0,
        "connections": process.data_plane.counters()["connections_open"]
        if process.data_plane
        else 0,
        "storage": storage,
        "raid": arrays,
        "unflushed": unflushed,
        "most_behind": most_behind(broker) if broker else None,
        "exports": exports_now(broker) if broker else None,
        "traffic": traffic_of(taken) if taken else None,
        "clock": survey.clock.now(),
    }


def listeners(process: Process) -> dict[str, str]:
    found = {"kafka": process.kafka_address, "admin": process.admin_address}
    return {name: str(address) for name, address in found.items() if address}


class Totals(NamedTuple):
    partitions: int
    size: int
    unflushed: Unflushed | None


NO_TOTALS = Totals(0, 0, None)


def totals_of(taken: Taken) -> Totals:
    facts = taken.all()
    return Totals(len(facts), sum(each.size for each in facts), unflushed_of(facts))


def unflushed_of(facts: list[LogFacts]) -> Unflushed:
    flushed = [each for each in facts if each.flushed_ago_ms >= 0]
    last = min(flushed, key=lambda each: each.flushed_ago_ms, default=None)
    return {
        "records": sum(each.unflushed_records for each in facts),
        "bytes": sum(each.unflushed_bytes for each in facts),
        "oldest_ms": max((each.unflushed_age_ms for each in facts), default=0),
        "last_flush_ms": last.flush_took_us / 1000 if last else None,
        "last_flush_ago_ms": last.flushed_ago_ms if last else None,
    }


def traffic_of(taken: Taken) -> TrafficNow:
    rates = taken.rates.values()
    return {
        "received_bytes_per_s": sum(each.bytes_in for each in rates),
        "received_records_per_s": sum(each.records_in for each in rates),
        "sent_bytes_per_s": sum(each.bytes_out for each in rates),
        "produce_p99_ms": taken.latency.produce_ms,
        "fetch_p99_ms": taken.latency.fetch_ms,
    }


def most_behind(broker: Broker) -> Behind | None:
    groups = broker.lag.snapshot().groups
    worst = max(groups, key=lambda each: (each.seconds or 0.0, each.records), default=None)
    if worst is None:
        return None
    return {
        "group": worst.group,
        "records": worst.records,
        "no_commit_records": worst.without_commit.records,
        "seconds": worst.seconds,
    }


def exports_now(broker: Broker) -> ExportsNow:
    rows: list[WorstExport] = []
    failed = 0
    for definition, last in broker.exports.all():
        failed += bool(last.run and last.run["state"] == "failed")
        found = progress_of(definition, last, broker)
        rows.append(
            {
                "name": definition["name"],
                "behind_records": found.records,
                "behind_seconds": found.seconds,
                "seconds_left": found.seconds_left,
                "lost_records": found.lost,
            }
        )
    worst = max(
        rows,
        key=lambda row: (
            row["lost_records"],
            -row["seconds_left"] if row["seconds_left"] is not None else -math.inf,
            row["behind_records"],
        ),
        default=None,
    )
    return {"exports": len(rows), "failed": failed, "worst": worst}


def sentence(
    status: str, reasons: list[str], facts: dict[str, Any], unflushed: Unflushed | None
) -> str:
    if status == "recovering":
        done, found = facts["partitions_recovered"], facts["partitions"]
        return f"Starting: {done} of {found} partitions are recovered."
    if status == "stopping":
        return "Stopping: logs are being closed."
    if reasons:
        more = f" And {len(reasons) - 1} more." if len(reasons) > 1 else ""
        return f"Failing: {reasons[0]}.{more}"
    assert unflushed is not None
    return f"Healthy: accepting writes, {last_flush(unflushed)}."


def last_flush(unflushed: Unflushed) -> str:
    ago_ms = unflushed["last_flush_ago_ms"]
    if unflushed["records"]:
        oldest = spoken(unflushed["oldest_ms"])
        return f"{unflushed['records']} records not on disk yet, the oldest {oldest} old"
    if ago_ms is None:
        return "nothing was written since the start"
    return f"everything is on disk, last flush {spoken(ago_ms)} ago"


def spoken(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms / 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def warnings(process: Process, storage: Storage | None, arrays: list[Array]) -> list[Warned]:
    """What is no failure, and yet wants somebody's attention."""
    found: list[Warned] = [
        {"level": "critical", "text": text} for each in arrays if (text := raid.reason(each))
    ]
    if storage and storage["free_bytes"] < 2 * storage["low_water_bytes"]:
        free, low = storage["free_bytes"], storage["low_water_bytes"]
        text = f"{free} bytes free; below {low} writes are refused"
        found.append({"level": "warning", "text": text})
    registration = process.registration
    if registration is not None and registration.status.startswith("away"):
        found.append({"level": "warning", "text": f"ZooKeeper is {registration.status}"})
    broker = process.broker
    if broker is not None and process.status == "ok":
        found += [
            {"level": "warning", "text": each.warning}
            for each in broker.holds.all()
            if each.warning
        ]
        found += [
            {
                "level": "critical",
                "text": f"lost at this start: {each.topic}-{each.partition}, "
                f"offsets from {each.first_offset}: {each.what}",
            }
            for each in broker.log_dir.report.losses
        ]
    return found


def from_the_future(broker: Broker, taken: Taken, now_ms: float) -> list[Warned]:
    """Of the topics that delete by time, the one whose records are farthest ahead."""
    found: list[tuple[int, str]] = []
    for name, facts in taken.facts.items():
        last = max((each.largest_timestamp for each in facts), default=-1)
        if last > now_ms + FUTURE_MS and name in broker.topics and expires(broker, name):
            found.append((last, name))
    if not found:
        return []
    last, name = max(found)
    written = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(last / 1000))
    more = f", and of {len(found) - 1} other topics" if len(found) > 1 else ""
    text = (
        f"{name} has a record of {written}, {spoken(round(last - now_ms))} ahead of the "
        f"clock{more}: retention by time keeps its segment until then"
    )
    return [{"level": "warning", "text": text}]


def expires(broker: Broker, name: str) -> bool:
    deletes = "delete" in broker.topic_config(name, "cleanup.policy").split(",")
    return deletes and int(broker.topic_config(name, "retention.ms")) >= 0


ROUTES = [
    get("/health", get_health, HealthAnswer, "How the broker is, in one sentence and in numbers."),
]
