"""`appliance acl import` takes the rules of an Apache Kafka, and names its users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.access.acls import Acl
from appliance.cli.main import main
from appliance.cli.remote import acl_import
from appliance.client.security_config import SecurityConfig
from appliance.testing import RunningBroker, running_broker
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_security import Security
from tests.support.certificates import Authority

ACLS = "org.apache.kafka.tools.AclCommand"
ALICE = ["--allow-principal", "User:alice"]
RULES = [
    [*ALICE, "--operation", "Read", "--topic", "orders"],
    [*ALICE, "--operation", "Read", "--group", "shop.", "--resource-pattern-type", "prefixed"],
    ["--deny-principal", "User:bob", "--deny-host", "10.0.0.7", "--operation", "Write",
     "--topic", "*"],
    ["--allow-principal", "User:CN=till,O=Shop", "--operation", "IdempotentWrite", "--cluster"],
    [*ALICE, "--operation", "TwoPhaseCommit", "--transactional-id", "t"],
    ["--allow-principal", "User:bob", "--operation", "DescribeTokens", "--user-principal",
     "User:alice"],
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    folder = tmp_path_factory.mktemp("kafka")
    users = {"alice": "alice-secret", "bob": "bob-secret", "mover": "mover-secret"}
    security = Security(("SASL_SSL",), users, ("User:mover",), authority=Authority(folder / "tls"))
    with KafkaBroker(folder / "node", security=security) as broker:
        for rule in RULES:
            broker.tool(ACLS, "--add", *rule)
        yield broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "ours") as running:
        yield running


def imported(kafka: KafkaBroker, broker: RunningBroker, folder: Path, *words: str,
             user: str = "mover") -> Result:
    assert kafka.security is not None
    assert kafka.security.authority is not None
    path = folder / "password"
    path.write_text(kafka.security.users[user])
    login = {"security.protocol": "SASL_SSL", "sasl.username": user,
             "sasl.password.file": str(path),
             "ssl.ca.location": str(kafka.security.authority.trust)}
    pairs = [word for name, text in login.items() for word in ("--set", f"{name}={text}")]
    return CliRunner().invoke(main, ["acl", "import", "--from", kafka.address, "--admin",
                                     broker.admin, *pairs, *words])


def rules_at(broker: RunningBroker) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["acl", "list", "--admin", broker.admin, "--json"])
    found: list[dict[str, Any]] = json.loads(done.stdout)["acls"]
    return found


def test_rules_arrive_once_and_users_are_named(
    kafka: KafkaBroker, broker: RunningBroker, tmp_path: Path
) -> None:
    dry = imported(kafka, broker, tmp_path, "--dry-run", "--json")
    assert dry.exit_code == 0, dry.output
    report = json.loads(dry.stdout)
    assert rules_at(broker) == []
    assert len(report["added"]) == len(RULES)
    assert report["not_taken"] == []
    assert [each["name"] for each in report["users"]] == ["alice", "bob", "mover"]
    assert report["users"][0]["mechanisms"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert report["other_principals"] == ["User:CN=till,O=Shop"]

    done = imported(kafka, broker, tmp_path, "--yes")
    assert done.exit_code == 0, done.output
    assert "need a new password here" in done.stdout
    assert "alice, bob, mover" in done.stdout
    assert "otherwise: User:CN=till,O=Shop" in done.stdout
    assert sorted(map(str, rules_at(broker))) == sorted(map(str, report["added"]))
    assert {"resource_type": "group", "resource_name": "shop.", "pattern_type": "prefixed",
            "principal": "User:alice", "host": "*", "operation": "read",
            "permission": "allow"} in rules_at(broker)

    again = json.loads(imported(kafka, broker, tmp_path, "--yes", "--json").stdout)
    assert (again["added"], again["here_already"]) == ([], len(RULES))


def test_a_user_without_the_right_learns_which_one(
    kafka: KafkaBroker, broker: RunningBroker, tmp_path: Path
) -> None:
    done = imported(kafka, broker, tmp_path, "--yes", user="alice")
    assert done.exit_code == 1
    assert "Kafka does not tell its rules (DescribeAcls): CLUSTER_AUTHORIZATION" in done.output
    assert rules_at(broker) == []


def test_a_password_is_not_taken_from_the_command_line(
    kafka: KafkaBroker, broker: RunningBroker, tmp_path: Path
) -> None:
    done = imported(kafka, broker, tmp_path, "--set", "sasl.password=pencil")
    assert done.exit_code == 1
    assert "can read a command line" in done.output
    assert "pencil" not in done.output


def test_rules_that_this_broker_cannot_have_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a newer Kafka, or of principals that only its own plug-ins know."""
    known = Acl(2, "t", 3, "User:alice", "*", 3, 3)
    rules = [known, replace(known, operation=99), replace(known, principal="alice"),
             replace(known, resource_type=4)]
    monkeypatch.setattr(acl_import, "rules_of", lambda _: rules)
    monkeypatch.setattr(acl_import, "mechanisms_of", lambda _: {})
    found = acl_import.read("127.0.0.1:1", SecurityConfig())
    assert [each["operation"] for each in found.rules] == ["read"]
    assert [each["operation"] for each in found.not_taken] == ["99", "read", "read"]
    reasons = [each["reason"] for each in found.not_taken]
    for reason, fact in zip(reasons, ("operation", "'alice', wanted TYPE:NAME", "cluster 't'"),
                            strict=True):
        assert fact in reason
