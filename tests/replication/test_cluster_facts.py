"""Users, access rules, quotas and settings of a cluster: what was changed at one broker holds at
all, also at one that was away, and strangers in ZooKeeper read no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.embedded_cluster import (
    DEADLINE_S,
    EmbeddedCluster,
    embedded_cluster,
    eventually,
)


@pytest.fixture
def cluster(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[EmbeddedCluster]:
    root = "/facts-" + re.sub(r"\W", "-", request.node.name)
    with embedded_cluster(server, root, tmp_path / "cluster") as found:
        yield found


def allow(admin: AdminClient, user: str, topic: str, operation: AclOperation) -> None:
    rule = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    for done in admin.create_acls([rule]).values():
        done.result(DEADLINE_S)


def configure(admin: AdminClient, kind: ConfigResource.Type, name: str, **values: str) -> None:
    wanted = ConfigResource(kind, name, incremental_configs=[
        ConfigEntry(each.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for each, value in values.items()
    ])  # fmt: skip
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(DEADLINE_S)


def config(admin: AdminClient, kind: ConfigResource.Type, name: str, wanted: str) -> str:
    (done,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return done.result(DEADLINE_S)[wanted].value


def sees(cluster: EmbeddedCluster, node: int, user: str, password: str) -> set[str]:
    """The topics that this user is shown."""
    admin = AdminClient(cluster.login(node, user, password))
    return {*admin.list_topics(timeout=DEADLINE_S).topics}


def test_what_was_changed_at_one_broker_holds_at_all(cluster: EmbeddedCluster) -> None:
    cluster.start(1)
    cluster.start(2)
    cluster.make_user(1, "ann", "ann's password")
    eventually(lambda: cluster.iterations(2, "ann") == [4096])
    assert cluster.may_log_in(2, "ann", "ann's password")
    assert not cluster.may_log_in(2, "ann", "another")

    cluster.create(1, "t")
    eventually(lambda: "t" in cluster.admin(2).list_topics(timeout=DEADLINE_S).topics)
    assert "t" not in sees(cluster, 1, "ann", "ann's password")
    allow(cluster.admin(2), "ann", "t", AclOperation.DESCRIBE)
    eventually(lambda: "t" in sees(cluster, 1, "ann", "ann's password"))

    cluster.stop(2)
    cluster.make_user(1, "ann", "her next password", 5000)
    configure(cluster.admin(1), ConfigResource.Type.BROKER, "", log_retention_ms="1234567")
    configure(cluster.admin(1), ConfigResource.Type.BROKER, "1", log_retention_bytes="7654321")
    cluster.start(2)
    eventually(lambda: cluster.iterations(2, "ann") == [5000])
    assert cluster.may_log_in(2, "ann", "her next password")
    assert not cluster.may_log_in(2, "ann", "ann's password")
    assert "t" in sees(cluster, 2, "ann", "her next password")
    broker = ConfigResource.Type.BROKER
    assert config(cluster.admin(2), broker, "2", "log.retention.ms") == "1234567"
    assert config(cluster.admin(2), broker, "2", "log.retention.bytes") == "-1"
    assert config(cluster.admin(1), broker, "1", "log.retention.bytes") == "7654321"


def test_strangers_read_no_secret_in_zookeeper(
    cluster: EmbeddedCluster, server: ZooKeeperServer
) -> None:
    cluster.start(1)
    cluster.make_user(1, "ann", "ann's password")
    client = KazooClient(str(server.address))
    client.start()
    readable, refused = [], []

    def walk(path: str) -> None:
        try:
            data, _ = client.get(path)
            readable.append((path, data))
            for each in client.get_children(path):
                walk(f"{path}/{each}")
        except NoAuthError:
            refused.append(path)

    walk(cluster.zookeeper.removeprefix(str(server.address)))
    with pytest.raises(NoAuthError):
        client.set(next(path for path, _ in readable if path.endswith("/appliance/facts")), b"")
    client.stop()
    client.close()
    assert {path.rpartition("/")[2] for path in refused} == {"users", "tokens", "secrets"}
    assert not any(b"stored_key" in data or b'"secret"' in data for _, data in readable)


def test_without_a_login_to_zookeeper_no_secret_goes_there(cluster: EmbeddedCluster) -> None:
    cluster.logs_in = False
    cluster.start(1)
    with pytest.raises(KafkaException, match=r"zookeeper\.auth\.file"):
        cluster.make_user(1, "ann", "ann's password")
    assert not cluster.may_log_in(1, "ann", "ann's password")
    allow(cluster.admin(1), "ann", "t", AclOperation.READ)
