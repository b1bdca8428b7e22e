"""Quotas with unmodified clients: the rate that they get, and the throttle times that they receive.

A client may use a window (1 s) of its rate at once, so the rate is measured after the first
window.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.catalog.catalog import NAME, Catalog
from appliance.testing import running_broker
from tests.interop.kafka_tools import KafkaTools
from tests.interop.test_logins import of_java
from tests.support.warm_broker import WarmBroker as Broker

pytestmark = pytest.mark.alone

RATE = 1_000_000
TOLERANCE = 0.2
SECONDS = 6.0
SIZE = 10_000
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    folder: Path = tmp_path_factory.mktemp("quotas")
    with Broker(folder / "data") as broker:
        started = KafkaTools(broker.kafka, folder)
        try:
            yield started
        finally:
            started.close()


def limit(tools: KafkaTools, client_id: str, quota: str) -> None:
    tools.must("kafka-configs", "--alter", "--entity-type", "clients", "--entity-name", client_id,
               "--add-config", f"{quota}={RATE}")


class Throttled:
    """The throttle times in seconds that librdkafka reports from responses."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, event: Any) -> None:
        self.seconds.append(event.throttle_time)


def test_a_producer_is_held_to_its_rate(tools: KafkaTools) -> None:
    limit(tools, "slow-producer", "producer_byte_rate")
    throttled = Throttled()
    producer = confluent_kafka.Producer({
        "bootstrap.servers": tools.address, "client.id": "slow-producer", "linger.ms": 20,
        "batch.num.messages": 10, "throttle_cb": throttled})
    done: list[float] = []
    for _ in range(int((SECONDS + 1) * RATE / SIZE)):
        producer.produce("quota-in", bytes(SIZE), partition=0,
                         on_delivery=lambda error, _: done.append(time.monotonic()))
    assert producer.flush(DEADLINE_S) == 0
    free = int(RATE / SIZE)
    rate = (len(done) - free) * SIZE / (done[-1] - done[free])
    assert rate == pytest.approx(RATE, rel=TOLERANCE)
    assert len(throttled.seconds) > 1
    assert max(throttled.seconds) < 1.5


def test_a_consumer_is_held_to_its_rate(tools: KafkaTools) -> None:
    filler = confluent_kafka.Producer({"bootstrap.servers": tools.address})
    count = int((SECONDS + 1) * RATE / SIZE)
    for _ in range(count):
        filler.produce("quota-out", bytes(SIZE), partition=0)
    assert filler.flush(DEADLINE_S) == 0
    limit(tools, "slow-consumer", "consumer_byte_rate")
    throttled = Throttled()
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": tools.address, "client.id": "slow-consumer", "group.id": "none",
        "enable.auto.commit": False, "throttle_cb": throttled, "fetch.message.max.bytes": 200_000,
        "queued.max.messages.kbytes": 1000})
    consumer.assign([confluent_kafka.TopicPartition("quota-out", 0, 0)])
    done: list[float] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(done) < count and time.monotonic() < deadline:
        done += [time.monotonic() for each in consumer.consume(1000, 0.1) if not each.error()]
    consumer.close()
    free = int(RATE / SIZE)
    rate = (len(done) - free) * SIZE / (done[-1] - done[free])
    assert rate == pytest.approx(RATE, rel=TOLERANCE)
    assert len(throttled.seconds) > 1
    assert max(throttled.seconds) < 1.5


def test_who_has_no_quota_is_not_held(tools: KafkaTools) -> None:
    limit(tools, "somebody-else", "producer_byte_rate")
    throttled = Throttled()
    producer = confluent_kafka.Producer({
        "bootstrap.servers": tools.address, "client.id": "fast", "throttle_cb": throttled})
    begin = time.monotonic()
    for _ in range(int(4 * RATE / SIZE)):
        producer.produce("quota-free", bytes(SIZE))
    assert producer.flush(DEADLINE_S) == 0
    assert time.monotonic() - begin < 2
    assert throttled.seconds == []


@pytest.mark.release("a second client that is held to the same rate")
def test_the_java_producer_is_held_to_its_rate(tools: KafkaTools) -> None:
    limit(tools, "slow-java", "producer_byte_rate")
    said = tools.must(
        "kafka-producer-perf-test", "--topic", "quota-java", "--num-records", "600",
        "--record-size", str(SIZE), "--throughput", "-1", "--print-metrics",
        "--command-property", "client.id=slow-java")
    found = re.search(r"^600 records sent, ([\d.]+) records/sec", said, re.MULTILINE)
    assert found, said
    seconds = 600 / float(found[1])
    assert (600 * SIZE - RATE) / seconds == pytest.approx(RATE, rel=TOLERANCE)
    metrics = dict(re.findall(r"producer-metrics:(produce-throttle-time-\w+):.*?: ([\d.]+)", said))
    assert 0 < float(metrics["produce-throttle-time-max"]) < 1500


PASSWORD = "correct horse battery"
WITH_LOGINS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "super.users": "User:alice;User:bob",
}


def test_clients_of_a_user_share_its_quota_and_others_have_theirs(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    catalog = Catalog.open(data_dir / NAME)
    for name in ("alice", "bob"):
        make_user(UserRows(catalog), name, "none", PASSWORD)
    catalog.close()
    with running_broker(data_dir, WITH_LOGINS) as broker:
        tools = KafkaTools(broker.bootstrap, tmp_path)
        try:
            tools.must("kafka-configs", "--alter", "--entity-type", "users", "--entity-name",
                       "alice", "--add-config", f"producer_byte_rate={RATE}",
                       *of_java(tmp_path, "bob", "SCRAM-SHA-512", PASSWORD))  # fmt: skip
        finally:
            tools.close()
        throttled = {name: Throttled() for name in ("alice", "bob")}
        producers = [
            (confluent_kafka.Producer({
                "bootstrap.servers": broker.bootstrap, "client.id": client_id,
                "throttle_cb": throttled[user],
                "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": user, "sasl.password": PASSWORD, "linger.ms": 20}), user)
            for user, client_id in (("alice", "one"), ("alice", "two"), ("bob", "one"))
        ]  # fmt: skip
        begin = time.monotonic()
        for _ in range(int(2 * RATE / SIZE)):
            for producer, user in producers:
                producer.produce(f"quota-{user}", bytes(SIZE))
        seconds = []
        for producer, _ in reversed(producers):
            assert producer.flush(DEADLINE_S) == 0
            seconds.append(time.monotonic() - begin)
        # Four windows' worth of alice's, of which one is free; bob waits for nothing
        assert seconds[0] < 2
        assert seconds[-1] == pytest.approx(3, rel=TOLERANCE)
        assert throttled["alice"].seconds
        assert not throttled["bob"].seconds
