"""What is true of the appliance: the one place that decides. `/healthz`, Home, `/metrics`,
`appliance health`, `status`, alerts and the start's sentence say what is decided here, in the same
words.

    ok           everything acknowledged is here, readable, and on disks that are well
    degraded     it serves, and somebody should look: less safety than usual, or a loss of which
                 nobody has said yet that they have seen it
    failing      something is not served, not taken, or on disks that are broken
    recovering   the start: logs are being opened
    stopping     logs are being closed

Each area has a function that answers findings; a new truth about the broker gets one here. All of
them are quick and on the event loop: what takes time is looked at by `Watch`, and asked for its
last look.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from appliance.broker.broker import Broker
from appliance.broker.finding import Finding, Level, first_of
from appliance.broker.health_of_directories import (
    of_hanging_syncs,
    of_moves,
    of_storage,
    of_syncs,
)
from appliance.broker.health_of_every_log import of_holes, of_timestamps
from appliance.catalog.loss_ledger import WHOLE, Damage, Entry
from appliance.config import BrokerConfig, MachineConfig
from appliance.data_dir import descriptor_budget
from appliance.data_dir.record_dirs import HANGS_S
from appliance.doctor import state
from appliance.doctor.check import Check
from appliance.doctor.tls import CertificateLook
from appliance.export.definitions_and_runs import fault_of
from appliance.export.due import overdue
from appliance.machine.clock_state import told as told_of_doubt
from appliance.machine.watch import LOOK_S, Machine
from appliance.native import _descriptors
from appliance.network._data_plane import DataPlane
from appliance.network.listener_tls import ListenerTls
from appliance.process import event_log
from appliance.process.spoken import duration, some

if TYPE_CHECKING:
    from appliance.broker.in_cluster import InCluster

log = event_log.named("health")

LOGS_S = 10.0  # between two looks at every log
TROUBLE_MS = 60_000  # so long it is told of when descriptors ran out: a probe comes by in time
NEARLY_ALL = 0.9  # of the descriptors
GROUPS_TOLD = 10  # of a damaged partition of `__consumer_offsets`
RESUMES = ": it is opened again by itself when there is room"
# Which broker answers, and how far a start has come: whoever asks all of them wants no login.
PUBLIC = ("node_id", "partitions_recovered")
IN_LEDGER = "entries of the ledger"  # alerts tell of each entry by itself


@dataclass(frozen=True)
class Health:
    status: str  # one of the words above
    findings: list[Finding] = field(default_factory=list)  # the worst first
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def reasons(self) -> list[str]:
        return [each.text for each in self.findings]

    @property
    def areas(self) -> list[str]:
        """For who may not be told the reasons."""
        return list(dict.fromkeys(each.area for each in self.findings))

    @property
    def public_facts(self) -> dict[str, Any]:
        return {name: each for name, each in self.facts.items() if name in PUBLIC}

    @property
    def is_serving(self) -> bool:
        """What a load balancer asks: less safety than usual is no reason to send clients away."""
        return self.status in ("ok", "degraded")


class Registered(Protocol):
    """The registration in a ZooKeeper."""

    @property
    def status(self) -> str: ...
    @property
    def refusal(self) -> Exception | None: ...


class PortConnections(Protocol):
    """Of the admin port, or of that of bulk data."""

    @property
    def port(self) -> str: ...  # which
    @property
    def open(self) -> int: ...
    @property
    def most(self) -> int: ...
    @property
    def refused_at(self) -> float | None: ...  # of time.monotonic()
    @property
    def ended(self) -> Mapping[str, int]: ...  # by reason


class Subject(Protocol):
    """The process of which the truth is told."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def status(self) -> str: ...  # "ok" once it serves
    @property
    def started(self) -> float: ...  # of time.monotonic()
    @property
    def recovered(self) -> tuple[int, int]: ...  # partitions, and how many there are
    @property
    def connections(self) -> Sequence[PortConnections]: ...  # of the ports of HTTP
    @property
    def faults(self) -> Mapping[str, str]: ...
    @property
    def broker(self) -> Broker | None: ...  # None until the logs are recovered
    @property
    def registration(self) -> Registered | None: ...
    @property
    def cluster(self) -> InCluster | None: ...  # that it is one of
    @property
    def alert_faults(self) -> Mapping[str, str]: ...  # why nothing can be sent, by channel
    @property
    def alert_refusals(self) -> Mapping[str, str]: ...  # who did not get the last, by channel
    @property
    def data_plane(self) -> DataPlane | None: ...
    @property
    def kafka_tls(self) -> Mapping[str, ListenerTls]: ...  # by the name of a listener


