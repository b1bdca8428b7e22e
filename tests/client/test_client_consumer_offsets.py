"""Where a group's consumers begin and go on: commits, lost offsets, topics made anew."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from appliance.client import offset_storage
from appliance.client.broker_partition import BrokerPartition
from appliance.client.connection import Connection
from appliance.client.errors import (
    BrokerUnavailable,
    CommitFailed,
    OffsetOutOfRange,
    TopicMadeAnew,
)
from appliance.client.offset_storage import BrokerOffsets
from appliance.client.range_assignor import TopicPartition as ClientPartition
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.consumer_site import Site, has_begun, take, until_quiet
from tests.support.cut_line import CutLine
from tests.support.zookeeper import DEADLINE_S, eventually

LONG_SESSION_MS = 20_000


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
    assert until_quiet(stream, 6) == [4, 5, 6, 7, 8, 9], "once more what was not committed"
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
    assert until_quiet(stream, 2) == [8, 9]
    again.shutdown()


def test_who_still_asks_for_offsets_when_they_are_closed_connects_no_more(site: Site) -> None:
    """A thread that fetches may be about to begin a partition, and nobody would close that."""
    connector = site.consumer(offsets_storage="kafka")
    storage = connector.storage
    assert isinstance(storage, BrokerOffsets)
    of = ClientPartition("t", BrokerPartition(1, 0))
    assert storage.read(of).offset is None
    (former,) = storage._coordinators.values()
    connector.shutdown()
    assert not former.is_open
    with pytest.raises(BrokerUnavailable, match="this client was closed"):
        storage.read(of)
    assert storage._coordinators == {}


def test_who_connects_to_a_coordinator_while_it_is_closed_closes_that(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody waits for him."""
    connector = site.consumer(offsets_storage="kafka")
    storage = connector.storage
    assert isinstance(storage, BrokerOffsets)
    is_connecting, may_connect = threading.Event(), threading.Event()
    made: list[Connection] = []

    def slowly(*given: Any) -> Connection:
        is_connecting.set()
        assert may_connect.wait(DEADLINE_S)
        made.append(Connection(*given))
        return made[0]

    monkeypatch.setattr(offset_storage, "Connection", slowly)
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(storage.read, ClientPartition("t", BrokerPartition(1, 0)))
        assert is_connecting.wait(DEADLINE_S)
        begun = time.monotonic()
        storage.close()
        assert time.monotonic() - begun < DEADLINE_S / 2
        may_connect.set()
        asked.exception(DEADLINE_S)
    assert not made[0].is_open
    connector.shutdown()


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
    assert until_quiet(stream, 2) == [1, 2]
    two.shutdown()


@pytest.mark.parametrize(("rule", "wanted"), [("smallest", [0, 1, 2, 3]), ("largest", [3])])
def test_without_an_offset_a_group_begins_as_it_is_told(
    rule: str, wanted: list[int], site: Site
) -> None:
    site.produce("t", 0, 0, 1, 2)
    connector, stream = site.reader(autooffset_reset=rule)
    eventually(lambda: has_begun(connector, 4))
    site.produce("t", 0, 3)
    assert until_quiet(stream, len(wanted)) == wanted
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
    assert until_quiet(stream, 5) == [0, 1, 2, 3, 4]
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
        with pytest.raises(TopicMadeAnew, match="it was deleted and created again") as got:
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
        eventually(lambda: has_begun(connector, 4))
        site.produce("t", 0, 5, 6)
        assert take(stream, 2) == [5, 6]
        connector.commit_offsets()
        site.make_anew("t", 4, 9)
        assert take(stream, 9) == [*range(100, 109)]


def test_without_zookeeper_a_commit_says_so(site: Site, server: ZooKeeperServer) -> None:
    """It lives on behind a line that is cut, so that the session goes on when that is mended."""
    site.produce("t", 0, 0, 1, 2)
    with CutLine(server.address.host, server.address.port) as line:
        connector, stream = site.reader(
            zk_connect=site.connect.replace(str(server.address), line.address),
            zk_session_timeout_ms=LONG_SESSION_MS,
        )
        take(stream, 2)
        line.cut()
        eventually(lambda: not connector.zookeeper.connected)
        with pytest.raises(CommitFailed, match="1 offsets: ZooKeeper is unreachable"):
            connector.commit_offsets()
        site.produce("t", 0, 3)
        assert take(stream, 2) == [2, 3], "reading goes on"
        line.mend()
        eventually(lambda: connector.zookeeper.connected)
        connector.commit_offsets()
        assert site.node("offsets/t/1-0") == "4"
        connector.shutdown()
