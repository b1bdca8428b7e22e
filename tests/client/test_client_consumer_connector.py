"""Consumers of a group, against a real broker and a real ZooKeeper."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from appliance.client import fetcher
from appliance.client.assignment import assign
from appliance.client.consumer_config import ConsumerConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.client.errors import (
    CommitFailed,
    ConfigInvalid,
    ConsumerTimeout,
    OffsetOutOfRange,
    TopicMadeAnew,
)
from appliance.client.partition import BrokerPartition
from appliance.client.stream import Stream
from appliance.record._record_reader import Message
from appliance.testing import RunningBroker, running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.zookeeper import DEADLINE_S, eventually, zookeeper_in

SESSION_MS = 4000
QUIET_MS = 300  # nothing more comes after so long


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        server.start()
        server.wait_until_serving()
        yield server


class Site:
    """One broker, below a path of its own in ZooKeeper."""

    def __init__(self, server: ZooKeeperServer, root: str, broker: RunningBroker) -> None:
        self.server, self.connect, self.broker = server, f"{server.address}{root}", broker
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.look = KazooClient(self.connect, timeout=SESSION_MS / 1000)
        self.look.start(DEADLINE_S)

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)
        eventually(lambda: bool(self.look.exists(f"/brokers/topics/{topic}/1")))

    def make_anew(self, topic: str, partitions: int, count: int) -> None:
        self.admin.delete_topics([topic])[topic].result(DEADLINE_S)
        self.admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)
        eventually(lambda: bool(self.look.exists(f"/brokers/topics/{topic}/1")))
        self.produce(topic, 0, *range(100, 100 + count))

    def produce(self, topic: str, partition: int, *values: int) -> None:
        for value in values:
            self.producer.produce(topic, b"%d" % value, partition=partition)
        self.producer.flush(DEADLINE_S)

    def consumer(self, **settings: Any) -> ConsumerConnector:
        facts = {"group_id": "g", "zk_session_timeout_ms": SESSION_MS, **settings}
        return ConsumerConnector(ConsumerConfig(zk_connect=self.connect, **facts))

    def reader(self, topic: str = "t", **settings: Any) -> tuple[ConsumerConnector, Stream]:
        connector = self.consumer(**{"consumer_timeout_ms": QUIET_MS, **settings})
        return connector, connector.create_message_streams({topic: 1})[topic][0]

    def node(self, path: str) -> str | None:
        try:
            data, _ = self.look.get(f"/consumers/g/{path}")
        except NoNodeError:
            return None
        return str(data or b"", "utf-8")

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.look.get_children(f"/consumers/g/{path}"))
        except NoNodeError:
            return []

    def owners(self, topic: str) -> dict[str, str | None]:
        return {each: self.node(f"owners/{topic}/{each}") for each in self.names(f"owners/{topic}")}


@pytest.fixture
def site(server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    root = "/" + re.sub(r"\W", "-", request.node.name)
    settings = {"zookeeper.connect": f"{server.address}{root}"}
    with running_broker(tmp_path, settings) as broker:
        site = Site(server, root, broker)
        site.create("t", 4)
        yield site
        site.look.stop()
        site.look.close()


def until_quiet(stream: Stream) -> list[int]:
    """The values that come until nothing more does."""
    found: list[int] = []
    values = (int(message.value or b"") for message in stream)
    with pytest.raises(ConsumerTimeout, match=f"nothing to read in {QUIET_MS} ms"):
        found.extend(values)
    return found


def take(stream: Stream, count: int) -> list[int]:
    return [int(next(stream).value or b"") for _ in range(count)]


def owned(connector: ConsumerConnector) -> list[str]:
    return sorted(map(str, connector.owned))


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
        with pytest.raises(RuntimeError, match=r'has its streams already: {"t":1}'):
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
    seen = until_quiet(stream)
    two, other = site.reader(consumer_id="2")
    eventually(lambda: owned(two) == ["t/1-2", "t/1-3"])
    site.produce("t", 2, 999)
    assert until_quiet(other) == [999]
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
    assert until_quiet(other) == [*range(9, 1000)], "the tenth was not done when it moved"
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


# Offsets


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_a_group_goes_on_where_it_was(storage: str, site: Site) -> None:
    site.produce("t", 0, *range(10))
    facts = {"offsets_storage": storage, "autocommit_enable": False}
    one, stream = site.reader(**facts)
    assert take(stream, 4) == [0, 1, 2, 3]
    one.commit_offsets()
    assert take(stream, 2) == [4, 5]
    one.shutdown()
    two, stream = site.reader(**facts)
    assert until_quiet(stream) == [4, 5, 6, 7, 8, 9], "once more what was not committed"
    two.shutdown()
    assert (site.names("offsets") == []) == (storage == "kafka")


def test_offsets_in_the_broker_are_seen_by_other_clients(site: Site) -> None:
    site.produce("t", 2, *range(10))
    connector, stream = site.reader(offsets_storage="kafka")
    assert take(stream, 4) == [0, 1, 2, 3]
    connector.commit_offsets()
    connector.shutdown()
    other = Consumer({"bootstrap.servers": site.broker.bootstrap, "group.id": "g"})
    (found,) = other.committed([TopicPartition("t", 2)], timeout=DEADLINE_S)
    assert found.offset == 4
    other.commit(offsets=[TopicPartition("t", 2, 8)], asynchronous=False)
    other.close()
    again, stream = site.reader(offsets_storage="kafka")
    assert until_quiet(stream) == [8, 9]
    again.shutdown()


def test_what_is_done_is_committed_in_the_background(site: Site) -> None:
    site.produce("t", 0, *range(10))
    connector, stream = site.reader(autocommit_interval_ms=20)
    assert take(stream, 4) == [0, 1, 2, 3]
    eventually(lambda: site.node("offsets/t/1-0") == "3")  # the fourth may be worked on
    next(stream)
    eventually(lambda: site.node("offsets/t/1-0") == "4")
    connector.shutdown()


def test_committing_first_is_at_most_once(site: Site) -> None:
    site.produce("t", 0, *range(3))
    one, stream = site.reader(autocommit_enable=False)
    next(stream)
    one.commit_offsets()
    one.shutdown()  # dies over its first message
    two, stream = site.reader(autocommit_enable=False)
    assert until_quiet(stream) == [1, 2]
    two.shutdown()


@pytest.mark.parametrize(("rule", "wanted"), [("smallest", [0, 1, 2, 3]), ("largest", [3])])
def test_without_an_offset_a_group_begins_as_it_is_told(
    rule: str, wanted: list[int], site: Site
) -> None:
    site.produce("t", 0, 0, 1, 2)
    connector, stream = site.reader(autooffset_reset=rule)
    first = until_quiet(stream)
    site.produce("t", 0, 3)
    assert first + until_quiet(stream) == wanted
    connector.shutdown()


def test_an_offset_that_is_gone_follows_the_rule(site: Site) -> None:
    site.produce("t", 0, *range(5))
    for partition, offset in enumerate((b"99", b"0", b"0", b"0")):
        site.look.create(f"/consumers/g/offsets/t/1-{partition}", offset, makepath=True)
    with site.consumer(autooffset_reset="fail") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        with pytest.raises(OffsetOutOfRange, match="t/1-0 offset 99"):
            next(stream)
    one, stream = site.reader(autooffset_reset="smallest")
    assert until_quiet(stream) == [0, 1, 2, 3, 4]
    one.shutdown()
    assert site.node("offsets/t/1-0") == "5"


@pytest.mark.parametrize("count", [2, 4, 9], ids=["fewer", "as many", "more"])
@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_a_stream_ends_when_its_topic_was_made_anew(storage: str, count: int, site: Site) -> None:
    site.produce("t", 0, 1, 2, 3, 4)
    connector, stream = site.reader(offsets_storage=storage, consumer_timeout_ms=20_000)
    with connector:
        assert take(stream, 4) == [1, 2, 3, 4]
        connector.commit_offsets()
        was = connector.cluster.topic_id(1, "t")
        site.make_anew("t", 4, count)
        now = connector.cluster.topic_id(1, "t")
        with pytest.raises(TopicMadeAnew, match="it was deleted and made anew") as got:
            next(stream)
        assert (got.value.was, got.value.now) == (was, now)


@pytest.mark.parametrize("count", [2, 4, 9], ids=["fewer", "as many", "more"])
def test_a_topic_that_was_made_anew_while_nobody_read_is_noticed(count: int, site: Site) -> None:
    site.create("one", 1)
    site.produce("one", 0, 1, 2, 3, 4)
    connector, stream = site.reader("one", consumer_timeout_ms=20_000)
    with connector:
        assert take(stream, 4) == [1, 2, 3, 4]
        connector.commit_offsets()
    site.make_anew("one", 1, count)
    for _ in range(2):  # a start again does not make it good
        connector, stream = site.reader("one", consumer_timeout_ms=20_000)
        with connector, pytest.raises(TopicMadeAnew, match="offset 4 is of the topic with id"):
            next(stream)
    assert site.node("offsets/one/1-0") == "4"
    connector, stream = site.reader("one", consumer_timeout_ms=20_000, topic_made_anew="smallest")
    with connector:
        assert take(stream, count) == [*range(100, 100 + count)]
        connector.commit_offsets()
    connector, stream = site.reader("one")
    with connector:
        assert until_quiet(stream) == []


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_a_stream_begins_at_the_new_topic_if_it_may(storage: str, site: Site) -> None:
    site.produce("t", 0, 1, 2, 3, 4)
    facts = {"offsets_storage": storage, "topic_made_anew": "smallest"}
    connector, stream = site.reader(consumer_timeout_ms=20_000, autooffset_reset="largest", **facts)
    with connector:
        eventually(lambda: all(each.offset is not None for each in connector._claims.values()))
        site.produce("t", 0, 5, 6)
        assert take(stream, 2) == [5, 6]
        connector.commit_offsets()
        site.make_anew("t", 4, 9)
        assert take(stream, 9) == [*range(100, 109)]


def test_without_zookeeper_a_commit_says_so(tmp_path: Path) -> None:
    with zookeeper_in(tmp_path / "zookeeper") as server:
        server.start()
        server.wait_until_serving()
        settings = {"zookeeper.connect": str(server.address)}
        with running_broker(tmp_path / "data", settings) as broker:
            site = Site(server, "", broker)
            site.create("t", 1)
            site.produce("t", 0, 0, 1, 2)
            connector, stream = site.reader()
            take(stream, 2)
            server.kill()
            eventually(lambda: not connector.zookeeper.connected)
            with pytest.raises(CommitFailed, match="1 offsets: ZooKeeper is away"):
                connector.commit_offsets()
            site.produce("t", 0, 3)
            assert take(stream, 2) == [2, 3], "reading goes on"
            server.start()
            server.wait_until_serving()
            eventually(lambda: connector.zookeeper.connected)
            connector.commit_offsets()
            assert site.look.retry(site.look.get, "/consumers/g/offsets/t/1-0")[0] == b"4"
            connector.shutdown()
            site.look.stop()
            site.look.close()


# Sessions


def session_of(connector: ConsumerConnector) -> int:
    identity = connector.zookeeper.client_id
    return identity[0] if identity else 0


def expire(connector: ConsumerConnector, site: Site) -> None:
    """Another connection takes the session over and ends it."""
    thief = KazooClient(site.connect, client_id=connector.zookeeper.client_id)
    thief.start(DEADLINE_S)
    thief.stop()
    thief.close()


def test_a_session_that_expired_is_replaced(site: Site) -> None:
    site.produce("t", 0, *range(10))
    connector, stream = site.reader(autocommit_enable=False, consumer_timeout_ms=5000)
    take(stream, 4)
    connector.commit_offsets()
    take(stream, 2)
    before = session_of(connector)
    expire(connector, site)
    eventually(lambda: session_of(connector) not in (0, before))
    assert take(stream, 6) == [4, 5, 6, 7, 8, 9], "from what was committed: another may have had it"
    stat = site.look.exists(f"/consumers/g/ids/{connector.id}")
    assert stat is not None
    assert stat.ephemeralOwner == session_of(connector)
    assert len(site.owners("t")) == 4
    connector.shutdown()


# Streams


def test_a_slow_stream_holds_up_no_other(site: Site) -> None:
    for partition in (0, 3):
        site.produce("t", partition, *range(2000))
    settings = {"fetch_size": 1024, "queuedchunks_max": 2, "consumer_timeout_ms": 5000}
    with site.consumer(**settings) as connector:
        slow, fast = connector.create_message_streams({"t": 2})["t"]
        assert take(fast, 2000) == [*range(2000)]
        assert len(slow._readers) <= 2
        assert take(slow, 2000) == [*range(2000)]


def test_room_is_filled_as_soon_as_there_is_some(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "LOOK_S", 3600.0)
    for value in range(60):
        site.produce("t", 0, value)  # a batch each, a dozen in a chunk
    with site.consumer(fetch_size=1024, queuedchunks_max=1) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        eventually(lambda: not stream.has_room)
        assert take(stream, 1) == [0]
        eventually(lambda: not stream.has_room)  # while the first chunk is read
        assert take(stream, 59) == [*range(1, 60)]


def test_streams_end_with_the_connector(site: Site) -> None:
    site.produce("t", 0, 1)
    connector = site.consumer()
    streams = connector.create_message_streams({"t": 2})["t"]
    found: list[list[Message]] = [[], []]
    threads = [
        threading.Thread(target=lambda into=into, stream=stream: into.extend(stream))
        for into, stream in zip(found, streams, strict=True)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: len(found[0]) == 1)
    connector.shutdown()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    connector.shutdown()  # once more is no fault


# Brokers


def test_a_broker_that_comes_back_elsewhere_is_found(
    server: ZooKeeperServer, tmp_path: Path
) -> None:
    settings = {"zookeeper.connect": f"{server.address}/elsewhere"}
    with running_broker(tmp_path, settings) as broker:
        site = Site(server, "/elsewhere", broker)
        site.create("t", 1)
        site.produce("t", 0, 1, 2)
        connector, stream = site.reader(consumer_timeout_ms=10_000)
        assert take(stream, 2) == [1, 2]
    eventually(lambda: connector.owned == {})
    with running_broker(tmp_path, settings) as broker:
        again = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        again.produce("t", b"3", partition=0)
        again.flush(DEADLINE_S)
        assert take(stream, 1) in ([3], [2]), "the second may not have been done"
        connector.shutdown()
    site.look.stop()
    site.look.close()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"group_id": "a/b"}, "group_id: got 'a/b', which names no node of ZooKeeper"),
        ({"consumer_id": ".."}, r"consumer_id: got '\.\.', which names no node"),
        ({"offsets_storage": "file"}, "offsets_storage: got 'file', wanted one of zookeeper"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigInvalid, match=wanted):
        ConsumerConfig(zk_connect="box:2181", **settings)


def test_a_connector_needs_zookeeper_and_a_group() -> None:
    for settings in ({"broker_list": "a:1", "group_id": "g"}, {"zk_connect": "a:1"}):
        with pytest.raises(ConfigInvalid, match="needs zk_connect and group_id"):
            ConsumerConnector(ConsumerConfig(**settings))
