"""Groups of the newer protocol with unmodified consumers against `appliance serve`: librdkafka's
here, Java's in test_java_client.py. Apache Kafka's own DumpLogSegments reads the files."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from loadtest.ports import lasting_port
from tests.interop import kafka_jars
from tests.interop.test_groups import (
    COUNT,
    DEADLINE_S,
    PARTITIONS,
    Member,
    committed,
    filled,
    produce,
    shared,
    until,
)
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

SESSION_MS, HEARTBEAT_MS = 6000, 300
PACE = [
    part
    for name, ms in (("session.timeout", SESSION_MS), ("heartbeat.interval", HEARTBEAT_MS),
                     ("min.heartbeat.interval", HEARTBEAT_MS))
    for part in ("--set", f"group.consumer.{name}.ms={ms}")
]  # fmt: skip
ROW = re.compile(r"key: (\{.*?\}) payload: (\{.*\}|<null>)$", re.MULTILINE)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("consumer-groups"), *PACE) as broker:
        yield broker.kafka


def member(bootstrap: str, group: str, topic: str, **configs: Any) -> Member:
    return Member(bootstrap, group, topic, group_protocol="consumer", **configs)


@pytest.mark.parametrize(
    "assignor", gate_has(["uniform"], "groups/test_assignors.py has both", ["uniform", "range"])
)
def test_members_share_and_take_over(bootstrap: str, assignor: str) -> None:
    topic = filled(bootstrap, f"shared-{assignor}")
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def has_committed(count: int) -> bool:
        wanted = dict.fromkeys(range(PARTITIONS), count // PARTITIONS)
        return committed(bootstrap, topic, topic) == wanted

    def described() -> Any:
        return admin.describe_consumer_groups([topic])[topic].result(DEADLINE_S)

    one = member(bootstrap, topic, topic, group_remote_assignor=assignor)
    until(lambda: shared(one), "one has all")
    until(lambda: has_committed(COUNT), "no commit meets the new member")
    two = member(bootstrap, topic, topic, group_remote_assignor=assignor)
    until(lambda: shared(one, two), "each has its part")
    produce(bootstrap, topic, range(COUNT, 2 * COUNT))
    until(lambda: {*one.values, *two.values} == set(range(2 * COUNT)), "everything is read")
    until(lambda: has_committed(2 * COUNT), "no commit meets the end of a member")
    # members tell of their partitions by their next heartbeat
    until(lambda: described().state.name == "STABLE", "the broker knows who has what")
    found = described()
    assert (found.type.name, found.state.name) == ("CONSUMER", "STABLE")
    assert found.partition_assignor == assignor
    told = [len(each.assignment.topic_partitions) for each in found.members]
    assert told == [PARTITIONS // 2] * 2
    two.close()
    until(lambda: shared(one), "one has all again")
    one.close()
    assert not one.faults + two.faults
    assert has_committed(2 * COUNT)


@pytest.mark.parametrize(
    "strategy",
    gate_has(["cooperative-sticky"], "the way from another strategy",
             ["roundrobin", "cooperative-sticky"]),
)
def test_consumers_go_over_to_the_newer_protocol_and_back(bootstrap: str, strategy: str) -> None:
    topic = filled(bootstrap, f"over-{strategy}")
    configs = {"partition_assignment_strategy": strategy}
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def kind() -> str:
        found = admin.describe_consumer_groups([topic])[topic].result(DEADLINE_S)
        return str(found.type.name)

    old = Member(bootstrap, topic, topic, **configs)
    until(lambda: shared(old), "the old one has all")
    new = member(bootstrap, topic, topic)
    until(lambda: shared(old, new), "it went over")
    assert kind() == "CONSUMER"
    old.close()
    until(lambda: shared(new), "all are over")
    back = Member(bootstrap, topic, topic, **configs)
    until(lambda: shared(new, back), "one goes back")
    assert kind() == "CONSUMER"
    new.close()
    until(lambda: shared(back), "all are back")
    assert kind() == "CLASSIC"
    produce(bootstrap, topic, range(COUNT, 2 * COUNT))
    until(lambda: set(back.values) >= set(range(COUNT, 2 * COUNT)), "everything is read")
    assert {*old.values, *new.values, *back.values} == set(range(2 * COUNT))
    back.close()


def test_a_subscription_by_pattern(bootstrap: str) -> None:
    one = member(bootstrap, "pattern", "^found-[0-9]+")
    first = filled(bootstrap, "found-1")
    filled(bootstrap, "not-found-1")
    until(lambda: len(one.assigned) == PARTITIONS, "the topic came after the member")
    until(lambda: set(one.values) == set(range(COUNT)), "everything is read")
    one.close()
    assert first == "found-1"
    assert len(one.values) == COUNT, "and nothing of the other topic"


def test_a_member_that_dies_is_replaced(bootstrap: str) -> None:
    topic = filled(bootstrap, "dies-848")
    script = f"""
        import confluent_kafka
        client = confluent_kafka.Consumer({{"bootstrap.servers": {bootstrap!r},
            "group.id": {topic!r}, "group.protocol": "consumer"}})
        client.subscribe([{topic!r}], on_assign=lambda _, parts: print(len(parts), flush=True))
        while True:
            client.poll(0.1)
    """
    one = member(bootstrap, topic, topic)
    until(lambda: shared(one), "one has all")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE
    ) as other:
        until(lambda: len(one.assigned) == PARTITIONS // 2, "half each")
        other.kill()
        killed = time.monotonic()
        until(lambda: shared(one), "one has all again")
    assert time.monotonic() - killed > SESSION_MS / 1000 / 2  # its last heartbeat was before
    one.close()


def test_a_static_member_restarts_without_a_rebalance(bootstrap: str) -> None:
    topic = filled(bootstrap, "static-848")
    one = member(bootstrap, topic, topic, group_instance_id="one")
    two = member(bootstrap, topic, topic, group_instance_id="two")
    until(lambda: shared(one, two), "each has its part")
    before, had = one.assignments, set(two.assigned)
    two.close()
    two = member(bootstrap, topic, topic, group_instance_id="two")
    until(lambda: two.assigned == had, "it has what it had")
    produce(bootstrap, topic, range(COUNT, 2 * COUNT))
    mine = {i for i in range(COUNT, 2 * COUNT) if i % PARTITIONS in had}
    until(lambda: set(two.values) >= mine, "it reads on")
    assert (one.assignments, shared(one, two)) == (before, True)
    one.close()
    two.close()


def test_configs_of_one_group(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = "consumer.session.timeout.ms"
    entry = ConfigEntry(name, "7000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.GROUP, "tuned", incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(DEADLINE_S)
    asked = ConfigResource(ResourceType.GROUP, "tuned")
    found = admin.describe_configs([asked])[asked].result(DEADLINE_S)
    assert (found[name].value, found[name].source) == ("7000", 8)


KILLS = 3


def test_consumers_carry_on_when_the_broker_is_killed(tmp_path: Path) -> None:
    """Their epochs are on disk: no member joins again, and no committed offset is lost. The last
    kill is in the middle of a rebalance."""
    address = f"127.0.0.1:{lasting_port()}"  # the same after the kill, as consumers know it
    options = [*PACE, "--listen", address]
    slack = {"reconnect_backoff_max_ms": 200}
    members: list[Member] = []
    assignments: list[list[int]] = []
    for i in range(KILLS):
        with Broker(tmp_path, *options) as broker:
            if not members:
                filled(address, "t", 0)
                members += [member(address, "g", "t", **slack) for _ in range(2)]
            read_on(address, members, i + 1)
            assignments.append([each.assignments for each in members])
            if i == KILLS - 1:
                late = member(address, "g", "t", **slack)
                members.append(late)
                until(lambda: bool(late.assigned), "partitions are on their way")  # noqa: B023
            broker.end(signal.SIGKILL)
    assert assignments == assignments[:1] * KILLS, "nobody joined again"
    with Broker(tmp_path, *options):
        read_on(address, members, KILLS + 1)
        for each in members:
            each.close()
    # every record once: committed records are not read again
    values = sorted(value for each in members for value in each.values)
    assert values == list(range((KILLS + 1) * COUNT))


def read_on(address: str, members: list[Member], times: int) -> None:
    """Shows that the members share the partitions, and read and commit new records."""
    produce(address, "t", range((times - 1) * COUNT, times * COUNT))
    until(lambda: shared(*members), "each has its part")
    every = set(range(times * COUNT))
    until(lambda: {v for each in members for v in each.values} == every, "everything is read")
    end = dict.fromkeys(range(PARTITIONS), times * COUNT // PARTITIONS)
    until(lambda: committed(address, "t") == end, "everything is committed")


def dumped(data: Path) -> list[tuple[Any, Any]]:
    """Keys and values of all records in `__consumer_offsets`, as Kafka reads them."""
    files = sorted(str(each) for each in data.glob("__consumer_offsets-*/*.log"))
    command = kafka_jars.command(
        "org.apache.kafka.tools.DumpLogSegments",
        ["--offsets-decoder", "--print-data-log", "--files", ",".join(files)],
    )
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return [
        (json.loads(key), None if value == "<null>" else json.loads(value))
        for key, value in ROW.findall(said)
    ]


def test_kafkas_own_tool_reads_our_records(tmp_path: Path) -> None:
    with Broker(tmp_path, *PACE) as broker:
        topic = filled(broker.kafka, "t", 60)
        one = member(broker.kafka, "g", f"^{topic}", group_instance_id="i")
        until(lambda: shared(one), "one has all")
        broker.end(signal.SIGKILL)
    one._must_end.set()
    found = {int(key["type"]): (key["data"], value) for key, value in dumped(tmp_path)}
    assert found.keys() - {0, 1} == {3, 5, 6, 7, 8, 16}
    assert {found[kind][0]["groupId"] for kind in (3, 5, 6, 7, 8, 16)} == {"g"}
    values = {kind: value["data"] for kind, (_, value) in found.items()}
    assert (values[3]["epoch"], values[6]["assignmentEpoch"]) == (1, 1)
    # librdkafka puts all its patterns into one, each in brackets
    assert (values[5]["instanceId"], values[5]["subscribedTopicRegex"]) == ("i", "(^t)")
    (target,) = values[7]["topicPartitions"]
    (assigned,) = values[8]["assignedPartitions"]
    assert sorted(target["partitions"]) == sorted(assigned["partitions"]) == [*range(PARTITIONS)]
    assert (values[8]["memberEpoch"], values[8]["state"]) == (1, 0)
    assert (found[16][0]["regularExpression"], values[16]["topics"]) == ("(^t)", ["t"])
