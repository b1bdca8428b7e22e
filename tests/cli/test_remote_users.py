"""Commands about users, tokens, sessions and access rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from appliance.testing import RunningBroker, running_broker
from tests.support.rest import Rest
from tests.support.shell import Shell

# Access rules


def test_rules_are_added_listed_and_removed(shell: Shell) -> None:
    added = shell.run("acl add --principal User:anna --operation read --topic orders")
    assert (added.exit_code, added.stdout) == (0, "added; rules now: 1\n")
    assert "stored and not enforced" in added.stderr
    assert shell.run("acl list --json").stderr == ""
    shell.out("acl add --principal User:* --operation all --cluster --deny --host 10.0.0.1")
    shell.out("acl add --principal User:anna --operation write --topic or --prefixed")
    lines = [line.split() for line in shell.out("acl list").splitlines()]
    assert lines == [
        ["principal", "may", "operation", "resource", "name", "pattern", "host"],
        ["User:anna", "allow", "write", "topic", "or", "prefixed", "*"],
        ["User:anna", "allow", "read", "topic", "orders", "literal", "*"],
        ["User:*", "deny", "all", "cluster", "kafka-cluster", "literal", "10.0.0.1"],
    ]
    told = shell.json("acl list")
    assert (told["is_enforced"], len(told["acls"])) == (False, 3)
    dry = shell.out("acl remove --principal User:anna --dry-run")
    assert dry.endswith("would remove 2\n")
    kept = shell.run("acl remove --principal User:anna", text="n\n")
    assert (kept.exit_code, len(shell.json("acl list")["acls"])) == (1, 3)
    removed = shell.json("acl remove --principal User:anna --topic orders --yes")
    assert [each["operation"] for each in removed["acls"]] == ["read"]
    assert len(shell.json("acl list")["acls"]) == 2


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("acl add --principal User:a --operation read", 2, "missing --topic"),
        ("acl add --operation read --topic t", 2, "missing --principal"),
        ("acl add --principal User:a --topic t", 2, "missing --operation"),
        ("acl add --principal User:a --operation read --topic t --group g", 2, "wanted one of"),
        ("acl add --principal User:a --operation reed --topic t", 1, "wanted one of all, read"),
        ("acl add --principal anna --operation read --topic t", 1, "wanted TYPE:NAME"),
        ("acl remove --yes", 2, "which would match all rules"),
        ("acl remove --topic none --yes", 3, "appliance acl list"),
    ],
)
def test_a_rule_that_is_none(shell: Shell, line: str, code: int, words: str) -> None:
    result = shell.run(line)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr


def test_rules_are_those_that_kafka_clients_see(
    shell: Shell, appliance_broker: RunningBroker
) -> None:
    shell.out("acl add --principal User:anna --operation describe_configs --topic or --prefixed")
    admin = AdminClient({"bootstrap.servers": appliance_broker.bootstrap})
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
                             AclOperation.ANY, AclPermissionType.ANY)
    (found,) = admin.describe_acls(every).result(20)
    assert (found.restype, found.name, found.resource_pattern_type, found.principal, found.host,
            found.operation, found.permission_type) == (
        ResourceType.TOPIC, "or", ResourcePatternType.PREFIXED, "User:anna", "*",
        AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW)


# Users

PASSWORD = "correct horse battery"


@pytest.fixture
def admin_shell(appliance_broker: RunningBroker) -> Shell:
    """With a token, in a broker whose first user is ada."""
    rest = Rest(appliance_broker.admin)
    setup = {"token": appliance_broker.setup_secret, "name": "ada", "password": PASSWORD}
    cookie = rest.ask("POST", "/setup", setup).headers["Set-Cookie"].partition(";")[0]
    ada = Rest(appliance_broker.admin, {"Cookie": cookie})
    made = ada.post("/tokens", {"name": "cli", "role": "admin"})
    return Shell(appliance_broker.admin, made["token"])


def test_who_makes_the_first_user_hears_how(shell: Shell) -> None:
    refused = shell.run("user create bob --password-file -", text="a long enough password\n")
    assert refused.exit_code == 4
    for word in ("printed at its start", "journalctl -u appliance", "create NAME --admin"):
        assert word in refused.stderr


def test_users_tokens_and_sessions(admin_shell: Shell) -> None:
    shell = admin_shell
    twice = f"{PASSWORD}\n{PASSWORD}\n"
    made = shell.out("user create vera --role operator --no-messages", text=twice)
    assert made.endswith("vera created, operator\n")
    rows = [line.split() for line in shell.out("user list").splitlines()]
    assert rows[0] == ["user", "role", "messages", "logged", "in", "created", "Kafka"]
    assert all(row[-2:] == ["SCRAM-SHA-256,", "SCRAM-SHA-512"] for row in rows[1:])
    assert [row[:4] for row in rows[1:]] == [["ada", "admin", "yes", "1"],
                                             ["vera", "operator", "no", "0"]]
    twice = f"{PASSWORD} 2\n{PASSWORD} 2\n"
    shell.out("user change vera --role viewer --messages --password", text=twice)
    vera = {each["name"]: each for each in shell.json("user list")["users"]}["vera"]
    assert (vera["role"], vera["may_read"]) == ("viewer", True)
    logged_in = Rest(shell.admin).ask("POST", "/login", {"name": "vera", "password": twice[:23]})
    assert logged_in.status == 204
    assert [each["name"] for each in shell.json("user sessions")["sessions"]] == ["ada", "vera"]
    assert "vera  127.0.0.1" in shell.out("user sessions")
    assert shell.out("user logout vera") == "vera is logged out\n"
    assert [each["name"] for each in shell.json("user sessions")["sessions"]] == ["ada"]
    assert shell.run("user change vera").exit_code == 2
    assert shell.out("user delete vera --yes") == "vera deleted\n"
    gone = shell.run("user delete vera --yes")
    assert (gone.exit_code, "there is no user 'vera'" in gone.stderr) == (3, True)
    token = shell.out("user token job --days 3").strip()
    assert Shell(shell.admin, token).json("topic list")["total"] == 0
    rows = [line.split() for line in shell.out("user tokens").splitlines()]
    assert [row[:3] for row in rows[1:]] == [["cli", "admin", "yes"], ["job", "viewer", "yes"]]
    assert shell.out("user revoke job --yes") == "job revoked\n"
    refused = Shell(shell.admin, token).run("topic list")
    assert (refused.exit_code, "APPLIANCE_TOKEN" in refused.stderr) == (4, True)


def test_a_lost_password_is_set_anew_when_the_broker_is_stopped(
    admin_shell: Shell, appliance_broker: RunningBroker
) -> None:
    line = f"user reset ada --data-dir {appliance_broker.data_dir} --password"
    runs = admin_shell.run(line, "another password")
    assert (runs.exit_code, "appliance user change NAME --password" in runs.stderr) == (4, True)
    appliance_broker.stop()
    unknown = admin_shell.run(line.replace("ada", "eve", 1), "another password")
    assert (unknown.exit_code, "there are: ada" in unknown.stderr) == (3, True)
    assert admin_shell.run(line, "short").exit_code == 1
    assert admin_shell.out(line, "another password") == "ada has a new password\n"
    with running_broker(appliance_broker.data_dir) as again:
        rest = Rest(again.admin)
        for password, status in (("another password", 204), (PASSWORD, 401)):
            body = {"name": "ada", "password": password}
            assert rest.ask("POST", "/login", body).status == status


def test_no_catalog_is_made_where_there_is_none(tmp_path: Path) -> None:
    line = f"user reset ada --data-dir {tmp_path} --password"
    result = Shell("127.0.0.1:1").run(line, "another password")
    assert (result.exit_code, "catalog.db does not exist" in result.stderr) == (3, True)
    assert list(tmp_path.iterdir()) == []
