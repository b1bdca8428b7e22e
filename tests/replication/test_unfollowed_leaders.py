"""A broker that its leader refuses, and commands at a cluster whose listeners want logins."""

from __future__ import annotations

import json
import re
from typing import Any

from click.testing import CliRunner
from confluent_kafka.admin import NewTopic

from appliance.cli.main import main
from appliance.embedded import Login, make_users
from tests.support.embedded_cluster import (
    DEADLINE_S,
    EmbeddedCluster,
    eventually,
)
from tests.support.people import logged_in

PASSWORD = "correct horse battery"


def file_of(cluster: EmbeddedCluster, name: str, password: str) -> str:
    file = cluster.folder / name
    file.touch(0o600)
    file.write_text(password)
    return str(file)


def start(cluster: EmbeddedCluster, node: int, password: str) -> None:
    cluster.start(
        node, inter_broker_listener_name="SASL_PLAINTEXT", inter_broker_user="broker",
        sasl_mechanism_inter_broker_protocol="SCRAM-SHA-256",
        inter_broker_password_file=file_of(cluster, f"password-{node}", password),
        super_users="User:ANONYMOUS;User:broker",
    )  # fmt: skip


def status(cluster: EmbeddedCluster, *words: str) -> tuple[int, str]:
    asked = ["cluster", "--zookeeper", cluster.zookeeper, "status", *words]
    found = CliRunner().invoke(main, asked, catch_exceptions=False)
    return found.exit_code, found.output


def rows(cluster: EmbeddedCluster, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(status(cluster, "--json", *words)[1])["brokers"]
    return found


def test_commands_come_by_the_listener_of_their_protocol(cluster: EmbeddedCluster) -> None:
    start(cluster, 1, PASSWORD)
    cluster.make_user(1, "broker", PASSWORD)
    broker = cluster.running[1]
    login = ["--set", "security.protocol=SASL_PLAINTEXT", "--set", "sasl.mechanism=SCRAM-SHA-256",
             "--set", "sasl.username=broker", "--set"]  # fmt: skip
    right = [*login, f"sasl.password.file={file_of(cluster, 'right', PASSWORD)}"]
    wrong = [*login, f"sasl.password.file={file_of(cluster, 'wrong', 'something else')}"]
    assert rows(cluster)[0]["address"] == broker.bootstrap
    assert rows(cluster, *right)[0]["address"] == broker.addresses["SASL_PLAINTEXT"]
    code, said = status(cluster, *wrong)
    assert (code, "login and TLS are given with --set" in said) == (4, True), said
    code, said = status(cluster, "--set", "security.protocol=SSL")
    assert (code, "it has PLAINTEXT, SASL_PLAINTEXT" in said) == (4, True), said


def test_who_cannot_follow_is_seen_by_who_looks_at_the_cluster(cluster: EmbeddedCluster) -> None:
    make_users(cluster.folder / "1", [Login("ada", PASSWORD)])
    start(cluster, 1, PASSWORD)
    cluster.make_user(1, "broker", PASSWORD)
    start(cluster, 2, "something else")
    cluster.until_known()
    wanted = NewTopic("t", 1, replica_assignment=[[1, 2]])
    admin = cluster.admin(1)  # held: it answers while it lives
    admin.create_topics([wanted])["t"].result(DEADLINE_S)
    rest = logged_in(cluster.running[1], "ada")

    def reasons() -> list[Any]:
        return [each["reasons"] for each in rest.get("/replicas")["brokers"]]

    eventually(lambda: reasons()[1] != [])
    own, (why,) = reasons()
    assert own == []
    assert re.match(r"broker 1 at 127.0.0.1:\d+ cannot be followed: .*\(1 partition\)", why), why
    code, said = status(cluster)
    assert (code, f"broker 2 says: {why}" in said) == (10, True), said
    assert [each["reasons"] for each in rows(cluster)] == [[], [why]]
    cluster.stop(2)
    assert reasons()[0] == []
    assert len(rows(cluster)) == 1
