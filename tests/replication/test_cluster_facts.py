"""Users, access rules, quotas and settings of a cluster: what was changed at one broker holds at
all, also at one that was away, and strangers in ZooKeeper read no secret."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from appliance.broker.shared_facts import SharedFacts
from appliance.cli.main import main
from appliance.cli.offline_users import offline_users
from appliance.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from appliance.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from appliance.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from appliance.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.embedded_cluster import (
    DEADLINE_S,
    LOGIN,
    EmbeddedCluster,
    embedded_cluster,
    eventually,
)
from tests.support.kafka_login import log_in, say
from tests.support.registration import all_below
from tests.support.rest import Rest
from tests.support.scram_client import ScramClient
from tests.support.wire_client import WireClient, frame_of

BROKER, CLIENT_METRICS, GROUP = 4, 16, 32
SECRET = {"users", "tokens", "secrets"}


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


def configure(
    cluster: EmbeddedCluster, node: int, kind: int, resource: str, name: str, value: str
) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name, 0, value)
    wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, resource, [config])
    (found,) = cluster.ask(node, IncrementalAlterConfigsRequest([wanted]),
                           IncrementalAlterConfigsResponse, 44, 1).responses  # fmt: skip
    assert found.error_code == 0, found.error_message


def config_of_broker(cluster: EmbeddedCluster, node: int, wanted: str) -> str:
    admin = cluster.admin(node)
    (done,) = admin.describe_configs([
        ConfigResource(ConfigResource.Type.BROKER, str(node))]).values()  # fmt: skip
    return str(done.result(DEADLINE_S)[wanted].value)


def set_quota(cluster: EmbeddedCluster, node: int, user: str, rate: float) -> None:
    entity = AlterClientQuotasRequest.EntityData("user", user)
    quota = AlterClientQuotasRequest.OpData("producer_byte_rate", rate)
    wanted = AlterClientQuotasRequest.EntryData([entity], [quota])
    (found,) = cluster.ask(node, AlterClientQuotasRequest([wanted]),
                           AlterClientQuotasResponse, 49, 1).entries  # fmt: skip
    assert found.error_code == 0, found.error_message


def quotas(cluster: EmbeddedCluster, node: int) -> list[float]:
    found = cluster.ask(
        node, DescribeClientQuotasRequest(), DescribeClientQuotasResponse, 48, 1
    ).entries
    return [each.values[0].value for each in found or ()]


def sees(cluster: EmbeddedCluster, node: int, user: str, password: str) -> set[str]:
    """The topics that this user is shown."""
    admin = AdminClient(cluster.login(node, user, password))
    return {*admin.list_topics(timeout=DEADLINE_S).topics}


def test_what_was_changed_at_one_broker_holds_at_all(cluster: EmbeddedCluster) -> None:
    cluster.start(1)
    cluster.start(2)
    cluster.make_user(1, "ann", "ann's password")
    set_quota(cluster, 2, "ann", 4000.0)
    eventually(lambda: cluster.iterations(2, "ann") == [4096])
    assert cluster.may_log_in(2, "ann", "ann's password")
    assert not cluster.may_log_in(2, "ann", "another")

    cluster.create(1, "t")
    eventually(lambda: "t" in cluster.admin(2).list_topics(timeout=DEADLINE_S).topics)
    assert "t" not in sees(cluster, 1, "ann", "ann's password")
    allow(cluster.admin(2), "ann", "t", AclOperation.DESCRIBE)
    eventually(lambda: "t" in sees(cluster, 1, "ann", "ann's password"))
    assert quotas(cluster, 2) == [4000.0]
    eventually(lambda: quotas(cluster, 1) == [4000.0])

    cluster.stop(2)
    cluster.make_user(1, "ann", "her next password", 5000)
    configure(cluster, 1, BROKER, "", "log.retention.ms", "1234567")
    configure(cluster, 1, BROKER, "1", "log.retention.bytes", "7654321")
    configure(cluster, 1, GROUP, "g", "consumer.session.timeout.ms", "50000")
    configure(cluster, 1, CLIENT_METRICS, "s", "interval.ms", "5000")
    cluster.start(2)
    eventually(lambda: cluster.iterations(2, "ann") == [5000])
    assert cluster.may_log_in(2, "ann", "her next password")
    assert not cluster.may_log_in(2, "ann", "ann's password")
    assert "t" in sees(cluster, 2, "ann", "her next password")
    assert config_of_broker(cluster, 2, "log.retention.ms") == "1234567"
    assert config_of_broker(cluster, 2, "log.retention.bytes") == "-1"
    assert config_of_broker(cluster, 1, "log.retention.bytes") == "7654321"
    for kind, name in ((GROUP, "g"), (CLIENT_METRICS, "s")):
        found = cluster.ask(2, ListConfigResourcesRequest([kind]), ListConfigResourcesResponse,
                            74, 1)  # fmt: skip
        assert [each.resource_name for each in found.config_resources] == [name]


def test_a_user_that_was_changed_in_the_copy_is_changed_for_all(cluster: EmbeddedCluster) -> None:
    """The way back in for who has lost the last password."""
    cluster.start(1)
    cluster.start(2)
    cluster.make_user(1, "ann", "ann's password")
    cluster.make_user(1, "bob", "bob's password")
    cluster.stop(2, 1)
    with offline_users(cluster.folder / "1") as users:
        users.create("root", "admin", "a long password of root", True)
        users.delete("bob")
    cluster.start(2)
    cluster.start(1)
    eventually(lambda: cluster.iterations(2, "root") != [])
    assert cluster.may_log_in(2, "root", "a long password of root")
    eventually(lambda: cluster.iterations(2, "bob") == cluster.iterations(1, "bob") == [])
    assert cluster.may_log_in(1, "ann", "ann's password")


@contextmanager
def stranger_at(server: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(str(server.address))
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_strangers_read_no_secret_in_zookeeper(
    cluster: EmbeddedCluster, server: ZooKeeperServer
) -> None:
    cluster.start(1)
    cluster.make_user(1, "ann", "ann's password")
    root = cluster.zookeeper.removeprefix(str(server.address))
    with stranger_at(server) as stranger:
        readable, refused = all_below(stranger, root)
        with pytest.raises(NoAuthError):
            stranger.set(f"{root}/appliance/facts", b"")
    assert {path.rpartition("/")[2] for path in refused} == SECRET
    assert not any(b"stored_key" in data or b'"secret"' in data for data in readable)


def test_secrets_that_were_open_are_not_once_brokers_log_in(
    cluster: EmbeddedCluster, server: ZooKeeperServer
) -> None:
    cluster.logs_in = False
    cluster.start(1, **{"zookeeper.secrets.unprotected": "true"})
    cluster.make_user(1, "ann", "ann's password")
    root = cluster.zookeeper.removeprefix(str(server.address))
    with stranger_at(server) as stranger:
        assert any(b"stored_key" in each for each in all_below(stranger, root)[0])
        cluster.stop(1)
        cluster.logs_in = True
        cluster.start(1)

        def is_closed() -> bool:
            readable, refused = all_below(stranger, root)
            return len(refused) == 3 and not any(b"stored_key" in each for each in readable)

        eventually(is_closed)
    assert cluster.may_log_in(1, "ann", "ann's password")


def test_without_a_login_to_zookeeper_no_secret_goes_there(cluster: EmbeddedCluster) -> None:
    cluster.logs_in = False
    cluster.start(1)
    with pytest.raises(AssertionError, match=r"zookeeper\.auth\.file"):
        cluster.make_user(1, "ann", "ann's password")
    assert not cluster.may_log_in(1, "ann", "ann's password")
    allow(cluster.admin(1), "ann", "t", AclOperation.READ)


def test_changes_at_two_brokers_at_once_are_all_there(cluster: EmbeddedCluster) -> None:
    """Each is judged by what the other has done."""
    cluster.start(1)
    cluster.start(2)
    names = {node: [f"{node}-{number}" for number in range(10)] for node in (1, 2)}

    def make(node: int) -> None:
        for name in names[node]:
            set_quota(cluster, node, name, 1000.0)

    with ThreadPoolExecutor(2) as both:
        list(both.map(make, (1, 2)))
    eventually(lambda: len(quotas(cluster, 1)) == len(quotas(cluster, 2)) == 20)


def test_a_delegation_token_of_one_broker_is_good_at_another(cluster: EmbeddedCluster) -> None:
    cluster.start(1)
    cluster.start(2)
    cluster.make_user(1, "ann", "ann's password")
    host, port = cluster.running[1].addresses["SASL_PLAINTEXT"].rsplit(":", 1)
    with WireClient((host, int(port))) as client:
        assert log_in(client, "ann", "ann's password").error_code == 0
        client.send(frame_of(CreateDelegationTokenRequest(max_lifetime_ms=-1), 38, 3))
        made = client.answer(CreateDelegationTokenResponse, 38, 3)
    assert made.error_code == 0
    eventually(lambda: cluster.iterations(2, "ann") == [4096])
    host, port = cluster.running[2].addresses["SASL_PLAINTEXT"].rsplit(":", 1)
    password = base64.b64encode(made.hmac).decode()

    def is_known() -> bool:
        with WireClient((host, int(port))) as client:
            assert log_in(client, "ann", "ann's password").error_code == 0
            client.send(frame_of(DescribeDelegationTokenRequest(owners=None), 41, 3))
            told = client.answer(DescribeDelegationTokenResponse, 41, 3)
        assert told.error_code == 0
        return made.token_id in [each.token_id for each in told.tokens]

    def may_log_in() -> bool:
        with WireClient((host, int(port))) as client:
            client.send(frame_of(SaslHandshakeRequest("SCRAM-SHA-256"), 17, 1))
            client.answer(SaslHandshakeResponse, 17, 1)
            scram = ScramClient("SCRAM-SHA-256", made.token_id, password, is_token=True)
            first = say(client, scram.first())
            return bool(say(client, scram.final(first.auth_bytes)).error_code == 0)

    eventually(is_known)  # who tries again and again is kept out
    assert may_log_in()


def test_what_a_newer_build_wrote_is_passed_over_and_told(
    cluster: EmbeddedCluster, server: ZooKeeperServer
) -> None:
    one = cluster.start(1)
    set_quota(cluster, 1, "ann", 1000.0)
    set_quota(cluster, 1, "bob", 2000.0)
    root = cluster.zookeeper.removeprefix(str(server.address))
    client = KazooClient(str(server.address), auth_data=[("digest", LOGIN)])
    client.start()
    try:
        data, stat = client.get(f"{root}/appliance/facts")
        facts = json.loads(data)
        folder = f"{root}/appliance/fact_sets/{facts['set']}/quotas"
        node = next(each for each in client.get_children(folder) if "ann" in each)
        facts["changes"].append([stat.version + 1, ["quotas/" + unquote(node)]])
        change = client.transaction()
        change.set_data(f"{folder}/{node}", b'{"version": 2, "value": {}}')
        change.set_data(f"{root}/appliance/facts", json.dumps(facts).encode(), stat.version)
        assert not any(isinstance(each, Exception) for each in change.commit())
    finally:
        client.stop()
        client.close()
    eventually(lambda: "a newer program wrote it" in str(Rest(one.admin).raw(
        "GET", "/healthz").body))  # fmt: skip
    assert sorted(quotas(cluster, 1)) == [1000.0, 2000.0]
    with pytest.raises(AssertionError, match="is not changed"):
        set_quota(cluster, 1, "ann", 3000.0)
    set_quota(cluster, 1, "bob", 3000.0)
    assert sorted(quotas(cluster, 1)) == [1000.0, 3000.0]


def test_the_page_of_all_brokers_has_those_of_the_cluster(cluster: EmbeddedCluster) -> None:
    """And who looks for brokers in ZooKeeper finds them there."""
    one = cluster.start(1)
    two = cluster.start(2, **{"cluster.admin.urls": f"1=http://{one.admin}"})
    cluster.create(1, "t", factor=2)
    eventually(lambda: len(Rest(two.admin).get("/cluster")["brokers"]) == 2)
    eventually(lambda: Rest(two.admin).get("/cluster")["topics"] != [])
    answer = Rest(two.admin).get("/cluster")
    assert [each["address"] for each in answer["brokers"]] == [one.bootstrap, two.bootstrap]
    assert "unreachable" not in {each["status"] for each in answer["brokers"]}
    assert [(each["topic"], each["partitions"]) for each in answer["topics"]] == [("t", 1)]
    pages = [f"--admin={number}=http://{each.admin}" for number, each in cluster.running.items()]
    words = ["cluster", "--zookeeper", cluster.zookeeper, "--json", *pages]
    found = CliRunner().invoke(main, words)
    assert [each["address"] for each in json.loads(found.output)["brokers"]] == [
        one.bootstrap, two.bootstrap]  # fmt: skip


def test_where_a_share_group_begins_is_what_was_set_before_at_any_broker(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader decides it for good, so it asks whether it has heard of everything."""
    for node in (1, 2):
        cluster.start(node, share_coordinator_state_topic_num_partitions="1")
    cluster.create(1, "t")
    assert cluster.produce(1, "t", ["a"]) == []
    leader = cluster.admin(1).list_topics("t", DEADLINE_S).topics["t"].partitions[0].leader
    follow = SharedFacts._look

    async def look(facts: SharedFacts) -> None:
        if facts._broker.node_id != leader:  # which hears of nothing by itself
            await follow(facts)

    monkeypatch.setattr(SharedFacts, "_look", look)
    configure(cluster, 3 - leader, GROUP, "g", "share.auto.offset.reset", "earliest")
    consumer = ShareConsumer({"bootstrap.servers": cluster.running[1].bootstrap, "group.id": "g"})
    consumer.subscribe(["t"])
    found: list[bytes] = []
    end = time.monotonic() + DEADLINE_S
    while not found and time.monotonic() < end:
        found += [each.value() for each in consumer.poll(0.2) if each.error() is None]
    consumer.close()
    assert found == [b"a"]
