"""Who is there: asked from a list of brokers, and watched in a real ZooKeeper."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from appliance.client import metadata
from appliance.client.broker_partition import NO_BROKER, BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.config import ClientConfig
from appliance.client.connection import Address
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigInvalid,
    NoBrokers,
    PartitionUnknown,
    TopicUnknown,
)
from appliance.client.metadata import Metadata, is_replicated
from appliance.client.zookeeper import TOPICS, RegistrationInvalid, address_in, numbers_in
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.testing import RunningBroker, running_broker
from appliance.zookeeper.server import ZooKeeperServer
from loadtest.ports import lasting_port
from tests.support.warm_serving import WarmServing
from tests.support.zookeeper import DEADLINE_S, eventually, serving_zookeeper_in

SESSION_MS, SHORT_MS = 10_000, 2000  # a short one is of a broker whose end is waited for


def names(partitions: tuple[BrokerPartition, ...]) -> list[str]:
    return [str(each) for each in partitions]


def known(cluster: Cluster, topic: str) -> list[str]:
    try:
        return names(cluster.partitions(topic))
    except TopicUnknown:
        return []


def create(broker: RunningBroker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)


def listing(*brokers: RunningBroker, **settings: Any) -> Cluster:
    return Cluster(ClientConfig(broker_list=",".join(each.bootstrap for each in brokers)))


# A list of brokers


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_broker(tmp_path / str(number), {"node.id": str(number)}))
            for number in (1, 2)
        ]


def test_brokers_of_a_list_stand_side_by_side(two: list[RunningBroker]) -> None:
    create(two[0], "t", 2)
    create(two[1], "t", 1)
    create(two[1], "only-there", 1)
    with listing(*two) as cluster:
        found = {number: str(where) for number, where in cluster.brokers().items()}
        assert found == {1: two[0].bootstrap, 2: two[1].bootstrap}
        assert names(cluster.partitions("t")) == ["1-0", "1-1", "2-0"]
        assert names(cluster.partitions("only-there")) == ["2-0"]
        assert cluster.topics() == ["only-there", "t"]
        assert [cluster.leader("t", each) for each in cluster.partitions("t")] == [1, 1, 2]
        with cluster.connect(2) as connection:
            answer = connection.ask(METADATA, MetadataRequest(topics=[]))
        assert [each.node_id for each in answer.brokers] == [2]
        assert cluster.ask(1, METADATA, MetadataRequest(topics=[])).brokers[0].node_id == 1


def test_a_topic_is_made_at_every_broker_when_it_may_be(two: list[RunningBroker]) -> None:
    with listing(*two) as cluster:
        with pytest.raises(TopicUnknown, match=f"'t' is at none of .*{two[1].bootstrap}"):
            cluster.partitions("t")
        assert names(cluster.partitions("t", may_create=True)) == ["1-0", "2-0"]
        with pytest.raises(BrokerRefused, match="INVALID_TOPIC_EXCEPTION"):
            cluster.partitions("no/name", may_create=True)
        with pytest.raises(PartitionUnknown, match="no partition 1-5, there are 1-0, 2-0"):
            cluster.leader("t", BrokerPartition(1, 5))
        with pytest.raises(BrokerUnavailable, match="broker 7 is unknown, known are 1, 2"):
            cluster.connect(7)


def test_new_partitions_are_found_when_what_is_known_is_old(two: list[RunningBroker]) -> None:
    create(two[0], "t", 1)
    with listing(two[0]) as cluster:
        assert names(cluster.partitions("t")) == ["1-0"]
        admin = AdminClient({"bootstrap.servers": two[0].bootstrap})
        admin.create_partitions([NewPartitions("t", 2)])["t"].result(DEADLINE_S)
        assert names(cluster.partitions("t")) == ["1-0"]
        cluster.refresh("t")
        assert names(cluster.partitions("t")) == ["1-0", "1-1"]


def test_a_broker_that_is_away_is_left_out_and_none_is_an_error(two: list[RunningBroker]) -> None:
    config = ClientConfig(broker_list=f"127.0.0.1:{lasting_port()},{two[0].bootstrap}")
    with Cluster(config) as cluster:
        assert [*cluster.brokers()] == [1]
        create(two[0], "t", 1)
        assert names(cluster.partitions("t")) == ["1-0"]
        two[0].stop()
        assert names(cluster.partitions("t")) == ["1-0"]  # known, and not asked again yet
        with pytest.raises(NoBrokers, match=two[0].bootstrap):
            cluster.refresh("t")


def test_two_brokers_with_one_id_are_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path / "a") as a, running_broker(tmp_path / "b") as b:
        both = f"{b.bootstrap} and {a.bootstrap}"
        with listing(a, b) as cluster, pytest.raises(ConfigInvalid, match=f"the id 1: {both}"):
            cluster.brokers()


def test_a_partition_with_replicas_elsewhere_is_of_a_replicated_cluster() -> None:
    broker = MetadataResponse.MetadataResponseBroker(1, "a", 1)
    row = MetadataResponse.MetadataResponsePartition(leader_id=1, replica_nodes=[1])
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[row])
    answer = MetadataResponse(brokers=[broker], topics=[topic])
    assert not is_replicated(answer)
    row.replica_nodes = [1, 2]
    assert is_replicated(answer)


class Elected(Metadata):
    """Of a cluster without sockets: broker 1 is away at first, and its partition has no leader."""

    def __init__(self) -> None:
        self.requests, self.partitions, self.is_back, self.is_away = 0, 1, False, False
        super().__init__(ClientConfig(broker_list="b:2"), lambda: [Address("b", 2)])

    def ask(self, address: Address, api: Any, request: Any) -> MetadataResponse:
        self.requests += 1
        if self.is_away:
            raise BrokerUnavailable("away")
        brokers = {2: "b", 3: "c"} | ({1: "a"} if self.is_back else {})
        leader = 1 if self.is_back else NO_BROKER
        rows = [
            MetadataResponse.MetadataResponsePartition(0, number, leader)
            for number in range(self.partitions)
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponse.MetadataResponseBroker(number, host, number)
                for number, host in brokers.items()
            ],
            topics=[MetadataResponse.MetadataResponseTopic(name="t", partitions=rows)],
        )


def test_who_has_no_leader_is_asked_for_again_before_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "FRESH_S", 0.05)
    known, partition = Elected(), BrokerPartition(NO_BROKER, 0)

    def leader(of: BrokerPartition) -> int:
        with suppress(PartitionUnknown):
            return known.leader("t", of)
        return NO_BROKER

    with pytest.raises(PartitionUnknown, match="t partition 0 has no leader now"):
        known.leader("t", partition)
    known.is_back = True
    eventually(lambda: leader(partition) == 1)
    with pytest.raises(PartitionUnknown, match="no partition 1, there are 0"):
        known.leader("t", BrokerPartition(NO_BROKER, 1))
    known.partitions = 2
    eventually(lambda: leader(BrokerPartition(NO_BROKER, 1)) == 1)


@pytest.mark.parametrize("is_away", [False, True])
def test_whoever_waits_for_a_leader_makes_few_requests(
    is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "FRESH_S", 60.0)
    known = Elected()
    known.leaders("t")
    (answer,) = known._parts("t")
    answer.asked_at -= 2 * metadata.FRESH_S
    known.is_away, known.requests = is_away, 0
    for _ in range(100):
        with pytest.raises(PartitionUnknown, match="has no leader now"):
            known.leader("t", BrokerPartition(NO_BROKER, 0))
    assert known.requests == (2 if is_away else 1), "one of each broker that may answer"


def test_names_of_partitions_are_read_as_they_are_written() -> None:
    for name in ("1-0", "12-34", "5"):
        assert str(BrokerPartition.parse(name)) == name
    with pytest.raises(ValueError, match="invalid literal"):
        BrokerPartition.parse("x-0")


# ZooKeeper


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def root(server: ZooKeeperServer, request: pytest.FixtureRequest) -> str:
    return f"{server.address}/cluster/" + re.sub(r"\W", "-", request.node.name)


def registered(root: str, node_id: int, **settings: str) -> dict[str, str]:
    return {
        "zookeeper.format": "original",
        "zookeeper.connect": root,
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "zookeeper.connection.timeout.ms": "10000",
        "node.id": str(node_id),
        **settings,
    }


def watching(root: str) -> Cluster:
    return Cluster(
        ClientConfig(
            zk_connect=root, zk_session_timeout_ms=SESSION_MS, zk_connection_timeout_ms=10_000
        )
    )


def test_brokers_and_topics_come_and_go(root: str, tmp_path: Path) -> None:
    with watching(root) as cluster:
        assert (cluster.brokers(), cluster.topics()) == ({}, [])
        with pytest.raises(TopicUnknown, match="no broker of ZooKeeper has topic 't'"):
            cluster.partitions("t")
        calls: list[int] = []
        cluster.watch(lambda: calls.append(1))
        with running_broker(tmp_path / "1", registered(root, 1)) as one:
            create(one, "t", 2)
            eventually(lambda: cluster.topics() == ["t"])
            eventually(lambda: known(cluster, "t") == ["1-0", "1-1"])
            assert cluster.brokers() == {1: Address.parse(one.bootstrap)}
            eventually(lambda: bool(calls))  # who watches is told when it is there
            with running_broker(tmp_path / "2", registered(root, 2)) as two:
                create(two, "t", 1)
                eventually(lambda: known(cluster, "t") == ["1-0", "1-1", "2-0"])
                assert cluster.leader("t", BrokerPartition(2, 0)) == 2
                admin = AdminClient({"bootstrap.servers": two.bootstrap})
                admin.create_partitions([NewPartitions("t", 2)])["t"].result(DEADLINE_S)
                eventually(lambda: len(known(cluster, "t")) == 4)
            eventually(lambda: known(cluster, "t") == ["1-0", "1-1"])
        eventually(lambda: cluster.brokers() == {})


def test_an_invalid_node_keeps_no_other_from_being_read(root: str, tmp_path: Path) -> None:
    with running_broker(tmp_path, registered(root, 1)) as broker, watching(root) as cluster:
        look = cluster.zookeeper
        assert look
        create(broker, "a", 1)
        create(broker, "b", 1)
        eventually(lambda: known(cluster, "a") == known(cluster, "b") == ["1-0"])
        look.set("/brokers/topics/a/1", b"one")
        eventually(lambda: f"{TOPICS}/a" in cluster._registry._due)  # type: ignore[union-attr]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions("b", 2)])["b"].result(DEADLINE_S)
        eventually(lambda: known(cluster, "b") == ["1-0", "1-1"])
        look.set("/brokers/topics/a/1", b"3")
        eventually(lambda: known(cluster, "a") == ["1-0", "1-1", "1-2"])


def test_a_topic_is_made_at_every_registered_broker(root: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for number in (1, 2, 3):
            settings = registered(root, number, **{"num.partitions": str(number)})
            stack.enter_context(running_broker(tmp_path / str(number), settings))
        with watching(root) as cluster:
            found = names(cluster.partitions("new", may_create=True))
            assert found == ["1-0", "2-0", "2-1", "3-0", "3-1", "3-2"]


def test_a_killed_broker_goes_with_its_session_and_is_found_at_its_new_address(
    root: str, tmp_path: Path
) -> None:
    settings = registered(root, 1, **{"zookeeper.session.timeout.ms": str(SHORT_MS)})
    broker = WarmServing(tmp_path, **settings)
    try:
        with watching(root) as cluster:
            assert names(cluster.partitions("t", may_create=True)) == ["1-0"]
            before = cluster.brokers()
            broker.stop(signal.SIGKILL)
            broker = WarmServing(tmp_path, **settings)  # within its session: the node is replaced
            eventually(lambda: cluster.brokers() == {1: Address(*broker.kafka)})
            assert cluster.brokers() != before
            eventually(lambda: known(cluster, "t") == ["1-0"])
            broker.stop(signal.SIGKILL)
            eventually(lambda: cluster.brokers() == {})
            with pytest.raises(TopicUnknown):
                cluster.partitions("t")
    finally:
        broker.stop(signal.SIGKILL)


def test_what_zookeeper_said_stays_true_while_it_is_away(tmp_path: Path) -> None:
    with serving_zookeeper_in(tmp_path / "zookeeper") as server:
        root = f"{server.address}/away"
        with running_broker(tmp_path / "1", registered(root, 1)) as broker, watching(root) as found:
            create(broker, "t", 1)
            eventually(lambda: "t" in found.topics())
            assert names(found.partitions("t")) == ["1-0"]
            server.kill()
            assert names(found.partitions("t")) == ["1-0"]
            create(broker, "u", 1)
            server.start()
            eventually(lambda: found.topics() == ["t", "u"])
            eventually(lambda: known(found, "u") == ["1-0"])


def test_the_later_form_names_brokers_and_these_are_asked(root: str, tmp_path: Path) -> None:
    settings = registered(root, 4, **{"zookeeper.format": "json"})
    with running_broker(tmp_path, settings) as broker, watching(root) as cluster:
        create(broker, "t", 2)
        eventually(lambda: cluster.topics() == ["t"])
        assert cluster.brokers() == {4: Address.parse(broker.bootstrap)}
        assert names(cluster.partitions("t")) == ["4-0", "4-1"]
        assert cluster.leader("t", BrokerPartition(4, 1)) == 4


def test_in_the_later_form_zookeeper_counts_the_partitions(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may not have heard of new ones yet, and then not know who leads them."""
    settings = registered(root, 4, **{"zookeeper.format": "json"})
    with running_broker(tmp_path, settings) as broker, watching(root) as cluster:
        create(broker, "t", 1)
        eventually(lambda: known(cluster, "t") == ["4-0"])
        calls: list[int] = []
        cluster.watch(lambda: calls.append(1))
        with monkeypatch.context() as at:
            at.setattr(cluster._metadata, "refresh", lambda *_: None)
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_partitions([NewPartitions("t", 3)])["t"].result(DEADLINE_S)
            eventually(lambda: known(cluster, "t") == ["4-0", "4-1", "4-2"])
            eventually(lambda: bool(calls))  # who watches is told when they are there
            with pytest.raises(PartitionUnknown, match="no partition 4-2, there are 4-0"):
                cluster.leader("t", BrokerPartition(4, 2))
        cluster.refresh("t")
        assert cluster.leader("t", BrokerPartition(4, 2)) == 4


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        (b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}', {0, 1}),
        (b'{"partitions":{"0":[1],"x":[1]}}', {0}),
        (b'{"partitions":[0,1]}', set()),
        (b'{"partitions":null}', set()),
        (b'{"partitions":{"%s":[1]}}' % (b"9" * 5000), set()),
        (b'{"version":1}', set()),
        (b'{"a":' * 100_000, set()),
        (b"{", set()),
    ],
    ids=["two", "another name", "a list", "null", "a long number", "none", "deep", "cut"],
)
def test_partitions_in_a_topics_node_are_read(data: bytes, numbers: set[int]) -> None:
    assert numbers_in(data) == numbers


