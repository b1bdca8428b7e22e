"""The plan of a run at a broker: where each partition begins, and where it ends. Without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
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

    def __init__(self, port: AdminPort, topic: str) -> None:
        self.port, self.topic = port, topic
        self.manifest = export_manifest.empty()

    def plan(self, now_ms: int = 0, **wanted: Any) -> Plan:
        return export_plan.make(self.port, Wanted((self.topic,), **wanted), self.manifest, now_ms)

    def run(self, **wanted: Any) -> list[tuple[int, int]]:
        """The ranges of its partitions."""
        plan = self.plan(**wanted)
        self.manifest = export_manifest.committed(self.manifest, plan, [], [], 0)
        return [(part["from"], part["to"]) for part in plan["topics"][0]["partitions"]]


def planned(sending: Sending, topic: str) -> Planned:
    return Planned(AdminPort(sending.broker.admin), topic)


# Hours that are complete

HOUR_MS = 3_600_000
FOLDER = "topic={}/date=2025-11-21/hour=08"
END_MS = 1_763_715_600_000  # of that hour, and GRACE_MS later it is complete
GRACE_MS = 1000


def complete(made: Planned, plan: Plan) -> list[str]:
    """Of a target that has that hour."""
    manifest = export_manifest.committed(made.manifest, plan, [], [], 0)
    folder = FOLDER.format(made.topic)
    manifest["files"] = [{"topic": made.topic, "folder": folder, "is_dead_letter": False}]
    return export_manifest.finished_hours(manifest, plan, GRACE_MS)


@pytest.mark.parametrize(("began_ms", "is_complete"), [
    (END_MS - 1, False), (END_MS + GRACE_MS - 1, False), (END_MS + GRACE_MS, True)])
def test_an_hour_is_not_complete_while_a_transaction_of_that_time_is_open(
    sending: Sending, began_ms: int, is_complete: bool
) -> None:
    made = planned(sending, f"held-{began_ms}")
    sending.create(made.topic)
    sending.send(made.topic, [b"v"] * 10)
    folder, now_ms = FOLDER.format(made.topic), END_MS + HOUR_MS
    assert complete(made, made.plan(now_ms)) == [folder]
    producer = transaction_of(sending, made.topic, began_ms)
    assert complete(made, made.plan(now_ms)) == [folder] * is_complete
    assert complete(made, made.plan(now_ms, isolation="read_uncommitted")) == [folder]
    producer.commit_transaction(DEADLINE_S)
    assert complete(made, made.plan(now_ms)) == [folder]


def transaction_of(sending: Sending, topic: str, time_ms: int) -> ck.Producer:
    """An open one, with a record."""
    producer = ck.Producer({"bootstrap.servers": sending.broker.kafka, "transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", timestamp=time_ms)
    assert producer.flush(DEADLINE_S) == 0
    return producer


def test_what_comes_while_a_run_is_planned_leaves_no_hour_open(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planned(sending, "busy")
    sending.create(made.topic)
    sending.send(made.topic, [b"v"] * 10)
    plan = AdminPort.plan

    def busy(*given: Any) -> Any:
        found = plan(*given)
        sending.send(made.topic, [b"v"] * 10)
        return found

    monkeypatch.setattr(AdminPort, "plan", busy)
    assert complete(made, made.plan(END_MS + HOUR_MS)) == [FOLDER.format(made.topic)]


# Where partitions begin

def add_partition(sending: Sending, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": sending.broker.kafka})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(DEADLINE_S)


@pytest.mark.parametrize("first", ["latest", "10", "@2100-01-01"])
def test_a_partition_that_was_added_is_exported_from_its_first_record_on(
    sending: Sending, first: str
) -> None:
    made = planned(sending, f"added-{first.strip('@')}")
    sending.create(made.topic)
    sending.send(made.topic, [b"v"] * 10)
    made.run(first=first)
    add_partition(sending, made.topic, 2)
    sending.send(made.topic, [b"v"] * 20, partition=1)
    assert made.run(first=first) == [(10, 10), (0, 20)]


def test_a_map_names_where_an_added_partition_begins(sending: Sending) -> None:
    made = planned(sending, "mapped")
    sending.create(made.topic)
    sending.send(made.topic, [b"v"] * 10)
    made.run(first={0: 5})
    add_partition(sending, made.topic, 3)
    sending.send(made.topic, [b"v"] * 20, partition=1)
    assert made.run(first={0: 5, 1: 7}) == [(10, 10), (7, 20)]
