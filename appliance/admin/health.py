"""Health in the words of `appliance/broker/health.py`, and what the first page shows beside it."""

from __future__ import annotations

import math
import time
from typing import NamedTuple, TypedDict

from appliance import __version__
from appliance.admin.body_schema import row_of
from appliance.admin.broker_process import Process
from appliance.admin.disk_space import Storage, storage_of
from appliance.admin.export_progress import progress_of
from appliance.admin.partition_snapshot import Survey, Taken
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import Call, get
from appliance.admin.zookeeper_groups import all_in
from appliance.broker.backup_reports import Kind
from appliance.broker.broker import Broker
from appliance.broker.finding import Level
from appliance.broker.health import sentence
from appliance.machine.clock_state import ClockNow
from appliance.machine.raid import Array
from appliance.process.spoken import duration
from appliance.storage._log_metrics import LogFacts


class HealthFinding(TypedDict):
    level: Level
    area: str
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


class BackupNow(TypedDict):
    """The last backup, or the last test of a restore."""

    target: str
    at_ms: int
    good_s: float | None  # age of the last that is whole, by its point; None: there is none
    fault: str  # "": it is whole
    partitions: int
    records: int
    bytes: int
    took_s: float


class BackupsNow(TypedDict):
    last: BackupNow | None  # None: there was none
    test: BackupNow | None
    is_overdue: bool


class TrafficNow(TypedDict):
    """Over the last 4 to 30 seconds, while somebody looks."""

    received_bytes_per_s: float
    received_records_per_s: float
    sent_bytes_per_s: float
    produce_p99_ms: float | None  # a bound: 99 of 100 took at most so long; None: there were none
    fetch_p99_ms: float | None  # of those that did not wait for data


class HealthAnswer(TypedDict):
    status: str
    sentence: str
    findings: list[HealthFinding]  # the worst first
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
    backups: BackupsNow | None
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
    when_well = f"accepting writes, {last_flush(unflushed)}" if unflushed else ""
    plane, machine = process.data_plane, process.watch.machine
    return {
        "status": health.status,
        "sentence": sentence(health, when_well),
        "findings": [row_of(HealthFinding, each) for each in health.findings],
        "version": __version__,
        "node_id": process.config.node_id,
        "cluster_id": broker.cluster_id if broker else None,
        "uptime_s": round(time.monotonic() - process.started, 1),
        "listeners": listeners(process),
        "data_dir": str(process.config.data_dir.absolute()),
        "zookeeper": path.status if (path := process.registration or process.cluster) else None,
        "topics": len(broker.topics) if broker else 0,
        "partitions": totals.partitions,
        "size_bytes": totals.size,
        "groups": len(broker.groups.table.groups) + len(all_in(broker)) if broker else 0,
        "connections": plane.counters()["connections_open"] if plane else 0,
        "storage": await storage_of(broker, process, survey) if broker else None,
        "raid": machine.arrays,
        "unflushed": unflushed,
        "most_behind": most_behind(broker) if broker else None,
        "exports": exports_now(broker) if broker else None,
        "backups": backups_now(broker) if broker else None,
        "traffic": traffic_of(taken) if taken else None,
        "clock": machine.clock.now(),
    }


def listeners(process: Process) -> dict[str, str]:
    first, *others = process.kafka_addresses or (None,)
    names = [each.name for each in process.config.listeners]
    found = {
        "kafka": first,
        **{f"kafka {name}": it for name, it in zip(names[1:], others, strict=False)},
        "admin": process.admin_address,
        "export": process.export_address,
    }
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
    return row_of(Behind, worst, no_commit_records=worst.without_commit.records)


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


def backups_now(broker: Broker) -> BackupsNow:
    reports, now_ms = broker.backup_reports, broker.clock.now_ms()

    def told(kind: Kind) -> BackupNow | None:
        found = reports.outcomes.get(kind)
        if found is None:
            return None
        good_s = None if found.good_ms is None else max(0, now_ms - found.good_ms) / 1000
        return row_of(BackupNow, found, good_s=good_s)

    return {
        "last": told("backup"),
        "test": told("restore test"),
        "is_overdue": reports.is_overdue(now_ms),
    }


def last_flush(unflushed: Unflushed) -> str:
    ago_ms = unflushed["last_flush_ago_ms"]
    if unflushed["records"]:
        oldest = duration(unflushed["oldest_ms"] / 1000)
        return f"{unflushed['records']} records not on disk yet, the oldest {oldest} old"
    if ago_ms is None:
        return "nothing was written since the start"
    return f"everything is on disk, last flush {duration(ago_ms / 1000)} ago"


ROUTES = [
    get(
        "/health",
        get_health,
        HealthAnswer,
        "How the broker is, in one sentence and in numbers.",
        rights=(DESCRIBE_CLUSTER,),
    ),
]
