"""The page that Prometheus reads, over HTTP from a running broker."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from appliance.admin import metrics_of_topics
from appliance.admin.metrics import Metrics
from appliance.bulk.reader_threads import Reading
from appliance.config import BrokerConfig
from appliance.server import Server
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.rest import Rest

DEADLINE_S = 20.0
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(broker: RunningBroker) -> str:
    with urllib.request.urlopen(f"http://{broker.admin}/metrics", timeout=DEADLINE_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text: str = answer.read().decode()
        return text


def samples(broker: RunningBroker) -> Samples:
    """As Prometheus reads them. A family that comes twice, or a sample, is an error there."""
    found: Samples = {}
    families = [*text_string_to_metric_families(page(broker))]
    names = [each.name for each in families]
    assert len(names) == len(set(names))
    for family in families:
        for sample in family.samples:
            place = (sample.name, frozenset(sample.labels.items()))
            assert place not in found
            found[place] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"appliance_{name}", frozenset(labels.items())]


def produce(broker: RunningBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, b"x" * 100)
    assert producer.flush(DEADLINE_S) == 0


def consume(broker: RunningBroker, topic: str, count: int) -> Consumer:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers",
                         "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + DEADLINE_S
    while count > 0:
        assert time.monotonic() < deadline
        count -= len(consumer.consume(count, 1))
    return consumer


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_traffic_of_real_clients_is_counted(appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, "orders", 200)
    consumer = consume(appliance_broker, "orders", 200)
    found = samples(appliance_broker)
    consumer.close()
    received = value(found, "topic_received_bytes_total", topic="orders")
    assert value(found, "topic_received_records_total", topic="orders") == 200
    assert received == value(found, "topic_size_bytes", topic="orders") > 20_000
    assert value(found, "topic_sent_bytes_total", topic="orders") >= received
    assert value(found, "request_seconds_count", api="Produce", waited="false") >= 1
    assert value(found, "request_seconds_count", api="JoinGroup", waited="false") >= 1
    assert value(found, "groups", protocol="classic", state="Stable") == 1
    assert value(found, "group_members") == 1
    assert value(found, "connections") >= 2
    assert value(found, "network_received_bytes_total") > received
    assert value(found, "commit_seconds_count") >= 1
    assert value(found, "healthy") == 1


def test_a_partition_is_told_as_it_is(appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, "orders", 7)
    found = samples(appliance_broker)
    own = {"topic": "orders", "partition": "0"}
    for name in ("log_end_offset", "durable_offset", "high_watermark", "last_stable_offset"):
        assert value(found, f"partition_{name}", **own) == 7
    assert value(found, "partition_log_start_offset", **own) == 0
    assert value(found, "partition_flush_seconds", **own) > 0
    assert value(found, "unflushed_bytes") == 0


def test_many_partitions_have_rows_by_topic_alone(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"num.partitions": "4", "metrics.partitions.max": "7"}) as broker:
        produce(broker, "one", 1)
        assert value(samples(broker), "partitions_shown") == 1
        produce(broker, "two", 1)
        found = samples(broker)
    assert value(found, "partitions_shown") == 0
    assert value(found, "topic_partitions", topic="two") == 4
    assert not [name for name, _ in found if name.startswith("appliance_partition_")]


def test_a_family_in_slices_has_one_head(
    appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_of_topics, "SLICE", 2)
    for number in range(5):
        produce(appliance_broker, f"topic-{number}", 1)
    assert page(appliance_broker).count("# TYPE appliance_topic_size_bytes gauge\n") == 1
    found = samples(appliance_broker)
    assert [value(found, "topic_received_records_total", topic=f"topic-{number}")
            for number in range(5)] == [1] * 5


def test_failures_are_counted(appliance_broker: RunningBroker) -> None:
    produce(appliance_broker, "small", 1)
    consumer = Consumer({"bootstrap.servers": appliance_broker.bootstrap, "group.id": "lost",
                         "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("small", 0, 99)])
    until(lambda: consumer.poll(0.1) is not None)
    consumer.close()
    assert value(samples(appliance_broker), "topic_failed_fetches_total", topic="small") >= 1


def test_while_logs_are_recovered_there_is_a_page_without_them(tmp_path: Path) -> None:
    async def ask() -> bytes:
        config = BrokerConfig(data_dir=tmp_path)
        return await Metrics(Server(config), Reading(config.export)).page()

    text = asyncio.run(ask()).decode()
    assert "appliance_healthy 0.0" in text
    assert "appliance_storage" not in text


WITH_LOGINS = {
    # nobody looks here for a broker that is gone: see `support/data_plane.py`
    "listeners": "PLAINTEXT://127.0.0.2:0,SASL_SSL://127.0.0.2:0",
    "allow.everyone.if.no.acl.found": "true",  # so that who does not log in may be watched
}


@pytest.fixture(scope="module")
def encrypted_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One of its two listeners has TLS and logins."""
    own = Authority(tmp_path_factory.mktemp("authority")).issue("server")
    settings = {**WITH_LOGINS, "ssl.keystore.location": str(own.both)}
    with running_broker(tmp_path_factory.mktemp("broker"), settings) as broker:
        yield broker


