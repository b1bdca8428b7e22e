"""Apache Kafka's own tools for quotas, users, access rules, metrics and reassignments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.kafka_tools import KafkaTools
from tests.support.warm_broker import WarmBroker as Broker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("admin")


@pytest.fixture(scope="module")
def tools(folder: Path) -> Iterator[KafkaTools]:
    with Broker(folder / "data") as broker:
        started = KafkaTools(broker.kafka, folder)
        try:
            yield started
        finally:
            started.close()


def alter(tools: KafkaTools, who: str, *words: str) -> str:
    """`who` as in "clients=a" or "users" for the default of all users."""
    return tools.must("kafka-configs", "--alter", *entity(who), *words)


def described(tools: KafkaTools, who: str, *words: str) -> list[str]:
    return tools.must("kafka-configs", "--describe", *entity(who), *words).splitlines()


def entity(who: str) -> list[str]:
    words: list[str] = []
    for part in who.split():
        kind, is_named, name = part.partition("=")
        words += ["--entity-type", kind]
        words += ["--entity-name", name] if is_named else ["--entity-default"]
    return words


# Limits of listeners


def test_limits_of_a_listener(tools: KafkaTools) -> None:
    own = "listener.name.plaintext.max.connections"
    alter(tools, "brokers=1", "--add-config", f"{own}=500,max.connection.creation.rate=50")
    shown = described(tools, "brokers=1")
    assert f"  {own}=500 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{own}=500" in shown[1]
    assert any(line.startswith("  max.connection.creation.rate=50 ") for line in shown)
    alter(tools, "brokers=1", "--delete-config", f"{own},max.connection.creation.rate")
    assert described(tools, "brokers=1")[1:] == []


# Quotas


def test_quotas_of_clients_and_users(tools: KafkaTools) -> None:
    alter(tools, "clients=loader", "--add-config", "producer_byte_rate=1000000,"
          "consumer_byte_rate=2000000")
    alter(tools, "clients", "--add-config", "request_percentage=12.5")
    alter(tools, "users=ann clients=loader", "--add-config", "producer_byte_rate=5")
    assert described(tools, "clients=loader") == [
        "Quota configs for client-id 'loader' are "
        "consumer_byte_rate=2000000.0, producer_byte_rate=1000000.0"]
    assert described(tools, "clients") == [
        "Quota configs for the default client-id are request_percentage=12.5"]
    assert described(tools, "users=ann clients=loader") == [
        "Quota configs for user-principal 'ann', client-id 'loader' are producer_byte_rate=5.0"]
    alter(tools, "clients=loader", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    alter(tools, "clients", "--delete-config", "request_percentage")
    alter(tools, "users=ann clients=loader", "--delete-config", "producer_byte_rate")
    assert tools.must("kafka-configs", "--describe", "--entity-type", "clients") == ""


def test_quotas_of_addresses(tools: KafkaTools) -> None:
    alter(tools, "ips=10.1.2.3", "--add-config", "connection_creation_rate=5")
    alter(tools, "ips", "--add-config", "connection_creation_rate=1000")
    assert tools.must("kafka-configs", "--describe", "--entity-type", "ips").splitlines() == [
        "Quota configs for ip '10.1.2.3' are connection_creation_rate=5.0",
        "Quota configs for the default ip are connection_creation_rate=1000.0"]
    for who in ("ips", "ips=10.1.2.3"):
        alter(tools, who, "--delete-config", "connection_creation_rate")
    assert described(tools, "ips") == []


def test_a_quota_that_may_not_be_is_refused(tools: KafkaTools) -> None:
    assert "wanted more than 0" in tools.refused(
        "kafka-configs", "--alter", *entity("clients=a"), "--add-config", "producer_byte_rate=0")


# Users


def test_credentials_of_users(tools: KafkaTools) -> None:
    alter(tools, "users=bob", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]")
    alter(tools, "users=bob", "--add-config", "SCRAM-SHA-512=[password=x]")
    assert described(tools, "users=bob") == [
        "SCRAM credential configs for user-principal 'bob' are "
        "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"]
    assert "wanted 4096 to 16384" in tools.refused(
        "kafka-configs", "--alter", *entity("users=bob"), "--add-config",
        "SCRAM-SHA-256=[iterations=16385,password=x]")
    alter(tools, "users=bob", "--delete-config", "SCRAM-SHA-256")
    assert described(tools, "users=bob") == [
        "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=4096"]
    assert "no credential of mechanism 1" in tools.refused(
        "kafka-configs", "--alter", *entity("users=bob"), "--delete-config", "SCRAM-SHA-256")


# Access rules


def rules(tools: KafkaTools, *words: str) -> dict[str, list[str]]:
    """The rules of each resource in the tool's output."""
    said = tools.must("kafka-acls", "--list", *words)
    parts = re.findall(r"^Current ACLs for .*`ResourcePattern(.*)`:\s*\n((?:\t.*\n)*)", said, re.M)
    return {resource: [line.strip() for line in lines.splitlines()] for resource, lines in parts}


ORDERS = "(resourceType=TOPIC, name=orders, patternType=LITERAL)"
ORD = "(resourceType=TOPIC, name=ord, patternType=PREFIXED)"
GROUP = "(resourceType=GROUP, name=g, patternType=LITERAL)"
ANN_READS = "(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)"
BOB_MAY_NOT = "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)"