class Watch:
    """What takes time to look at: the machine, certificates, and every log."""

    def __init__(
        self, directory: Path, config: MachineConfig, record_dirs: Sequence[Path] = ()
    ) -> None:
        self.machine = Machine(directory, config)
        self.certificates = CertificateLook()
        # Of log.dirs: nothing is measured there, and nothing kept.
        self.beside = [
            Machine(each, config, is_guest=True)
            for each in record_dirs
            if each != directory.absolute()
        ]
        self.of_logs: list[Finding] = []  # at the last look
        self.has_looked = asyncio.Event()
        self.looked_at = time.monotonic()  # at the machine, to the end
        # Its own: a file system that hangs holds who looks at it, and would take the threads of
        # others one after the other.
        self._thread = ThreadPoolExecutor(1, "machine")
        self._logs_at = 0.0

    async def run(self, subject: Subject) -> None:
        """Until it is cancelled."""
        try:
            while True:
                try:
                    await self.look(subject)
                except Exception:
                    log.exception("the machine could not be looked at")
                await asyncio.sleep(LOOK_S)
        finally:
            self._thread.shutdown(wait=False)

    async def look(self, subject: Subject) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._look)
            self.looked_at = time.monotonic()
            await loop.run_in_executor(self._thread, self.certificates.again, subject.config)
        finally:
            self.has_looked.set()
        broker = subject.broker
        if broker is None or subject.status != "ok":
            return
        if broker.ledger.unsaved:
            await asyncio.to_thread(broker.ledger.save)
        if time.monotonic() - self._logs_at >= LOGS_S:
            await self.look_at_logs(broker)

    def _look(self) -> None:
        self.machine.look()
        for each in self.beside:
            with suppress(OSError):  # it is offline, and told of
                each.look()

    async def look_at_logs(self, broker: Broker) -> None:
        future = await of_timestamps(broker, broker.clock.latest_ms())
        self.of_logs = [*future, *await of_holes(broker)]
        self._logs_at = time.monotonic()


def decide(subject: Subject, watch: Watch) -> Health:
    broker = subject.broker
    facts: dict[str, Any] = {
        "node_id": subject.config.node_id,
        "data_dir": str(subject.config.data_dir),
        "uptime_s": round(time.monotonic() - subject.started, 1),
        "runs_as_root": os.geteuid() == 0,  # no finding: one may want it, as for a try
    }
    if broker is None or subject.status != "ok":
        done, found = subject.recovered
        facts |= {"partitions_recovered": done, "partitions": found}
        return Health(subject.status, [], facts)
    facts |= {
        "partitions": len(broker.log_dir.logs()),
        "topics": len(broker.topics),
        "free_bytes": broker.log_dir.free_bytes,
        "losses": len(broker.ledger.open()),
    }
    if registered := subject.registration or subject.cluster:
        facts["zookeeper"] = registered.status
    findings = sorted(_all(subject, broker, watch), key=lambda each: each.level != "failing")
    return Health(findings[0].level if findings else "ok", findings, facts)


