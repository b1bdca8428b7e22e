"""The plan of a run at a broker: where each partition begins, and where it ends. Without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from appliance_spark import export_manifest, export_plan
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_plan import Plan, Wanted
from tests.support.spark_data import DEADLINE_S, Sending
from tests.support.warm_broker import WarmBroker as Broker


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sending]:
    with Broker(tmp_path_factory.mktemp("plans") / "data") as made:
        yield Sending(made)


class Planned:
    """The plans of one topic, each committed, without files."""

    def __init__(self, sending: Sending, topic: str) -> None:
        self.sending, self.topic = sending, topic
        self.port = AdminPort(sending.broker.admin)
        self.manifest = export_manifest.empty()

    def plan(self, now_ms: int = 0, **wanted: Any) -> Plan:
        return export_plan.make(self.port, Wanted((self.topic,), **wanted), self.manifest, now_ms)

    def run(self, **wanted: Any) -> list[tuple[int, int]]:
        """The ranges of its partitions."""
        plan = self.plan(**wanted)
        self.manifest = export_manifest.committed(self.manifest, plan, [], [], 0)
        return [(part["from"], part["to"]) for part in plan["topics"][0]["partitions"]]


def add_partition(sending: Sending, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": sending.broker.kafka})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(DEADLINE_S)


@pytest.mark.parametrize("first", ["latest", "10", "@2100-01-01"])
def test_a_partition_that_was_added_is_exported_from_its_first_record_on(
    sending: Sending, first: str
) -> None:
    made = Planned(sending, f"added-{first.strip('@')}")
    sending.create(made.topic)
    sending.send(made.topic, [b"v"] * 10)
    made.run(first=first)
    add_partition(sending, made.topic, 2)
    sending.send(made.topic, [b"v"] * 20, partition=1)
    assert made.run(first=first) == [(10, 10), (0, 20)]


def test_a_map_names_where_an_added_partition_begins(sending: Sending) -> None:
    made = Planned(sending, "mapped")
    sending.create(made.topic)
    sending.send(made.topic, [b"v"] * 10)
    made.run(first={0: 5})
    add_partition(sending, made.topic, 3)
    sending.send(made.topic, [b"v"] * 20, partition=1)
    assert made.run(first={0: 5, 1: 7}) == [(10, 10), (7, 20)]
