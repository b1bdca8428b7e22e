"""Our client library with Apache Kafka: two nodes that replicate, and one that is killed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from appliance.client import (
    BrokerPartition,
    CallbackHandler,
    FetchConfig,
    Outcome,
    Producer,
    ProducerConfig,
    SimpleConsumer,
)
from appliance.client.broker_partition import NO_BROKER
from loadtest.ports import lasting_port
from tests.interop.kafka_broker import SETTINGS, KafkaBroker, wait_until
from tests.support.consumed import consumed

TOPIC, PARTITIONS = "replicated", 4
TOPICS = {
    "auto.create.topics.enable": "true",
    "num.partitions": str(PARTITIONS),
    "default.replication.factor": "2",
    "broker.session.timeout.ms": "3000",  # a dead node is detected within
    "broker.heartbeat.interval.ms": "500",
}


class SecondNode(KafkaBroker):
    """A broker whose controller is the first node."""

    def __init__(self, directory: Path, first: KafkaBroker) -> None:
        super().__init__(directory, {**SETTINGS, **TOPICS, "process.roles": "broker"})
        self._first = first

    def write_properties(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.address = f"127.0.0.1:{lasting_port()}"
        text = (self._first.directory / "server.properties").read_text()
        voters = re.search(r"controller\.quorum\.voters=.*", text)
        assert voters
        here = {
            **self._settings,
            "node.id": "2",
            "listeners": f"PLAINTEXT://{self.address}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.log_dir),
        }
        path = self.directory / "server.properties"
        lines = [f"{key}={value}" for key, value in here.items()]
        path.write_text("\n".join([*lines, voters[0]]) + "\n")
        return path


class Told(CallbackHandler):
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def after_send(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    @property
    def values(self) -> list[bytes]:
        assert all(each.is_acknowledged for each in self.outcomes)
        return [value for each in self.outcomes for value in each.records.values]


def test_leaders_move_and_each_record_is_there_once(tmp_path: Path) -> None:
    with (
        KafkaBroker(tmp_path / "1", {**SETTINGS, **TOPICS}) as first,
        SecondNode(tmp_path / "2", first) as second,
    ):
        told = Told()
        config = ProducerConfig(
            broker_list=f"{second.address},{first.address}",
            producer_type="async",
            queue_time=20,
            delivery_timeout_ms=90_000,
            connect_timeout_ms=20_000,  # a JVM that has just started
            retry_backoff_max_ms=300,
        )
        given: list[bytes] = []
        with Producer(config, callback_handler=told) as producer:
            wait_until(lambda: len(producer.cluster.brokers()) == 2 or refreshed(producer), "both")
            for turn in range(40):
                pairs = [(b"k%d" % i, b"%d-%d" % (turn, i)) for i in range(200)]
                given += [value for _, value in pairs]
                producer.send(TOPIC, pairs)
                if turn == 10:
                    producer.flush()
                    leaders = {
                        producer.cluster.leader(TOPIC, each)
                        for each in producer.cluster.partitions(TOPIC)
                    }
                    assert leaders == {1, 2}
                    second.kill()
            producer.flush()
            partitions = producer.cluster.partitions(TOPIC)
            assert {producer.cluster.leader(TOPIC, each) for each in partitions} == {1}
        assert partitions == tuple(BrokerPartition(NO_BROKER, n) for n in range(PARTITIONS))
        assert Counter(told.values) == Counter(given)
        assert Counter(each.value for each in consumed(first.address, TOPIC)) == Counter(given)
        with SimpleConsumer(FetchConfig(broker_list=first.address)) as consumer:
            read = [value for each in partitions for value in values_in(consumer, each)]
        assert Counter(read) == Counter(given)


def refreshed(producer: Producer) -> bool:
    producer.cluster.refresh()
    return False


def values_in(consumer: SimpleConsumer, partition: BrokerPartition) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = 0
    while (messages := consumer.fetch(TOPIC, partition, offset)).next_offset > offset:
        found += [message.value for message in messages]
        offset = messages.next_offset
    return found