def test_access_rules_are_made_found_and_removed(tools: KafkaTools) -> None:
    tools.must("kafka-acls", "--add", "--allow-principal", "User:ann", "--operation", "Read",
               "--topic", "orders", "--group", "g")
    tools.must("kafka-acls", "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1",
               "--operation", "All", "--topic", "ord", "--resource-pattern-type", "prefixed")
    assert rules(tools) == {ORDERS: [ANN_READS], ORD: [BOB_MAY_NOT], GROUP: [ANN_READS]}
    assert rules(tools, "--topic", "orders") == {ORDERS: [ANN_READS]}
    assert rules(tools, "--topic", "orders", "--resource-pattern-type", "match") == {
        ORDERS: [ANN_READS], ORD: [BOB_MAY_NOT]}
    assert rules(tools, "--principal", "User:bob") == {ORD: [BOB_MAY_NOT]}
    tools.must("kafka-acls", "--remove", "--topic", "orders", "--resource-pattern-type", "match",
               "--force")
    assert rules(tools) == {GROUP: [ANN_READS]}
    assert "kafka-cluster" in tools.must(
        "kafka-acls", "--add", "--allow-principal", "User:ann", "--operation", "Alter", "--cluster")


# Metrics


def test_subscriptions_to_metrics(tools: KafkaTools) -> None:
    tools.must("kafka-client-metrics", "--alter", "--name", "slow", "--metrics",
               "org.apache.kafka.", "--interval", "2000", "--match", "client_id=a")
    assert tools.must("kafka-client-metrics", "--list") == "slow\n"
    shown = ["Client metrics configs for slow are:", "interval.ms=2000", "match=client_id=a",
             "metrics=org.apache.kafka."]
    for words in ([], ["--name", "slow"]):
        said = tools.must("kafka-client-metrics", "--describe", *words)
        assert [line.strip() for line in said.splitlines()] == shown
    assert "from 100 to 3600000" in tools.refused(
        "kafka-client-metrics", "--alter", "--name", "fast", "--interval", "1")
    tools.must("kafka-client-metrics", "--delete", "--name", "slow")
    assert tools.must("kafka-client-metrics", "--list").strip() == ""


# Reassignments


def plan(folder: Path, *partitions: dict[str, Any]) -> list[str]:
    path = folder / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return ["--reassignment-json-file", str(path)]


def test_a_partition_is_moved_to_where_it_is(tools: KafkaTools, folder: Path) -> None:
    tools.must("kafka-topics", "--create", "--topic", "moved", "--partitions", "2")
    tool = "kafka-reassign-partitions"
    assert tools.must(tool, "--list") == "No partition reassignments found.\n"
    stays = plan(folder, {"topic": "moved", "partition": 0, "replicas": [1]})
    assert "Successfully started partition reassignment for moved-0" in tools.must(
        tool, "--execute", *stays)
    assert "Reassignment of partition moved-0 is completed." in tools.must(tool, "--verify", *stays)
    assert "None of the specified partition reassignments are active." in tools.must(
        tool, "--cancel", *stays)


def test_a_partition_is_moved_nowhere_else(tools: KafkaTools, folder: Path) -> None:
    tools.must("kafka-topics", "--create", "--topic", "stays")
    tool = "kafka-reassign-partitions"
    row = {"topic": "stays", "partition": 0}
    assert "Unknown broker id 2" in tools.refused(
        tool, "--execute", *plan(folder, {**row, "replicas": [1, 2]}))
    assert "log directory is not found" in tools.refused(
        tool, "--execute", *plan(folder, {**row, "replicas": [1], "log_dirs": ["/elsewhere"]}))
    own = str(folder / "data")
    assert "Successfully started" in tools.must(
        tool, "--execute", *plan(folder, {**row, "replicas": [1], "log_dirs": [own]}))


@pytest.mark.release("a Java of its own; tests/topics/test_log_dirs_served.py has the requests")
def test_a_partition_is_moved_to_another_disk(tmp_path: Path) -> None:
    paths = [str(tmp_path / each) for each in ("a", "b")]
    tool = "kafka-reassign-partitions"
    with Broker(tmp_path / "data", "--set", f"log.dirs={','.join(paths)}") as broker:
        tools = KafkaTools(broker.kafka, tmp_path)
        try:
            tools.must("kafka-topics", "--create", "--topic", "moved", "--partitions", "2")
            for path in paths:
                row = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [path]}
                wanted = plan(tmp_path, row)
                assert "Successfully started log directory move" in tools.must(
                    tool, "--execute", *wanted) or path in place_of(tools)
                said = tools.must(tool, "--verify", *wanted)
                while "is still in progress" in said:
                    said = tools.must(tool, "--verify", *wanted)
                assert "Reassignment of replica moved-0-1 completed successfully" in said
                assert place_of(tools) == [path]
        finally:
            tools.close()


def place_of(tools: KafkaTools) -> list[str]:
    """Directories with the partition moved-0."""
    said = tools.must("kafka-log-dirs", "--describe", "--topic-list", "moved")
    (told,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [
        each["logDir"]
        for each in told["brokers"][0]["logDirs"]
        if any(one["partition"] == "moved-0" for one in each["partitions"])
    ]


# Delegation tokens


def test_there_are_no_delegation_tokens(tools: KafkaTools, folder: Path) -> None:
    properties = folder / "empty.properties"
    properties.write_text("")
    config = ("--command-config", str(properties))
    for words in (("--describe",), ("--create", "--max-life-time-period", "-1")):
        assert "Delegation Token requests are not allowed on PLAINTEXT" in tools.refused(
            "kafka-delegation-tokens", *words, *config)
