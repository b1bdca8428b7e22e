"""Streams of a consumer: their room and their end, over lost sessions and moved brokers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from appliance.client import fetch, fetcher
from appliance.client.broker_partition import BrokerPartition
from appliance.client.consumer_config import ConsumerConfig, FetchConfig
from appliance.client.consumer_connector import ConsumerConnector
from appliance.client.errors import BrokerRefused, ConfigInvalid, TopicMadeAnew
from appliance.client.fetch import Wanted
from appliance.client.range_assignor import TopicPartition
from appliance.client.stream import Claim
from appliance.protocol import ErrorCode
from appliance.record._record_reader import Message
from appliance.testing import running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.consumer_site import Site, session_of, take
from tests.support.zookeeper import DEADLINE_S, eventually

# Sessions


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


# A partition that fails


class Failing:
    """A disk of the broker that holds partition 0, until it is mended."""

    def __init__(self, at: pytest.MonkeyPatch) -> None:
        self.times, self.is_mended = 0, False
        self._of_answer, self._ask_offset = fetch.of_answer, fetcher.ask_offset
        self._at = at

    def _refusal(self, of: TopicPartition) -> BrokerRefused | None:
        if of.partition.partition or self.is_mended:
            return None
        self.times += 1
        return BrokerRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{of}").at(of)

    def fetches(self) -> None:
        def of_answer(config: FetchConfig, wanted: Wanted, part: Any) -> Any:
            return self._refusal(wanted.of) or self._of_answer(config, wanted, part)

        self._at.setattr(fetch, "of_answer", of_answer)

    def offsets(self) -> None:
        def ask_offset(connection: Any, config: FetchConfig, of: TopicPartition, time: int) -> Any:
            if refusal := self._refusal(of):
                raise refusal
            return self._ask_offset(connection, config, of, time)

        self._at.setattr(fetcher, "ask_offset", ask_offset)


@pytest.mark.parametrize("asked", [Failing.fetches, Failing.offsets])
def test_a_partition_that_its_broker_refuses_holds_up_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch, asked: Callable[[Failing], None]
) -> None:
    failing = Failing(monkeypatch)
    asked(failing)
    for partition in range(4):
        site.produce("t", partition, partition)
    connector, stream = site.reader(refetch_backoff_ms=1, consumer_timeout_ms=10_000)
    with connector:
        assert sorted(take(stream, 3)) == [1, 2, 3]
        eventually(lambda: failing.times > 2)
        site.produce("t", 3, 4)
        assert take(stream, 1) == [4]
        failing.is_mended = True
        assert take(stream, 1) == [0]


def test_an_offset_that_nobody_can_read_holds_up_no_other_partition(site: Site) -> None:
    site.look.create("/consumers/g/offsets/t/1-0", b"none", makepath=True)
    for partition in range(4):
        site.produce("t", partition, partition)
    connector, stream = site.reader(refetch_backoff_ms=1, consumer_timeout_ms=10_000)
    with connector:
        assert sorted(take(stream, 3)) == [1, 2, 3]
        site.look.set("/consumers/g/offsets/t/1-0", b"0")
        assert take(stream, 1) == [0]


def test_a_partition_is_of_its_old_topic_until_the_new_one_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the id of the new one it would be read on at the offset of the old one."""
    of, was, now = TopicPartition("t", BrokerPartition(1, 0)), uuid.uuid4(), uuid.uuid4()
    config = ConsumerConfig(zk_connect="a:1", group_id="g", topic_made_anew="smallest")
    nobody: Any = None
    begun = fetcher.Fetcher(1, nobody, config, nobody, lambda: None)
    monkeypatch.setattr(begun, "_connected", lambda: None)
    Failing(monkeypatch).offsets()
    claim = Claim(of, nobody, 1024)
    claim.topic_id = was
    claim.begin(3)
    begun._refused(claim, TopicMadeAnew(of, 3, was, now))
    assert (claim.topic_id, claim.offset) == (was, 3)
    assert claim in begun._paused
    begun.stop()
    begun.join(DEADLINE_S)


# Brokers


def test_a_broker_that_comes_back_elsewhere_is_found(
    server: ZooKeeperServer, tmp_path: Path
) -> None:
    settings = {"zookeeper.format": "original", "zookeeper.connect": f"{server.address}/elsewhere"}
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
        ({"group_id": "a/b"}, "group_id: got 'a/b', no valid name in ZooKeeper"),
        ({"consumer_id": ".."}, r"consumer_id: got '\.\.', no valid name"),
        ({"offsets_storage": "file"}, "offsets_storage: got 'file', wanted one of zookeeper"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigInvalid, match=wanted):
        ConsumerConfig(zk_connect="box:2181", **settings)


def test_a_connector_needs_zookeeper_and_a_group() -> None:
    for settings in ({"broker_list": "a:1", "group_id": "g"}, {"zk_connect": "a:1"}):
        wanted = "needs zk_connect and group_id: got .* Without a ZooKeeper read with a Simple"
        with pytest.raises(ConfigInvalid, match=wanted):
            ConsumerConnector(ConsumerConfig(**settings))
