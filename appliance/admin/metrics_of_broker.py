"""Metrics of the process as a whole: requests, connections, commits, disk, groups, ZooKeeper."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from appliance import __version__
from appliance.admin import zookeeper_groups
from appliance.admin.broker_process import Process
from appliance.admin.groups import protocol_of
from appliance.broker.broker import Broker
from appliance.broker.health import PortConnections
from appliance.data_dir import descriptor_budget
from appliance.groups.zookeeper_groups import PROTOCOL as ZOOKEEPER_GROUP
from appliance.native import _descriptors
from appliance.native._histogram import TIME_BOUNDS_NS
from appliance.network._data_plane import DataPlane
from appliance.protocol import MODULES
from appliance.txn.states import State

PREFIX = "appliance_"
BOUNDS = (*(str(ns / 1e9) for ns in TIME_BOUNDS_NS), "+Inf")
ZOOKEEPER = ("connected", "away", "refused")

# What the data plane counts, as it is shown: name, unit or kind, what it is.
PLANE_COUNTERS = {
    "connections_accepted": ("connections_accepted", "Connections that were let in."),
    "connections_refused": ("connections_refused", "Connections above a limit."),
    "punted_requests": ("control_requests", "Requests that went to the control plane."),
    "throttled_requests": ("throttled_requests", "Requests after which a quota held back."),
    "tls_handshakes": ("tls_handshakes", "Handshakes of TLS that ended well."),
    "tls_handshakes_resumed": ("tls_handshakes_resumed", "Of these, resumptions of a session."),
    "tls_handshakes_failed": ("tls_handshakes_failed", "Handshakes of TLS that did not."),
    "bytes_in": ("network_received_bytes", "Bytes that came from clients, whatever they are."),
    "bytes_out": ("network_sent_bytes", "Bytes that went to clients, whatever they are."),
}
PLANE_GAUGES = {
    "connections_open": ("connections", "Connections of clients."),
    "tls_handshakes_open": ("tls_handshakes_open", "Handshakes of TLS that are under way."),
    "queued_bytes": ("queued_request_bytes", "Memory promised to requests."),
    "held_bytes": ("queued_response_bytes", "Memory of answers that were not taken yet."),
    "fetch_partitions": ("fetch_partitions", "Partitions in fetch sessions and waiting fetches."),
    "decisions": ("decisions_kept", "Decisions about rights that the network threads remember."),
    "quota_names": ("quota_clients", "Clients whose use of a quota is being counted."),
}
CLOSED = "connections_closed_"


def gauge(name: str, text: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=labels)


def counter(name: str, text: str, labels: Sequence[str] = ()) -> CounterMetricFamily:
    return CounterMetricFamily(PREFIX + name, text, labels=labels)


def histogram(name: str, text: str, labels: Sequence[str] = ()) -> HistogramMetricFamily:
    return HistogramMetricFamily(PREFIX + name, text, labels=labels)


def add_times(
    family: HistogramMetricFamily, labels: Sequence[str], counts: Iterable[int], sum_ns: int
) -> None:
    family.add_metric(labels, list(zip(BOUNDS, accumulate(counts), strict=True)), sum_ns / 1e9)


def one(family: GaugeMetricFamily | CounterMetricFamily, value: float) -> Metric:
    family.add_metric([], value)
    return family


def families(process: Process) -> Iterator[Metric]:
    yield from of_process(process)
    yield from of_descriptors()
    for each in process.connections:
        yield from of_port(each)
    if process.registration is not None:
        yield of_zookeeper(process.registration.status)
    if process.broker is not None:
        yield from of_storage(process.broker)
        yield from of_refused_reads(process.broker)
        yield from of_access(process.broker)
        yield from of_scrub(process.broker)
        yield from of_groups(process.broker)
        yield from of_transactions(process.broker)
    if process.data_plane is not None:
        yield from of_connections(process.data_plane)
        yield from of_requests(process.data_plane)


def of_access(broker: Broker) -> Iterator[Metric]:
    refused = counter("refusals", "Requests that rules refused, at both ports.", ["api"])
    for api, count in sorted(broker.audit.refusals.items()):
        refused.add_metric([api], count)
    yield refused
    text = "Decisions about rights, at both ports; network threads ask once for what they keep."
    yield one(counter("decisions", text), broker.authorizer.decisions)


def of_process(process: Process) -> Iterator[Metric]:
    info = gauge("info", "Always 1; what this broker is.", ["version", "node_id", "cluster_id"])
    cluster_id = process.broker.cluster_id if process.broker else ""
    info.add_metric([__version__, str(process.config.node_id), cluster_id], 1)
    yield info
    up = gauge("uptime_seconds", "Since the process began.")
    yield one(up, time.monotonic() - process.started)
    health = process.health()
    yield one(gauge("healthy", "1: /healthz says ok."), health.status == "ok")
    yield one(gauge("failing", "1: something is not served or not taken."),
              health.status == "failing")  # fmt: skip
    family = gauge("health_findings", "Why it is not ok.", ["level", "area"])
    counts = Counter((each.level, each.area) for each in health.findings)
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    yield family


def of_descriptors() -> Iterator[Metric]:
    found, (limit, _) = _descriptors.counters(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield one(gauge("descriptors_limit", "File descriptors the process may have."), limit)
    yield one(gauge("descriptors", "File descriptors it has."), descriptor_budget.in_use())
    yield one(gauge("descriptors_logs_limit", "Of these, what the logs may have."), found["most"])
    yield one(gauge("descriptors_logs", "Of these, what the logs have."), found["open"])
    closed = counter("descriptors_relieved", "Files of logs closed so that others can be opened.")
    yield one(closed, found["relieved"])
    refused = counter("descriptors_refused", "Times that no descriptor was free for a log.")
    yield one(refused, found["refused"])


def of_port(connections: PortConnections) -> Iterator[Metric]:
    port = connections.port
    yield one(gauge(f"{port}_connections", f"Connections of the {port} port."), connections.open)
    most = gauge(f"{port}_connections_limit", "How many connections it may have.")
    yield one(most, connections.most)
    ended = counter(f"{port}_connections_ended", "Connections it refused or ended.", ["reason"])
    for reason, count in sorted(connections.ended.items()):
        ended.add_metric([reason], count)
    yield ended


def of_zookeeper(status: str) -> Metric:
    family = gauge("zookeeper", "1 for the state of the registration.", ["state"])
    for each in ZOOKEEPER:
        family.add_metric([each], status.startswith(each))
    return family


def of_storage(broker: Broker) -> Iterator[Metric]:
    log_dir = broker.log_dir
    total = gauge("storage_total_bytes", "Size of the file systems that hold the logs.")
    yield one(total, log_dir.total_bytes())
    free = gauge("storage_free_bytes", "Free space at the broker's last look.")
    yield one(free, log_dir.free_bytes)
    low = gauge("storage_low_water_bytes", "Free space below which writes are refused.")
    yield one(low, log_dir.config.low_water_bytes)
    full = gauge("storage_full", "1: writes are refused for want of space.")
    yield one(full, log_dir.is_full)
    proven = gauge("file_system_proven", "0: nothing is proven of the syncs of this file system.")
    yield one(proven, all(each.logs.syncs.is_proven for each in log_dir.directories if each.logs))
    journal = gauge("checkpoints_failing", "1: recovery points cannot be saved.")
    yield one(journal, log_dir.journal_failed)
    yield one(gauge("logs_not_opened", "Partitions that could not be opened."),
              len(broker.topics.not_open()))  # fmt: skip
    open_entries = gauge("ledger_open_entries", "Losses and damages that nobody acknowledged.")
    yield one(open_entries, len(broker.ledger.open()))
    yield from of_directories(broker)
    yield from of_commits(broker)


def of_directories(broker: Broker) -> Iterator[Metric]:
    """Each of `log.dirs`; without it the one that there is."""
    free = gauge("log_directory_free_bytes", "Free space of a directory of records.", ["directory"])
    full = gauge("log_directory_full", "1: writes to it are refused for want of space.",
                 ["directory"])  # fmt: skip
    offline = gauge("log_directory_offline", "1: it is not open, and its partitions are not served",
                    ["directory"])  # fmt: skip
    for each in broker.log_dir.directories:
        offline.add_metric([str(each.path)], not each.is_open)
        if each.logs is not None:
            free.add_metric([str(each.path)], each.logs.free_bytes)
            full.add_metric([str(each.path)], each.logs.is_full)
    yield from (free, full, offline)


def of_commits(broker: Broker) -> Iterator[Metric]:
    counts = broker.log_dir.counters()
    commits = counter("commits", "Group commits.")
    yield one(commits, counts["commits"])
    logs = counter("committed_logs", "Logs that group commits made durable.")
    yield one(logs, counts["logs_committed"])
    syncs = counter("syncs", "Files and directories that were synced.")
    yield one(syncs, counts["syncs"])
    times = histogram("commit_seconds", "What the syncs of one group commit took together.")
    add_times(times, [], *broker.log_dir.commit_times())
    yield times


def of_refused_reads(broker: Broker) -> Iterator[Metric]:
    refused = counter("reads_refused", "Reads of stored records that failed or were refused.")
    yield one(refused, broker.refused_reads.count)


def of_scrub(broker: Broker) -> Iterator[Metric]:
    scrubber = broker.scrubber
    if scrubber.age_ms is not None:
        age = gauge("scrub_age_seconds", "Since every segment had been verified.")
        yield one(age, scrubber.age_ms / 1000)
    yield one(gauge("scrub_late", "1: that is longer ago than it should be."), scrubber.is_late)
    checked = counter("scrub_checked_bytes", "Bytes of segments verified from the disk.")
    yield one(checked, scrubber.checked_bytes)
    found = counter("scrub_damages", "Ranges that the scrub found lost or damaged.")
    yield one(found, scrubber.damages)


def of_groups(broker: Broker) -> Iterator[Metric]:
    kinds: Counter[tuple[str, str]] = Counter()
    members = 0
    for group in broker.groups.table.groups.values():
        kinds[protocol_of(group), group.state.value] += 1
        members += len([*group.members])
    for each in zookeeper_groups.all_in(broker):
        kinds[ZOOKEEPER_GROUP, zookeeper_groups.state_of(each)] += 1
        members += len(each.members)
    family = gauge("groups", "Consumer groups.", ["protocol", "state"])
    for labels, count in sorted(kinds.items()):
        family.add_metric(labels, count)
    yield family
    yield one(gauge("group_members", "Members of all consumer groups."), members)


def of_transactions(broker: Broker) -> Iterator[Metric]:
    states = Counter(each.state for each in broker.transactions.table.transactions.values())
    family = gauge("transactions", "Transactional ids by the state of their last.", ["state"])
    for state in State:
        family.add_metric([state.value], states[state])
    yield family


def of_connections(data_plane: DataPlane) -> Iterator[Metric]:
    counts = data_plane.counters()
    for key, (name, text) in PLANE_COUNTERS.items():
        yield one(counter(name, text), counts[key])
    for key, (name, text) in PLANE_GAUGES.items():
        yield one(gauge(name, text), counts[key])
    closed = counter("connections_closed", "Connections the broker ended, by why.", ["reason"])
    for key, count in counts.items():
        if key.startswith(CLOSED):
            closed.add_metric([key.removeprefix(CLOSED)], count)
    yield closed


def of_requests(data_plane: DataPlane) -> Iterator[Metric]:
    times = histogram(
        "request_seconds",
        "From the whole request to the last byte of its answer given to the kernel. "
        'waited="true": a Fetch that found nothing and waited for data.',
        ["api", "waited"],
    )
    for key, counts, sum_ns, waited in data_plane.request_times():
        add_times(times, [api_name(key), str(waited).lower()], counts, sum_ns)
    yield times
    turns = histogram(
        "network_turn_seconds",
        "One turn of a network thread's loop, from waking up to waiting again.",
        ["thread"],
    )
    for thread, (counts, sum_ns) in enumerate(data_plane.turn_times()):
        add_times(turns, [str(thread)], counts, sum_ns)
    yield turns


def api_name(key: int | None) -> str:
    """As Kafka writes it, without loading the module of its messages."""
    if key is None or key not in MODULES:
        return "unknown"
    return "".join(word.capitalize() for word in MODULES[key].split("_"))