def test_connections_and_logins_are_counted_by_listener(encrypted_broker: RunningBroker) -> None:
    until(lambda: value(samples(encrypted_broker), "connections") == 0)  # of other tests
    before = samples(encrypted_broker)
    clients = [socket.create_connection(place(encrypted_broker, each), DEADLINE_S)
               for each in ("PLAINTEXT", "SASL_SSL", "SASL_SSL")]  # fmt: skip
    clients[1].sendall(b"GET / HTTP/1.1\r\n\r\n")
    until(lambda: value(samples(encrypted_broker), "tls_handshakes_failed_total") == 1)
    until(lambda: value(samples(encrypted_broker), "connections") == 2)  # it ends behind that
    found = samples(encrypted_broker)
    for listener, there, created in (("PLAINTEXT", 1, 1), ("SASL_SSL", 1, 2)):
        own = {"listener": listener}
        assert value(found, "listener_connections", **own) == there
        name = "listener_connection_creation_total"
        assert value(found, name, **own) - value(before, name, **own) == created
        assert value(found, "listener_throttles_total", **own, limit="rate") == 0
        assert value(found, "listener_is_waiting", **own, limit="connections") == 0
    failed = "listener_authentication_failure_total"
    assert value(found, failed, listener="SASL_SSL", mechanism="TLS") == 1
    assert value(found, failed, listener="SASL_SSL", mechanism="SCRAM-SHA-512") == 0
    for each in clients:
        each.close()


def test_a_limit_of_a_listener_is_in_metrics_settings_and_health(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"listeners": "PLAINTEXT://127.0.0.2:0"}) as broker:
        limited(broker)


def limited(broker: RunningBroker) -> None:
    rest, name = Rest(broker.admin), "listener.name.plaintext.max.connections"
    assert not [each for each in rest.get("/settings")["settings"] if each["name"] == name]
    rows = rest.ask("PATCH", "/settings", {"configs": {name: "1"}}).body["settings"]
    (row,) = [each for each in rows if each["name"] == name]
    assert (row["value"], row["source"]) == ("1", "changed at run time")
    clients = [socket.create_connection(place(broker, "PLAINTEXT"), DEADLINE_S)
               for _ in range(2)]  # fmt: skip
    own = {"listener": "PLAINTEXT", "limit": "connections"}
    until(lambda: value(samples(broker), "listener_is_waiting", **own) == 1)
    found = samples(broker)
    assert value(found, "listener_throttles_total", **own) == 1
    assert value(found, "health_findings", level="degraded", area="listeners") == 1
    assert "(max.connections, of the listener or of all)" in str(rest.get("/health"))
    for each in clients:
        each.close()
    until(lambda: value(samples(broker), "listener_is_waiting", **own) == 0)


def place(broker: RunningBroker, listener: str) -> tuple[str, int]:
    host, _, port = broker.addresses[listener].rpartition(":")
    return host, int(port)