def test_a_zookeeper_that_does_not_answer_is_an_error() -> None:
    where = f"127.0.0.1:{lasting_port()}"
    config = ClientConfig(zk_connect=where, zk_connection_timeout_ms=200)
    with pytest.raises(BrokerUnavailable, match=f"{where} did not answer within 200 ms"):
        Cluster(config)


@pytest.mark.parametrize(
    ("data", "address"),
    [
        (b"host:9092", "host:9092"),
        (b"10.0.0.1-1300000000000:10.0.0.1:9092", "10.0.0.1:9092"),
        (b"[::1]:9092", "[::1]:9092"),
        (b'{"host":"h","port":1,"version":1}', "h:1"),
        (b'{"host":null,"port":-1,"endpoints":["SSL://s:2","PLAINTEXT://p:3"]}', "p:3"),
        (b'{"host":"h","port":1,"endpoints":null}', "h:1"),
        (b'{"host":"h","port":1,"endpoints":5,"listener_security_protocol_map":5}', "h:1"),
    ],
)
def test_addresses_of_all_forms_are_read(data: bytes, address: str) -> None:
    assert str(address_in("/brokers/ids/1", data)) == address


def test_of_several_listeners_the_one_with_the_clients_protocol_is_taken() -> None:
    """In the first form a name is a protocol; later there is a table of them."""
    before = b'{"host":"h","port":1,"endpoints":["PLAINTEXT://h:1","SASL_SSL://s:2"]}'
    assert str(address_in("/brokers/ids/1", before, "SASL_SSL")) == "s:2"
    after = (
        b'{"host":null,"port":-1,"endpoints":["SSL://a:1","OUT://s:2"],'
        b'"listener_security_protocol_map":{"SSL":"PLAINTEXT","OUT":"SSL"}}'
    )
    assert str(address_in("/brokers/ids/1", after, "SSL")) == "s:2"
    assert str(address_in("/brokers/ids/1", after)) == "a:1"


@pytest.mark.parametrize("data", [b"", b"host", b"\xff", b"{", b'{"host":"h"}', b"host:99999"])
def test_a_node_that_is_no_address_is_named(data: bytes) -> None:
    with pytest.raises(RegistrationInvalid, match="/brokers/ids/1 in ZooKeeper: wanted host:port"):
        address_in("/brokers/ids/1", data)
