"""A reader whose metadata is old: the leaders of partitions are others by now, or the coordinator
of its group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from appliance.client.broker_partition import NO_BROKER, BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.connection import Address, Connection
from appliance.client.consumer_config import ConsumerConfig, FetchConfig
from appliance.client.errors import BrokerRefused, BrokerUnavailable, CommitFailed, NoBrokers
from appliance.client.metadata import Known
from appliance.client.offset_storage import BrokerOffsets
from appliance.client.range_assignor import TopicPartition
from appliance.client.simple_consumer import LATEST, FetchRequest, MessageSet, SimpleConsumer
from appliance.topics.topic import OFFSETS
from appliance.zookeeper.server import ZooKeeperServer
from loadtest.ports import lasting_port
from tests.support.embedded_cluster import LONG_SESSION_MS, EmbeddedCluster, embedded_cluster
from tests.support.zookeeper import DEADLINE_S, eventually

ZERO, ONE = (BrokerPartition(NO_BROKER, number) for number in (0, 1))
COUNT = 3
GONE = 7


@pytest.fixture(scope="module")
def cluster(
    server: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    """Partition 0 of `t` is at broker 1, and partition 1 at broker 2."""
    with embedded_cluster(server, "/moved", tmp_path_factory.mktemp("moved")) as cluster:
        for node in (1, 2):
            cluster.start(node, zookeeper_session_timeout_ms=LONG_SESSION_MS)
        admin = cluster.admin(1)
        eventually(lambda: len(admin.list_topics(timeout=DEADLINE_S).brokers) == 2)
        wanted = NewTopic("t", 2, replica_assignment=[[1], [2]])
        admin.create_topics([wanted])["t"].result(DEADLINE_S)
        for node in (1, 2):
            eventually(lambda node=node: leaders_told(cluster, node) == {0: 1, 1: 2})
        producer = Producer({"bootstrap.servers": cluster.running[1].bootstrap})
        for partition in (0, 1) * COUNT:
            producer.produce("t", b"x", partition=partition)
        assert producer.flush(DEADLINE_S) == 0
        yield cluster


def leaders_told(cluster: EmbeddedCluster, node: int) -> dict[int, int]:
    found = cluster.admin(node).list_topics("t", DEADLINE_S).topics["t"].partitions
    return {number: each.leader for number, each in found.items()}


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[SimpleConsumer]:
    brokers = ",".join(each.bootstrap for each in cluster.running.values())
    with SimpleConsumer(FetchConfig(broker_list=brokers)) as client:
        yield client


def known(client: SimpleConsumer) -> Known:
    """What it knows of the cluster."""
    eventually(lambda: len(client.cluster.partitions("t")) == 2)
    (found,) = client.cluster._metadata._clusters.values()
    return found


def others_lead(client: SimpleConsumer) -> None:
    """Both live, and refuse what is not theirs."""
    known(client).topics["t"].leaders.update({ZERO: 2, ONE: 1})


def one_leads_that_is_gone(client: SimpleConsumer) -> None:
    known(client).brokers[GONE] = Address("127.0.0.1", lasting_port())
    known(client).topics["t"].leaders.update({ZERO: GONE, ONE: GONE})


def one_leads_that_nobody_knows(client: SimpleConsumer) -> None:
    known(client).topics["t"].leaders.update({ZERO: GONE, ONE: GONE})


def leaders_were_elsewhere(client: SimpleConsumer) -> None:
    for node in (1, 2):
        known(client).brokers[node] = Address("127.0.0.1", lasting_port())


def fetch(client: SimpleConsumer) -> list[int]:
    return [len([*client.fetch("t", each, 0)]) for each in (ZERO, ONE)]


def fetch_arrow(client: SimpleConsumer) -> list[int]:
    return [client.fetch_arrow("t", each, 0).num_rows for each in (ZERO, ONE)]


def multifetch(client: SimpleConsumer) -> list[int]:
    found = client.multifetch(FetchRequest("t", each, 0) for each in (ZERO, ONE, ZERO))
    return [len([*each]) for each in found[:2] if isinstance(each, MessageSet)]


def offsets(client: SimpleConsumer) -> list[int]:
    return [client.get_offsets_before("t", each, LATEST)[0] for each in (ZERO, ONE)]


@pytest.mark.parametrize("has_read", [False, True], ids=["the first", "a later one"])
@pytest.mark.parametrize("read", [fetch, fetch_arrow, multifetch, offsets])
@pytest.mark.parametrize(
    "belief",
    [others_lead, one_leads_that_is_gone, one_leads_that_nobody_knows, leaders_were_elsewhere],
)
def test_a_request_follows_the_leaders(
    client: SimpleConsumer,
    belief: Callable[[SimpleConsumer], None],
    read: Callable[[SimpleConsumer], list[int]],
    has_read: bool,
) -> None:
    if has_read:
        assert read(client) == [COUNT, COUNT]
        for each in client._connections.values():
            each.close()
    belief(client)
    assert read(client) == [COUNT, COUNT]
    assert known(client).topics["t"].leaders == {ZERO: 1, ONE: 2}


@pytest.mark.parametrize(
    ("belief", "error"),
    [(others_lead, BrokerRefused), (one_leads_that_is_gone, BrokerUnavailable)],
)
def test_without_metadata_the_first_error_is_handed_out(
    client: SimpleConsumer,
    monkeypatch: pytest.MonkeyPatch,
    belief: Callable[[SimpleConsumer], None],
    error: type[Exception],
) -> None:
    def nobody(topic: str) -> None:
        raise NoBrokers("planted")

    assert fetch(client) == offsets(client) == [COUNT, COUNT]
    belief(client)
    with monkeypatch.context() as at:
        at.setattr(client.cluster, "refresh", nobody)
        for read in (fetch, offsets):
            with pytest.raises(error) as raised:
                read(client)
            assert not isinstance(raised.value, NoBrokers)
    assert fetch(client) == offsets(client) == [COUNT, COUNT]


def test_a_connection_that_the_broker_closed_is_made_again(client: SimpleConsumer) -> None:
    for read in (fetch, offsets):
        assert read(client) == [COUNT, COUNT]
        for each in client._connections.values():
            each.cut()
        assert read(client) == [COUNT, COUNT]


def test_offsets_are_asked_for_at_the_next_coordinator(cluster: EmbeddedCluster) -> None:
    addresses = [each.bootstrap for each in cluster.running.values()]
    config = ConsumerConfig(broker_list=",".join(addresses), group_id="g", offsets_storage="kafka")
    place = TopicPartition("t", ZERO)

    def is_committed() -> bool:
        with suppress(CommitFailed):  # the first time the topic of all offsets is made
            offsets.commit({place: 2})
            return True
        return False

    with Cluster(config) as brokers, closing(BrokerOffsets(brokers, config)) as offsets:
        eventually(is_committed)
        for node in (1, 2):  # who has not heard of the topic of all offsets refuses otherwise
            admin = cluster.admin(node)
            eventually(lambda admin=admin: OFFSETS in admin.list_topics(timeout=DEADLINE_S).topics)
        former = offsets._coordinators[NO_BROKER]
        former.close()
        (wrong,) = (each for each in addresses if each != str(former.address))
        offsets._coordinators[NO_BROKER] = Connection(Address.parse(wrong), config)
        with pytest.raises(BrokerRefused, match="offset of t/0 in group g: NOT_COORDINATOR"):
            offsets.read(place)
        assert offsets.read(place).offset == 2
