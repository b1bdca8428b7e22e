"""Which partitions the consumers of a group have, through coming and going, and what ZooKeeper
shows of it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from appliance.client.broker_partition import BrokerPartition
from appliance.client.consumer_config import ConsumerConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.client.errors import TopicUnknown
from appliance.client.range_assignor import assign
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.consumer_site import Site, owned, session_of, take, until_quiet
from tests.support.embedded_cluster import LONG_SESSION_MS, EmbeddedCluster, embedded_cluster
from tests.support.zookeeper import DEADLINE_S, eventually


class LateEvent(threading.Event):
    """Set once more by another thread just when a wait has ended in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.is_armed = False

    def wait(self, timeout: float | None = None) -> bool:
        is_set = super().wait(timeout)
        if not is_set and self.is_armed:
            self.is_armed = False
            self.set()
        return is_set


def rounds_when_quiet(connector: ConsumerConnector) -> int:
    before = -1
    while before != connector.rounds:
        before = connector.rounds
        time.sleep(1)
    return before


# Rounds


def test_what_comes_when_a_wait_has_just_ended_in_vain_is_not_forgotten(site: Site) -> None:
    connector = site.consumer(autocommit_interval_ms=50)
    connector._woken = woken = LateEvent()
    with connector:
        connector.create_message_streams({"t": 1})
        rounds = rounds_when_quiet(connector)
        woken.is_armed = True
        eventually(lambda: connector.rounds > rounds)


# Nodes


def test_a_consumer_is_seen_in_zookeeper(site: Site) -> None:
    with site.consumer(consumer_id="box:1") as connector:
        streams = connector.create_message_streams({"t": 2})["t"]
        assert json.loads(site.node("ids/box:1") or "") == {"t": 2}
        assert site.owners("t") == {
            "1-0": "box:1-0",
            "1-1": "box:1-0",
            "1-2": "box:1-1",
            "1-3": "box:1-1",
        }
        for path in ("ids/box:1", "owners/t/1-0"):
            stat = site.look.exists(f"/consumers/g/{path}")
            assert stat is not None
            assert stat.ephemeralOwner == session_of(connector)
        site.produce("t", 0, 1, 2, 3)
        assert take(streams[0], 3) == [1, 2, 3]
        connector.commit_offsets()
        assert site.node("offsets/t/1-0") == "3"
        stat = site.look.exists("/consumers/g/offsets/t/1-0")
        assert stat is not None
        assert stat.ephemeralOwner == 0
    assert (site.names("ids"), site.owners("t")) == ([], {})
    assert site.node("offsets/t/1-0") == "3"


def test_the_name_of_a_consumer_is_host_and_uuid(site: Site) -> None:
    with site.consumer() as connector:
        connector.create_message_streams({"t": 1})
        (name,) = site.names("ids")
        assert re.fullmatch(r"[^/]+:[0-9a-f-]{36}", name)
        assert name == connector.id


def test_streams_are_made_once(site: Site) -> None:
    with site.consumer() as connector:
        connector.create_message_streams({"t": 1})
        with pytest.raises(RuntimeError, match=r'already has streams: {"t":1}'):
            connector.create_message_streams_by_filter("t")


# Rebalance


def test_partitions_are_the_tables_through_coming_and_going(site: Site) -> None:
    connectors: dict[str, ConsumerConnector] = {}

    def is_the_table() -> bool:
        group = {each.id: {"t": 1} for each in connectors.values()}
        table = assign({"t": [BrokerPartition(1, n) for n in range(4)]}, group)
        wanted = {str(of.partition): str(stream) for of, stream in table.items()}
        return site.owners("t") == wanted

    for name in ("b", "a", "e", "c", "d"):
        connectors[name] = site.consumer(consumer_id=name)
        connectors[name].create_message_streams({"t": 1})
        eventually(is_the_table)
    for name in ("a", "d", "b", "e"):
        connectors.pop(name).shutdown()
        eventually(is_the_table)
    connectors.pop("c").shutdown()
    assert site.owners("t") == {}


def test_a_partition_is_claimed_when_its_owner_has_let_go(site: Site) -> None:
    site.look.create("/consumers/g/owners/t/1-2", b"another", ephemeral=True, makepath=True)
    with site.consumer(rebalance_backoff_ms=60_000) as connector:
        connector.create_message_streams({"t": 1})
        assert owned(connector) == ["t/1-0", "t/1-1", "t/1-3"]
        site.look.delete("/consumers/g/owners/t/1-2")
        eventually(lambda: len(connector.owned) == 4)
        assert site.owners("t")["1-2"] == f"{connector.id}-0"


def test_new_partitions_are_read(site: Site) -> None:
    with site.consumer() as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        site.admin.create_partitions([NewPartitions("t", 6)])["t"].result(DEADLINE_S)
        eventually(lambda: len(connector.owned) == 6)
        site.produce("t", 5, 1)
        assert take(stream, 1) == [1]