OF_REPLICAS = {
    "active_controller_count", "at_min_isr_partition_count", "isr_expands_total",
    "isr_shrinks_total", "leader_count", "leader_elections_total", "offline_partitions_count",
    "offline_replica_count", "partition_count", "replica_fetcher_failed_partitions_count",
    "replica_fetcher_max_lag", "under_min_isr_partition_count", "under_replicated_partitions",
}  # fmt: skip
MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"


@pytest.mark.parametrize("file", ["alerts.yml", "grafana.json"])
def test_what_is_watched_is_there(file: str, encrypted_broker: RunningBroker) -> None:
    """Each metric that rules and dashboard name is on the page, with the labels they use."""
    produce(encrypted_broker, "orders", 3)
    consume(encrypted_broker, "orders", 3).close()
    rest = Rest(encrypted_broker.admin)
    rest.ask("PUT", "/exports/daily", {"topics": ["orders"], "target": "/lake"})
    hold = {"topic": "orders", "offsets": {}}
    rest.ask("PUT", "/holds/daily", hold, prefix="/export/v1")
    families = [*text_string_to_metric_families(page(encrypted_broker))]
    labels: dict[str, set[str]] = {"appliance_zookeeper": {"state"}}  # with a ZooKeeper alone
    of_groups = ("lag_seconds", "lag_records", "lag_unknown_partitions", "lost_records",
                 "no_commit_records")  # fmt: skip
    labels |= {f"appliance_group_{name}": {"group", "topic"} for name in of_groups}  # once measured
    labels |= {  # with arrays, and in a control group with a limit
        "appliance_raid_condition": {"array", "condition"},
        "appliance_raid_member_errors": {"array", "member"},
        "appliance_raid_missing_disks": {"array"},
        "appliance_raid_survives_disks": {"array"},
        "appliance_scrub_age_seconds": set(),  # after a whole round
        "appliance_health_findings": {"level", "area"},  # while it is not well
        "appliance_raid_mismatch_bytes": {"array"},
        "appliance_memory_limit_bytes": set(),
        # with a disk watch
        "appliance_disk_smart_passed": {"disk"},
        "appliance_disk_pending_sectors": {"disk"},
        "appliance_disk_reallocated_sectors": {"disk"},
        "appliance_disk_temperature_celsius": {"disk"},
        "appliance_disk_temperature_max_celsius": {"disk"},
        "appliance_disk_wear_percent": {"disk"},
        "appliance_refusals_total": {"api"},  # after the first
        "appliance_alerts_channel_failing": {"channel"},  # where alerts go somewhere
        # of a cluster: tests/replication/test_replica_metrics.py
        **{f"appliance_{name}": set() for name in OF_REPLICAS},
    }
    for family in families:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    text = (MONITORING / file).read_text()
    for name in set(re.findall(r"\b(?:appliance|process)_[a-z_]+", text)) - {"appliance_info"}:
        assert name in labels, name
    used = set(re.findall(r"(\w+)=~?\\*\"", text)) | set(re.findall(r"by \(([a-z]+)\)", text))
    known = {each for own in labels.values() for each in own} | {"job", "instance", "le"}
    assert used <= known
    if file.endswith("json"):
        panels = json.loads(text)["panels"]
        assert len({each["id"] for each in panels}) == len(panels) > 15
        assert_every_export_metric_is_drawn(text, labels)


def assert_every_export_metric_is_drawn(text: str, known: dict[str, set[str]]) -> None:
    """But for counts of streams and connections, and what an alert is about."""
    of_exports = {each for each in known if each.startswith("appliance_export_")}
    of_exports = {each for each in of_exports if not each.endswith("_created")}
    of_exports = {each for each in of_exports if "_connections" not in each}
    alerts = {"appliance_export_streams_open", "appliance_export_streams_total",
              "appliance_export_hold_released", "appliance_export_overdue"}
    assert of_exports - alerts == set(re.findall(r"\bappliance_export_[a-z_]+", text))
