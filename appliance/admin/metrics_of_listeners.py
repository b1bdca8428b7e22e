"""Metrics of Kafka's listeners: connections, those that had to wait, logins, certificates.

Their meanings are those of Kafka's metrics of listeners (`connection-count`, `connection-creation`,
`successful-authentication`, `failed-authentication`, and of re-authentication), as totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from appliance.access.certificate_logins import CERTIFICATE
from appliance.access.login_counts import Place
from appliance.admin.broker_process import Process
from appliance.admin.metrics_of_broker import counter, gauge
from appliance.broker.broker import Broker
from appliance.network._handed_out import ListenerCounts
from appliance.network.listener_tls import ListenerTls

Counts = list[tuple[str, ListenerCounts]]  # by the names of listeners

HANDSHAKE = "TLS"  # in the place of a mechanism: there was no connection to log in on


def families(process: Process) -> Iterator[Metric]:
    if process.kafka_tls:
        yield of_certificates(process.kafka_tls.values())
    if process.data_plane is not None and process.broker is not None:
        names = [each.name for each in process.config.listeners]
        found = [*zip(names, process.data_plane.listener_counters(), strict=False)]
        yield from of_connections(found)
        yield from of_logins(process, process.broker, found)


def of_certificates(listeners: Iterable[ListenerTls]) -> Metric:
    text = "Time of Unix at which the first of the certificates in a listener's files ends."
    family = gauge("certificate_end_seconds", text, ["listener", "file"])
    for each in listeners:
        for file, found in (("keystore", each.certificates), ("truststore", each.trusted)):
            if found:
                family.add_metric([each.name, file], min(one.not_after_s for one in found))
    return family


def of_connections(counts: Counts) -> Iterator[Metric]:
    """Listeners may share a name: they are counted together."""
    there, created = Counter[str](), Counter[str]()
    throttled, waiting = Counter[Place](), Counter[Place]()
    for name, found in counts:
        there[name] += found.connections
        created[name] += found.accepted
        for limit, count in found.throttled.items():
            throttled[name, limit] += count
            waiting[name, limit] |= found.waits_for == limit
    open_now = gauge("listener_connections", "Connections of a listener.", ["listener"])
    taken = counter("listener_connection_creation", "Connections that it took.", ["listener"])
    for name in there:
        open_now.add_metric([name], there[name])
        taken.add_metric([name], created[name])
    yield from (open_now, taken)
    text = (
        "Times that its next connection had to wait for a limit: max.connections, "
        "max.connection.creation.rate, or a quota of its address."
    )
    yield of_places("listener_throttles", text, "limit", throttled)
    text = "1: its next connection waits for this limit."
    family = gauge("listener_is_waiting", text, ["listener", "limit"])
    for (name, limit), is_so in waiting.items():
        family.add_metric([name, limit], is_so)
    yield family


def of_logins(process: Process, broker: Broker, found: Counts) -> Iterator[Metric]:
    counts, certificates = broker.logins.counts, broker.certificate_logins
    succeeded, failed = Counter(counts.succeeded), Counter(counts.failed)
    for number, (name, of_listener) in enumerate(found):
        if number in certificates.succeeded:
            succeeded[name, CERTIFICATE] += certificates.succeeded[number]
            failed[name, CERTIFICATE] += certificates.failed[number]
        if name in process.kafka_tls:
            failed[name, HANDSHAKE] += of_listener.handshakes_failed
    for what, text, of_places_found in (
        ("authentication_success", "Logins.", succeeded),
        ("authentication_failure", "Logins that failed, and handshakes of TLS.", failed),
        ("reauthentication_success", "Logins that were renewed.", counts.renewed),
        ("reauthentication_failure", "Renewals that failed.", counts.not_renewed),
    ):
        yield of_places(f"listener_{what}", text, "mechanism", of_places_found)


def of_places(name: str, text: str, label: str, counts: Counter[Place]) -> Metric:
    family = counter(name, text, ["listener", label])
    for place, count in sorted(counts.items()):
        family.add_metric([*place], count)
    return family