@pytest.fixture
def cluster(server: ZooKeeperServer, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Its nodes have the later format: partitions of a topic in one, and no counts."""
    with embedded_cluster(server, f"/{tmp_path.name}", tmp_path / "cluster") as cluster:
        cluster.logs_in = False  # the consumers have no login, and write to its path
        for node in (1, 2):
            cluster.start(node, zookeeper_session_timeout_ms=LONG_SESSION_MS)
        admins = [cluster.admin(node) for node in (1, 2)]
        # of a cluster of one the names would be others
        eventually(
            lambda: all(len(each.list_topics(timeout=DEADLINE_S).brokers) == 2 for each in admins)
        )
        yield cluster


def is_led(broker: AdminClient, partitions: int) -> bool:
    found = broker.list_topics("t", DEADLINE_S).topics["t"].partitions.values()
    return len(found) == partitions and all(each.leader > 0 for each in found)


def member(cluster: EmbeddedCluster, name: str) -> ConsumerConnector:
    config = ConsumerConfig(zk_connect=cluster.zookeeper, group_id="g", consumer_id=name)
    return ConsumerConnector(config)


def test_new_partitions_of_a_clusters_topic_are_read(cluster: EmbeddedCluster) -> None:
    cluster.create(1, "t")
    with member(cluster, "a") as one, member(cluster, "b") as other:
        streams = [each.create_message_streams({"t": 1})["t"][0] for each in (one, other)]
        eventually(lambda: owned(one) == ["t/0"])
        admin = cluster.admin(2)  # held: it answers while it lives
        admin.create_partitions([NewPartitions("t", 4)])["t"].result(DEADLINE_S)
        eventually(lambda: (owned(one), owned(other)) == (["t/0", "t/1"], ["t/2", "t/3"]))
        asked = cluster.admin(1)  # the consumers have heard of them from ZooKeeper
        eventually(lambda: is_led(asked, 4))
        producer = Producer({"bootstrap.servers": cluster.running[1].bootstrap})
        for partition in range(4):
            producer.produce("t", b"%d" % partition, partition=partition)
        assert producer.flush(DEADLINE_S) == 0
        assert [sorted(take(each, 2)) for each in streams] == [[0, 1], [2, 3]]


def test_a_clusters_topic_of_which_its_brokers_have_not_heard_is_asked_for_again(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with member(cluster, "a") as connector:
        connector.create_message_streams({"t": 1})
        metadata, asked = connector.cluster._metadata, [0]
        leaders = metadata.leaders

        def late(topic: str, may_create: bool = False) -> dict[BrokerPartition, int]:
            asked[0] += 1
            if asked[0] <= 3:
                raise TopicUnknown("not yet")
            return leaders(topic, may_create)

        monkeypatch.setattr(metadata, "leaders", late)
        cluster.create(1, "t")
        eventually(lambda: owned(connector) == ["t/0"])


def test_a_topic_that_comes_later_is_read(site: Site) -> None:
    with site.consumer() as connector:
        (stream,) = connector.create_message_streams({"later": 1})["later"]
        assert connector.owned == {}
        site.create("later", 1)
        site.produce("later", 0, 7)
        assert take(stream, 1) == [7]


def test_what_was_done_is_not_read_again_by_the_next_owner(site: Site) -> None:
    for partition in range(4):
        site.produce("t", partition, *range(partition * 100, partition * 100 + 10))
    one, stream = site.reader(consumer_id="1")
    seen = until_quiet(stream, 40)
    two, other = site.reader(consumer_id="2")
    eventually(lambda: owned(two) == ["t/1-2", "t/1-3"])
    site.produce("t", 2, 999)
    assert until_quiet(other, 1) == [999]
    assert until_quiet(stream) == []
    assert sorted(seen) == [p * 100 + i for p in range(4) for i in range(10)]
    one.shutdown()
    two.shutdown()


def test_a_partition_that_moves_takes_its_unread_messages_along(site: Site) -> None:
    site.produce("t", 3, *range(1000))
    one, stream = site.reader(consumer_id="1")
    assert take(stream, 10) == [*range(10)]
    two, other = site.reader(consumer_id="2")
    eventually(lambda: owned(two) == ["t/1-2", "t/1-3"])
    assert until_quiet(stream) == [], "the first owner hands out nothing of it any more"
    assert until_quiet(other, 991) == [*range(9, 1000)], "the tenth was not done when it moved"
    one.shutdown()
    two.shutdown()


def test_a_subscription_that_nobody_can_read_takes_no_part(site: Site) -> None:
    site.look.create("/consumers/g/ids/0:broken", b"{", ephemeral=True, makepath=True)
    with site.consumer() as connector:
        connector.create_message_streams({"t": 1})
        assert len(connector.owned) == 4


def test_a_consumer_whose_node_was_removed_puts_it_back(site: Site) -> None:
    with site.consumer(consumer_id="c") as connector:
        connector.create_message_streams({"t": 1})
        site.look.delete("/consumers/g/ids/c")
        eventually(lambda: site.node("ids/c") is not None)
        assert len(connector.owned) == 4


# Filters


def test_a_whitelist_reads_what_matches_now_and_later(site: Site) -> None:
    site.create("logs-a", 1)
    with site.consumer(consumer_id="c") as connector:
        (stream,) = connector.create_message_streams_by_filter("logs-.*")
        assert json.loads(site.node("ids/c") or "") == {
            "version": 1,
            "pattern": "white_list",
            "subscription": {"logs-.*": 1},
        }
        assert owned(connector) == ["logs-a/1-0"]
        site.create("logs-b", 2)
        eventually(lambda: len(connector.owned) == 3)
        site.produce("logs-a", 0, 1)
        site.produce("logs-b", 1, 2)
        found = {message.topic: message for message in (next(stream), next(stream))}
        assert {name: each.value for name, each in found.items()} == {
            "logs-a": b"1",
            "logs-b": b"2",
        }


def test_a_blacklist_reads_all_else(site: Site) -> None:
    site.create("u", 1)
    with site.consumer() as connector:
        streams = connector.create_message_streams_by_filter("t", 2, is_blacklist=True)
        assert len(streams) == 2
        assert owned(connector) == ["u/1-0"]