def _all(subject: Subject, broker: Broker, watch: Watch) -> Iterator[Finding]:
    yield from of_logs(broker)
    yield from of_storage(broker)
    yield from of_moves(broker)
    yield from of_descriptors(time.monotonic() - subject.started)
    yield from of_listeners(broker.configs.in_force.config)
    if subject.data_plane is not None:
        yield from of_waiting(subject.config, subject.data_plane)
    yield from of_certificates(watch.certificates)
    for each in subject.connections:
        yield from of_port(each)
    yield from of_syncs(broker)
    yield from of_hangs(broker, watch)
    yield from of_machines([watch.machine, *watch.beside])
    yield from of_clock(broker)
    yield from of_ledger(broker)
    yield from of_refused_reads(broker)
    yield from of_owners(broker)
    yield from of_groups(broker)
    for name, text in sorted(subject.faults.items()):
        yield Finding("failing", "upkeep", f"{name}: {text}", name)
    for name, text in sorted(subject.alert_faults.items()):
        yield Finding("degraded", "alerts", f"no alert can be sent by {name}: {text}", name)
    for name, text in sorted(subject.alert_refusals.items()):
        told = f"not all got the last alert by {name}: {text}"
        yield Finding("degraded", "alerts", told, f"refused by {name}")
    if registered := subject.registration or subject.cluster:
        yield from of_registration(registered)
    if subject.cluster is not None:
        # only now: a broker alone has no replicas, and this looks into all of a cluster
        from appliance.broker.health_of_replicas import of_replicas

        yield from of_replicas(subject.cluster)
    if broker.kept_from_cluster:
        yield Finding("degraded", "zookeeper", broker.kept_from_cluster)
    yield from of_exports(broker)
    yield from broker.backup_reports.findings(broker.clock.now_ms())
    yield from of_scrub(broker)
    yield from watch.of_logs


def of_logs(broker: Broker) -> Iterator[Finding]:
    unopened = [
        f"not opened: {text}"
        for key, text in sorted(broker.topics.not_open().items())
        if not broker.log_dir.away(*key)  # of those their directory tells
    ]
    failed = [
        f"{topic}-{partition}: {each.failed_text}{RESUMES if each.waits_for_room else ''}"
        for (topic, partition), each in broker.log_dir.logs().items()
        if each.failed
    ]
    stay = [
        f"the deletion of topic {name} cannot be finished: {why}"
        for name, why in sorted(broker.topics.undeleted.items())
    ]
    yield from first_of("failing", "logs", unopened, "partitions are not opened")
    yield from first_of("failing", "logs", failed, "partitions have failed")
    yield from first_of("failing", "logs", stay, "deletions cannot be finished")


def of_hangs(broker: Broker, watch: Watch) -> Iterator[Finding]:
    yield from of_hanging_syncs(broker)
    look_s = time.monotonic() - watch.looked_at
    if look_s > HANGS_S + LOOK_S:
        text = f"disks and file systems have not answered for {duration(look_s)}"
        yield Finding("failing", "storage", f"{text}: what is said of them here is as old")


def of_descriptors(up_s: float) -> Iterator[Finding]:
    """Descriptors are the process's: what happened before this broker began is none of its. That
    idle files are closed for others is how it works, and a metric."""
    lately_ms = min(TROUBLE_MS, up_s * 1000)
    found, used = _descriptors.counters(), descriptor_budget.in_use()
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = (
        f"{used} of {limit} file descriptors are in use, {found['open']} of {found['most']} that "
        "the logs may have"
    )
    remedy = "raise LimitNOFILE of the service, or `ulimit -n`"
    if 0 <= found["refused_ago_ms"] < lately_ms:
        text = "no file descriptor was free: reads or writes were refused, or connections wait"
        yield Finding("failing", "descriptors", f"{text}: {room}; {remedy}")
    elif used > NEARLY_ALL * limit:
        yield Finding("degraded", "descriptors", f"nearly none is free: {room}; {remedy}")


