"""Access rules that are enforced: those that wait, and why somebody may do something."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from appliance.config.access import STANDARD_AUTHORIZER
from appliance.testing import running_broker
from tests.support.shell import Shell

ENFORCED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
WAIT_S = 20
ME = "User:ANONYMOUS"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a broker that had rules and did not enforce them."""
    with running_broker(tmp_path / "data") as broker:
        shell = Shell(broker.admin)
        shell.out("topic create orders")
        for topic in ("orders", "clicks"):
            shell.out(f"acl add --principal {ME} --operation write --topic {topic}")
    return tmp_path / "data"


def error_of_a_write(bootstrap: str) -> str | None:
    found: list[str | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": WAIT_S * 1000,
                         "topic.metadata.refresh.interval.ms": 200})  # fmt: skip
    producer.produce("orders", b"x", on_delivery=lambda error, _: found.append(
        error.name() if error else None))
    assert producer.flush(WAIT_S) == 0
    return found[0]


def test_rules_from_before_enforcement_decide_once_they_are_confirmed(data: Path) -> None:
    with running_broker(data, ENFORCED) as broker:
        shell = Shell(broker.admin)
        told = shell.json("acl list")
        assert (told["is_enforced"], told["acls"], len(told["waiting"])) == (True, [], 2)
        listed = shell.run("acl list")
        assert "waiting for `appliance acl confirm`: 2" in listed.stdout
        assert "decide nothing until an administrator confirms them" in listed.stderr
        tried = f"acl explain {ME} --operation write --resource topic:orders"
        assert shell.out(tried).startswith("refused: no rule is about the resource")
        assert error_of_a_write(broker.bootstrap) == "TOPIC_AUTHORIZATION_FAILED"
        assert shell.out("acl confirm --topic orders --dry-run").endswith("would be confirmed: 1\n")
        assert len(shell.json("acl list")["waiting"]) == 2
        assert shell.run("acl confirm --topic orders", text="n\n").exit_code == 1
        assert shell.out("acl confirm --topic orders --yes").endswith("confirmed: 1\n")
        assert shell.out("acl confirm --drop --yes").endswith("dropped: 1\n")
        assert shell.run("acl confirm --yes").exit_code == 3
        assert shell.out(tried).startswith("allowed: a rule allows it\nprincipal")
        assert error_of_a_write(broker.bootstrap) is None
    with running_broker(data, ENFORCED) as broker:
        told = Shell(broker.admin).json("acl list")
        assert ([each["resource_name"] for each in told["acls"]], told["waiting"]) == (
            ["orders"], [])


def test_who_may_do_what_and_by_which_rule(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", ENFORCED) as broker:
        shell = Shell(broker.admin)
        shell.out("acl add --principal User:anna --operation read --topic or --prefixed")
        shell.out("acl add --principal User:* --operation write --deny --topic * --host 10.0.0.1")
        shell.out("acl add --principal User:bob --operation all --cluster")
        lines = [line.split()[:6] for line in shell.out("acl explain User:anna").splitlines()[1:]]
        assert lines == [["User:*", "deny", "write", "topic", "*", "literal"],
                         ["User:anna", "allow", "read", "topic", "or", "prefixed"]]
        elsewhere = shell.json("acl explain User:anna --host 10.0.0.2")
        assert (len(elsewhere["allow"]), elsewhere["deny"]) == (1, [])
        assert "may do everything: it is one of super.users" in shell.out("acl explain User:root")
        assert "no rule is about User:cid" in shell.out("acl explain User:cid --host 10.0.0.2")

        def tried(who: str, operation: str, resource: str, more: str = "") -> tuple[bool, str]:
            line = f"acl explain {who} --operation {operation} --resource {resource} {more}"
            found = shell.json(line.strip())
            rule = found["rule"]
            return found["is_allowed"], rule["operation"] if rule else found["why"]

        assert tried("User:anna", "read", "topic:orders") == (True, "read")
        assert tried("User:anna", "describe", "topic:orders") == (True, "read")
        assert tried("User:anna", "write", "topic:orders", "--host 10.0.0.1") == (False, "write")
        assert tried("User:bob", "alter", "cluster") == (True, "all")
        assert tried("User:root", "alter", "cluster") == (True, "it is one of super.users")
        assert tried("User:anna", "read", "topic:orders", "--host ::1")[0]


@pytest.mark.parametrize(("line", "code", "words"), [
    ("acl explain anna", 1, "wanted TYPE:NAME"),
    ("acl explain User:anna --operation read", 2, "--operation and --resource together"),
    ("acl explain User:anna --operation reed --resource topic:t", 1, "wanted one of all, read"),
    ("acl explain User:anna --operation all --resource topic:t", 1, "that a request asks for"),
    ("acl explain User:anna --operation read --resource thing:t", 1, "wanted one of topic"),
    ("acl explain User:anna --operation read --resource topic", 1, "wanted the name"),
    ("acl confirm --yes", 3, "appliance acl list"),
])
def test_what_cannot_be_explained_or_confirmed(
    shell: Shell, line: str, code: int, words: str
) -> None:
    result = shell.run(line)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr


def test_a_client_sees_the_topics_that_it_may_describe(data: Path) -> None:
    with running_broker(data, ENFORCED) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert admin.list_topics(timeout=WAIT_S).topics == {}
        Shell(broker.admin).out("acl confirm --yes")
        assert [*admin.list_topics(timeout=WAIT_S).topics] == ["orders"]