def of_listeners(config: BrokerConfig) -> Iterator[Finding]:
    for each in config.open_listeners:
        text = f"whoever reaches {each} may read, write and delete everything: there is no login"
        yield Finding("degraded", "listeners", f"{text} (allow.open.listeners)")


def of_certificates(look: CertificateLook) -> Iterator[Finding]:
    """In the words of `appliance doctor`, of all ports."""
    for each in look.checks:
        if each.is_wrong:
            level: Level = "failing" if each.verdict == "failing" else "degraded"
            yield Finding(level, "certificate", each.found)


def of_waiting(config: BrokerConfig, data_plane: DataPlane) -> Iterator[Finding]:
    """A rate lets them in soon: a metric tells of that."""
    for each, found in zip(config.listeners, data_plane.listener_counters(), strict=False):
        if found.waits_for == "connections":
            text = (
                f"new connections to {each} wait until one ends: it has {found.connections} "
                "(max.connections, of the listener or of all)"
            )
            yield Finding("degraded", "listeners", text)


def of_port(connections: PortConnections) -> Iterator[Finding]:
    if connections.refused_at is None:
        return
    if (time.monotonic() - connections.refused_at) * 1000 < TROUBLE_MS:
        text = (
            f"the {connections.port} port has {connections.open} of {connections.most} connections "
            "that it may have (admin.max.connections.total, and descriptors): some were closed for "
            "others"
        )
        yield Finding("degraded", connections.port, text)


def of_machines(machines: Iterable[Machine]) -> Iterator[Finding]:
    """What directories have in common is said once."""
    told: set[Finding] = set()
    for each in machines:
        found = [one for one in of_machine(each) if one not in told]
        told.update(found)
        yield from found


def of_machine(machine: Machine) -> Iterator[Finding]:
    """What `appliance doctor` says is wrong, in its words."""
    by_area: dict[str, list[Check]] = {}
    for check in state.checks(machine):
        if check.verdict in ("degraded", "failing"):
            by_area.setdefault(check.area or check.name, []).append(check)
    for area, found in by_area.items():
        for level in ("failing", "degraded"):
            texts = [each.found for each in found if each.verdict == level]
            yield from first_of(level, area, texts, f"of {area}")


def of_clock(broker: Broker) -> Iterator[Finding]:
    if doubt := broker.clock.doubt():
        yield Finding("degraded", "clock", told_of_doubt(doubt))


def of_ledger(broker: Broker) -> Iterator[Finding]:
    entries = [told(each) for each in broker.ledger.open()]
    for each in first_of("degraded", "ledger", entries, "losses or damages are in the ledger"):
        yield each._replace(about=IN_LEDGER)
    if broker.ledger.unsaved:
        text = f"{some(broker.ledger.unsaved, 'damage')} cannot be stored in the ledger: a restart"
        text += " would forget it, and what a scrub found is not marked for readers before that"
        yield Finding("degraded", "ledger", text)


def told(entry: Entry) -> str:
    when = time.strftime("%Y-%m-%d %H:%MZ", time.gmtime(entry.at_ms / 1000))
    return f"{told_of_damage(entry.damage)} (found {when}, not acknowledged yet)"


def told_of_damage(damage: Damage) -> str:
    return str(damage) if damage.partition == WHOLE else f"{damage.kind} {damage}"


def of_owners(broker: Broker) -> Iterator[Finding]:
    for owner in (
        broker.groups.availability, broker.transactions.loading, broker.share_partitions.loading,
        broker.transactions.table.led, broker.share_partitions.state_coordinator.led,
    ):  # fmt: skip
        if owner.fault:
            yield Finding("failing", "groups and transactions", owner.fault)
    if fault := broker.groups.commits.fault:
        yield Finding("degraded", "groups and transactions", fault)
    hanging = [
        f"{log.name}: a transaction of producer {each.producer_id} is open from offset "
        f"{each.txn_first_offset} on, and how it was decided cannot be read: readers of committed "
        f"records wait there. `kafka-transactions.sh --bootstrap-server {broker.advertised} abort "
        f"--topic {log.topic} --partition {log.partition} --start-offset {each.txn_first_offset}` "
        "ends it as aborted"
        for log, each in broker.transactions.adoption.hanging()
    ]
    yield from first_of("degraded", "groups and transactions", hanging, "transactions hang")


def of_groups(broker: Broker) -> Iterator[Finding]:
    """While nobody has acknowledged the loss itself."""
    lost = {f"{each.damage.topic}-{each.damage.partition}" for each in broker.ledger.open()}
    for name, groups in sorted(broker.groups.doubtful.items()):
        if name in lost and groups:
            told = ", ".join(groups[:GROUPS_TOLD])
            more = f" and {len(groups) - GROUPS_TOLD} more" if len(groups) > GROUPS_TOLD else ""
            text = (
                f"records of {name} are lost: commits of groups {told}{more}, or of groups not "
                "known any more, may be among them, and these go on from older offsets"
            )
            yield Finding("degraded", "groups and transactions", text)


def of_registration(registration: Registered) -> Iterator[Finding]:
    """One lost ZooKeeper must not take all brokers out of a load balancer: they serve on."""
    if registration.refusal:
        yield Finding("failing", "zookeeper", f"not registered: {registration.refusal}")
    elif registration.status.startswith("away"):
        yield Finding("degraded", "zookeeper", f"ZooKeeper is {registration.status}")


ERROR_TOLD = 300  # characters of a run's error; its history has the whole


def of_exports(broker: Broker) -> Iterator[Finding]:
    for hold in broker.holds.all():
        if hold.warning:
            yield Finding("degraded", "exports", hold.warning)
    for definition, last in broker.exports.all():
        if last.run and last.run["state"] == "failed":
            why = str(last.run.get("error") or "nobody has told why")[:ERROR_TOLD]
            text = f"the last run of export {definition['name']} failed: {why}"
            yield Finding("degraded", "exports", text, f"{definition['name']} failed")
        if fault := fault_of(definition):
            text = f"export {definition['name']} cannot run as it is defined: {fault}"
            yield Finding("degraded", "exports", text)
            continue
        now = broker.clock.now_ms() / 1000
        if late := overdue(definition, last, broker.exports, now, time.monotonic()):
            yield Finding("degraded", "exports", late, f"{definition['name']} is late")


def of_refused_reads(broker: Broker) -> Iterator[Finding]:
    """At once: what was damaged is in the ledger only when its segment was verified."""
    texts = broker.refused_reads.texts()
    yield from first_of("degraded", "reads", texts, "segments in which reads were refused")


def of_scrub(broker: Broker) -> Iterator[Finding]:
    """Damage itself is in the ledger. A disk that nobody has read for long may hold any."""
    if broker.scrubber.is_late:
        age_ms = broker.scrubber.age_ms
        since = "ever" if age_ms is None else f"for {duration(age_ms / 1000)}"
        text = f"not every segment has been verified {since}: `appliance scrub` does it now"
        yield Finding("degraded", "scrub", text)
    failed = [
        f"a segment cannot be verified or mended: {each}" for each in broker.scrubber.failed()
    ]
    yield from first_of("degraded", "scrub", failed, "segments that cannot be verified")


# In one sentence


def sentence(health: Health, when_well: str = "everything is served") -> str:
    if health.status == "recovering":
        done, found = health.facts["partitions_recovered"], health.facts["partitions"]
        return f"Starting: {done} of {found} partitions are recovered."
    if health.status == "stopping":
        return "Stopping: logs are being closed."
    if not health.findings:
        return f"Healthy: {when_well}."
    return f"{health.status.capitalize()}: {worst(health.findings)}"


def worst(findings: Iterable[Finding]) -> str:
    first, *others = findings
    return f"{first.text}." + (f" And {len(others)} more." if others else "")
