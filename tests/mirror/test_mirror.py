"""The mirror between two brokers in this process; tests/interop/test_mirror_kills.py kills it."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from appliance.cli.main import main
from appliance.client.config import as_markdown
from appliance.client.errors import ConfigInvalid
from appliance.mirror import group_offsets, offset_map
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import MirrorFenced, OffsetNotMapped, OffsetsCannotBeKept
from appliance.mirror.group_offsets import FRESH_S, GroupOffsets
from appliance.mirror.inbox import Fetched, Inbox
from appliance.mirror.mirror import Mirror
from appliance.mirror.produce_body import FIRST, LAST, produce_body
from appliance.mirror.progress import serve_metrics
from appliance.mirror.site import COMMITTED, EARLIEST, LATEST, Site, TopicPartition
from appliance.protocol import codec
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.record import _batch
from appliance.testing import RunningBroker, running_broker
from tests.support.logs import batch
from tests.support.mirror_load import committed, held
from tests.support.unserved import unopened
from tests.support.wire_client import WireClient
from tests.test_server import Broker

pytestmark = pytest.mark.first

PAGE = Path(__file__).parents[2] / "docs" / "mirror.md"
T0 = TopicPartition("t", 0)
BOTH = pytest.mark.parametrize("offsets", ["keep", "map"])


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "source") as broker:
        yield broker


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "target") as broker:
        yield broker


def admin(broker: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def make(broker: RunningBroker, topic: str, partitions: int = 1, **configs: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    asked = admin(broker)
    asked.create_topics([NewTopic(topic, partitions, config=dotted)])[topic].result(20)


def produce(broker: RunningBroker, *values: str, topic: str = "t", partition: int = 0,
            **facts: Any) -> None:
    dotted = {name.replace("_", "."): value for name, value in facts.items()}
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, **dotted})
    for each in values:
        producer.produce(topic, each, key=each[:1], partition=partition)
    assert producer.flush(20) == 0


def aborted(broker: RunningBroker, *values: str) -> None:
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    for each in values:
        producer.produce("t", each, partition=0)
    producer.flush(20)
    producer.abort_transaction()


def delete_before(broker: RunningBroker, offset: int) -> None:
    asked = admin(broker)
    place = ck.TopicPartition("t", 0, offset)
    asked.delete_records([place])[place].result(20)


def config(source: RunningBroker, target: RunningBroker | str, **settings: Any) -> MirrorConfig:
    where = target if isinstance(target, str) else target.bootstrap
    quick = {"topics": "t|u", "commit_interval_ms": 50, "refresh_interval_ms": 100,
             "retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "fetch_max_wait_ms": 50}
    return MirrorConfig(source=source.bootstrap, target=where, **{**quick, **settings})


def once(source: RunningBroker, target: RunningBroker, **settings: Any) -> Mirror:
    made = Mirror(config(source, target, **settings))
    made.run(once=True)
    return made


@contextmanager
def running(settings: MirrorConfig) -> Iterator[Mirror]:
    mirror = Mirror(settings)
    thread = threading.Thread(target=mirror.run)
    thread.start()
    try:
        yield mirror
    finally:
        mirror.stop()
        thread.join(20)
        assert not thread.is_alive()


def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@contextmanager
def site(broker: RunningBroker) -> Iterator[Site]:
    with closing(Site(config(broker, broker).client(broker.bootstrap))) as made:
        made.refresh()
        yield made


def read(broker: RunningBroker, place: TopicPartition = T0) -> list[tuple[int, str]]:
    with site(broker) as found:
        return [(each.offset, each.value.decode()) for each in committed(found, place)]


def bounds(broker: RunningBroker) -> tuple[int, int]:
    with site(broker) as found:
        return found.offsets([T0], EARLIEST)[T0], found.offsets([T0], LATEST, COMMITTED)[T0]


@BOTH
@pytest.mark.parametrize("dead", ["source", "target"])
def test_a_stop_does_not_wait_for_a_link_that_is_dead(
    offsets: str, dead: str, tmp_path: Path
) -> None:
    """Its broker is there and says nothing, for longer than `running` waits."""
    with (Broker(tmp_path / "source") as source, Broker(tmp_path / "target") as target,
          WireClient(address(source)) as client):
        client.create_topic("t", 1)
        assert client.produce(batch("a"), acks=-1)[0].error_code == 0
        settings = MirrorConfig(
            source=source.kafka, target=target.kafka, topics="t", offsets=offsets,
            commit_interval_ms=50, request_timeout_ms=120_000, stop_timeout_ms=200)
        with running(settings) as mirror:
            until(lambda: mirror.progress.totals()["records"] == 1, "the first record")
            {"source": source, "target": target}[dead].process.send_signal(signal.SIGSTOP)
            if dead == "target":
                assert client.produce(batch("b"), acks=-1)[0].error_code == 0
                until(lambda: mirror.progress.totals()["lag"] == 1, "the second record")


def address(broker: Broker) -> tuple[str, int]:
    host, port = broker.kafka.rsplit(":", 1)
    return host, int(port)


# offsets that are kept


def test_offsets_are_those_of_the_source(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t", 2)
    produce(source, "a", "b", "c", compression_type="zstd")
    aborted(source, "never", "ever")
    produce(source, "d", enable_idempotence=True)
    produce(source, "e", partition=1)
    once(source, target)
    assert read(target) == [(0, "a"), (1, "b"), (2, "c"), (6, "d")]
    assert held(target.bootstrap, "t", True) == held(source.bootstrap, "t", True)
    assert bounds(target) == bounds(source) == (0, 7)


@pytest.mark.parametrize("batches", [["abcdef"], [*"abcdef"]], ids=["within a batch", "between"])
def test_the_target_begins_where_the_source_does(
    batches: list[str], source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    for each in batches:
        produce(source, *each, linger_ms="100")
    delete_before(source, 4)
    once(source, target)
    assert bounds(target) == bounds(source) == (4, 6)
    assert read(target) == [(4, "e"), (5, "f")]


def test_a_topic_of_which_everything_was_deleted_keeps_its_place(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, *"abc")
    delete_before(source, 3)
    once(source, target)
    assert bounds(target) == (3, 3)
    produce(source, "d")
    once(source, target)
    assert read(target) == [(3, "d")]


def test_a_topic_that_is_no_mirrors_any_more_is_written_by_others(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, "a")
    once(source, target)
    produce(target, "x")  # refused for good, so nothing waits in the end
    assert read(target) == [(0, "a")]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    resource.add_incremental_config(ck.admin.ConfigEntry(
        "mirror.source", None, incremental_operation=ck.admin.AlterConfigOpType.DELETE))
    asked = admin(target)
    asked.incremental_alter_configs([resource])[resource].result(20)
    produce(target, "b")
    assert read(target) == [(0, "a"), (1, "b")]


# both kinds of target


@BOTH
def test_a_mirror_goes_on_where_the_last_one_ended(
    offsets: str, source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    for values in ("abc", "def", "", "g"):
        if values:
            produce(source, *values)
        once(source, target, offsets=offsets)
    assert [value for _, value in read(target)] == list("abcdefg")


@BOTH
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_it_follows_while_records_come(
    delivery: str, offsets: str, source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    with running(config(source, target, offsets=offsets, delivery=delivery)) as mirror:
        for values in ("ab", "c", "def"):
            produce(source, *values)
            until(lambda: "t" in mirror_topics(target), "the topic is made")
            count = len(read(source))
            until(lambda count=count: len(read(target)) == count, f"{count} records arrive")
    assert [value for _, value in read(target)] == list("abcdef")
    assert mirror.progress.totals()["failures"] == 0


def mirror_topics(broker: RunningBroker) -> dict[str, Any]:
    return dict(admin(broker).list_topics(timeout=10).topics)


@BOTH
def test_topics_partitions_and_configs_follow_the_source(
    offsets: str, source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t", 2, retention_ms="1234567", visibility="appended")
    with running(config(source, target, offsets=offsets)):
        until(lambda: "t" in mirror_topics(target), "the topic is made")
        assert own_configs(target)["retention.ms"] == "1234567"
        assert ("visibility" in own_configs(target)) == (offsets == "keep")
        asked = admin(source)
        asked.create_partitions([NewPartitions("t", 3)])["t"].result(20)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
        resource.add_incremental_config(ck.admin.ConfigEntry(
            "retention.ms", "7654321",
            incremental_operation=ck.admin.AlterConfigOpType.SET))
        asked.incremental_alter_configs([resource])[resource].result(20)
        make(source, "u")
        produce(source, "x", partition=2)
        produce(source, "y", topic="u")
        until(lambda: {"t", "u"} <= mirror_topics(target).keys(), "the new topic is made")
        new = TopicPartition("t", 2)
        until(lambda: read_values(target, new) == ["x"], "the new partition arrives")
        until(lambda: read_values(target, TopicPartition("u", 0)) == ["y"], "the new topic arrives")
        until(lambda: own_configs(target)["retention.ms"] == "7654321", "configs follow")


def read_values(broker: RunningBroker, place: TopicPartition) -> list[str]:
    partitions = mirror_topics(broker)[place.topic].partitions
    return [value for _, value in read(broker, place)] if place.partition in partitions else []


def own_configs(broker: RunningBroker) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    asked = admin(broker)
    found = asked.describe_configs([resource])[resource].result(20)
    return {name: each.value for name, each in found.items() if each.source == 1}


@BOTH
def test_what_the_source_deleted_first_is_said_and_passed_over(
    offsets: str, source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, *"ab")
    once(source, target, offsets=offsets)
    produce(source, *"cde")
    produce(source, "f")
    delete_before(source, 5)
    mirror = once(source, target, offsets=offsets)
    assert mirror.progress.of(T0).lost_offsets == 3
    assert [value for _, value in read(target)] == list("abf")
    if offsets == "keep":
        assert read(target)[-1] == (5, "f")
    assert once(source, target, offsets=offsets).progress.of(T0).lost_offsets == 0


@BOTH
def test_a_topic_made_anew_in_the_source_is_refused_and_others_go_on(
    offsets: str, source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    make(source, "u")
    produce(source, "a")
    once(source, target, offsets=offsets)
    asked = admin(source)
    asked.delete_topics(["t"])["t"].result(20)
    make(source, "t")
    produce(source, *"xyz")
    produce(source, "b", topic="u")
    mirror = once(source, target, offsets=offsets)
    assert "made anew" in mirror.progress.refused["t"]
    assert [value for _, value in read(target)] == ["a"]
    assert [value for _, value in read(target, TopicPartition("u", 0))] == ["b"]
    with running(config(source, target, offsets=offsets)) as mirror:
        until(lambda: "t" in mirror.progress.refused, "refused again")
        time.sleep(0.3)  # three looks at what there is to mirror: they do not forget it
        assert "made anew" in mirror.progress.refused["t"]


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_topic_that_cannot_be_opened_waits_and_the_others_go_on(
    where: str, tmp_path: Path
) -> None:
    """As of a Kafka whose replicas of it are all off."""
    with both(tmp_path) as (source, there):
        for topic in ("t", "u"):
            make(source, topic)
            produce(source, "a", topic=topic)
        once(source, there)
        produce(source, "b")
        produce(source, "b", topic="u")
    with unopened(tmp_path / where, "u"), both(tmp_path) as (source, there):
        mirror = once(source, there)
        why = f"a partition of it has no leader in the {where} now"
        assert mirror.progress.refused == {"u": why}
        assert [value for _, value in read(there)] == ["a", "b"]
    with both(tmp_path) as (source, there):
        assert once(source, there).progress.refused == {}
        assert [value for _, value in read(there, TopicPartition("u", 0))] == ["a", "b"]


@contextmanager
def both(path: Path) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    with running_broker(path / "source") as source, running_broker(path / "target") as target:
        yield source, target


def test_a_topic_that_is_no_mirror_is_left_alone(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    make(target, "t")
    produce(source, "a")
    produce(target, "mine")
    mirror = once(source, target)
    assert "no mirror" in mirror.progress.refused["t"]
    assert read(target) == [(0, "mine")]


@BOTH
def test_a_link_that_comes_late_is_waited_for(
    offsets: str, source: RunningBroker, tmp_path: Path
) -> None:
    make(source, "t")
    produce(source, *"abc")
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
    address = f"127.0.0.1:{port}"
    with running(config(source, address, offsets=offsets)) as mirror:
        until(lambda: mirror.progress.failures > 2, "it tries again")
        assert not mirror.progress.is_connected
        with running_broker(tmp_path / "late", {"listen.address": address}) as late:
            until(lambda: mirror.progress.of(T0).position == 3, "all is written")
            assert [value for _, value in read(late)] == list("abc")
            mirror.stop()


# groups


def commit(broker: RunningBroker, group: str, offset: int, metadata: str = "") -> None:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    place = ck.TopicPartition("t", 0, offset, metadata)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def committed_by(broker: RunningBroker, group: str) -> dict[TopicPartition, tuple[int, str]]:
    with site(broker) as found:
        return {place: tuple(each) for place, each
                in group_offsets.committed(found, group).items()}


def test_a_group_that_moves_over_goes_on_where_it_was(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, *"abcdef")
    commit(source, "moves", 4, "its own words")
    commit(source, "stays", 4)
    mirror = once(source, target, groups="mov.*")
    ((offset, metadata),) = committed_by(target, "moves").values()
    assert offset == 4
    assert metadata.startswith("its own words")
    assert committed_by(target, "moves") == committed_by(source, "moves")
    assert committed_by(target, "stays") == {}
    consumer = ck.Consumer({"bootstrap.servers": target.bootstrap, "group.id": "moves",
                            "auto.offset.reset": "error"})
    consumer.subscribe(["t"])
    assert [each.value() for each in consumer.consume(2, 20)] == [b"e", b"f"]
    with running(mirror.config):  # while it has members there, it is left alone
        commit(source, "moves", 5)
        produce(source, "g")
        assert consumer.poll(20).value() == b"g"
    consumer.commit(asynchronous=False)
    consumer.close()
    once(source, target, groups="mov.*")
    assert committed_by(target, "moves")[T0][0] == 7, "never back"


def test_no_group_gets_ahead_of_the_records(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t")
    produce(source, *"abcdef")
    once(source, target)
    commit(source, "g", 5)
    with site(source) as there, site(target) as here:
        copied = GroupOffsets(there, here, "g", {})
        for positions, wanted in (({}, []), ({T0: 3}, [3]), ({T0: 6}, [5])):
            copied.copy(positions)
            assert [offset for offset, _ in committed_by(target, "g").values()] == wanted


def test_what_stands_still_is_committed_again_before_it_expires(
    source: RunningBroker, target: RunningBroker
) -> None:
    """In the target the group never had a member, and such offsets are not kept for good."""
    make(source, "t")
    produce(source, *"abc")
    once(source, target)
    commit(source, "g", 2)
    now_s = 0.0
    with site(source) as there, site(target) as here:
        copied = GroupOffsets(there, here, "g", {}, lambda: now_s)
        copied.copy({T0: 3})
        before = offsets_written(target)
        for at_s, written in ((FRESH_S - 1, 0), (FRESH_S, 1), (FRESH_S + 1, 1)):
            now_s = at_s
            copied.copy({T0: 3})
            assert offsets_written(target) - before == written
        assert committed_by(target, "g") == committed_by(source, "g")


def test_a_day_of_short_rounds_is_a_day(source: RunningBroker, target: RunningBroker) -> None:
    """Each round has connections, and so a GroupOffsets, of its own."""
    make(source, "t")
    produce(source, *"abc")
    commit(source, "g", 2)
    once(source, target, groups="g")
    before = offsets_written(target)
    mirror = Mirror(config(source, target, groups="g"))
    for written in (1, 1):  # a mirror that begins; its next round
        mirror._run(once=True)
        assert offsets_written(target) - before == written
    refreshed = mirror.progress.groups_refreshed
    refreshed["g"] -= FRESH_S
    mirror._run(once=True)
    assert offsets_written(target) - before == 2


def offsets_written(broker: RunningBroker) -> int:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    _, high = consumer.get_watermark_offsets(ck.TopicPartition("__consumer_offsets", 0), 20)
    consumer.close()
    return int(high)


def test_groups_are_copied_only_where_offsets_are_kept(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    with pytest.raises(OffsetsCannotBeKept, match="groups are copied where offsets are kept"):
        once(source, target, groups="g", offsets="map")


# offsets that are mapped


def test_every_offset_is_translated(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t")
    for values in ("abc", "de"):
        produce(source, *values)
        aborted(source, "never")
        once(source, target, offsets="map")
    there, here = read(source), read(target)
    assert [value for _, value in here] == [value for _, value in there] == list("abcde")
    assert [offset for offset, _ in there] != [offset for offset, _ in here]
    with site(target) as found:
        topic = config(source, target).offsets_topic
        for (offset, _), (wanted, _) in zip(there, here, strict=True):
            translation = offset_map.translate(found, topic, T0, offset)
            assert translation == offset_map.Translation(offset, wanted, True)
        between = offset_map.translate(found, topic, T0, 4)  # a marker
        assert between == offset_map.Translation(4, here[3][0], False)
        assert not offset_map.translate(found, topic, T0, 99).is_exact
        with pytest.raises(OffsetNotMapped, match="no entry"):
            offset_map.translate(found, topic, TopicPartition("t", 7), 0)


def test_an_offset_older_than_the_map_is_said_to_be(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, *"abc")
    delete_before(source, 2)
    once(source, target, offsets="map")
    with site(target) as found, pytest.raises(OffsetNotMapped, match="begins at 2"):
        offset_map.translate(found, config(source, target).offsets_topic, T0, 1)


def test_batches_that_no_broker_takes_as_they_are_are_built_again(
    source: RunningBroker, target: RunningBroker
) -> None:
    """Stamped by the source's clock, thinned by compaction, begun below the start."""
    make(source, "t", message_timestamp_type="LogAppendTime")
    produce(source, *"abc", compression_type="lz4", linger_ms="100")
    produce(source, *"def", compression_type="gzip", linger_ms="100")
    delete_before(source, 1)
    with site(source) as found:
        before = [(each.timestamp, each.value) for each in committed(found, T0)]
    once(source, target, offsets="map")
    with site(target) as found:
        after = [(each.timestamp, each.value) for each in committed(found, T0)]
    assert after == before
    assert [value for _, value in after] == [b"b", b"c", b"d", b"e", b"f"]


def batches(broker: RunningBroker) -> list[tuple[int, int]]:
    """Records and size of each that holds records."""
    with site(broker) as found, found.connect(found.leader(T0)) as connection:
        part = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
                               topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])])
        (row,) = connection.ask(FETCH, request, version=12).responses[0].partitions
        return [(each.records_count, each.size) for each in _batch.headers(row.records)
                if not each.is_control]


@pytest.mark.parametrize(("limit", "least"), [(2000, 6), (1 << 20, 1)])
def test_small_batches_are_joined_up_to_what_the_topic_takes(
    limit: int, least: int, source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t", max_message_bytes=str(limit))
    values = [f"{i:0100d}" for i in range(100)]
    produce(source, *values, batch_num_messages="1")
    assert len(batches(source)) == 100
    once(source, target, offsets="map", commit_interval_ms=10_000)
    found = batches(target)
    assert sum(records for records, _ in found) == 100
    assert all(size <= limit for _, size in found)
    assert least <= len(found) <= least + 4  # a partition's first batch may come before the others
    assert [value for _, value in read(target)] == values
    with site(target) as asked:
        for offset in (0, 50, 99):
            assert offset_map.translate(asked, "mirror.mirror.offsets", T0, offset).is_exact


@BOTH
def test_a_compacted_topic(offsets: str, tmp_path: Path, target: RunningBroker) -> None:
    settings = {"log.cleaner.backoff.ms": "50"}
    with running_broker(tmp_path / "compacted", settings) as source:
        make(source, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0",
             segment_bytes="300")
        for i in range(20):
            produce(source, f"a{i}", f"b{i}" if i < 10 else "c", linger_ms="100",
                    compression_type="gzip")
        until(lambda: len(read(source)) < 20, "compaction takes records out")
        once(source, target, offsets=offsets)
        latest = {value[:1]: value for _, value in read(source)}
        assert {value[:1]: value for _, value in read(target)} == latest
        if offsets == "keep":
            assert set(read(source)) <= set(read(target))


def test_another_mirror_of_the_name_takes_over(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    produce(source, "a")
    fenced: list[BaseException] = []
    first = Mirror(config(source, target, offsets="map"))

    def run() -> None:
        try:
            first.run()
        except MirrorFenced as error:
            fenced.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: first.progress.of(T0).position == 1, "the first one writes")
    with running(config(source, target, offsets="map")) as second:
        until(lambda: second.progress.is_connected, "the second one is there")
        produce(source, "b")
        thread.join(20)
        assert fenced
        until(lambda: len(read(target)) == 2, "the second one goes on")
    assert [value for _, value in read(target)] == ["a", "b"]


def test_two_mirrors_of_two_names_are_none_of_each_others_business(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    make(source, "u")
    produce(source, "a")
    produce(source, "b", topic="u")
    once(source, target, offsets="map", name="one", topics="t")
    once(source, target, offsets="map", name="two", topics="u")
    assert read_values(target, T0) == ["a"]
    assert read_values(target, TopicPartition("u", 0)) == ["b"]


def test_a_request_in_parts_is_the_one_of_the_tables() -> None:
    batches = {TopicPartition("t", 0): [b"one", b"two"], TopicPartition("u", 3): [b"x" * 300],
               TopicPartition("t", 1): [b"y"]}
    for transactional_id, sources in ((None, {"t": "cluster/topic"}), ("mirror.a", {})):
        parts = produce_body(transactional_id, 1234, batches, sources)
        request = ProduceRequest(transactional_id, -1, 1234)
        for name, rows in (("t", [(0, b"onetwo"), (1, b"y")]), ("u", [(3, b"x" * 300)])):
            topic = ProduceRequest.TopicProduceData(name, mirror_source=sources.get(name, ""))
            topic.partition_data = [ProduceRequest.PartitionProduceData(*row) for row in rows]
            request.topic_data.append(topic)
        for version in range(FIRST, LAST + 1):
            assert b"".join(parts) == codec.encode(request, version)


# damage


def test_a_damaged_batch_holds_up_its_partition_only(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t", 2)
    produce(source, "a" * 100)
    produce(source, "b", partition=1)
    (path,) = (source.data_dir / "t-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    mirror = once(source, target)
    assert "t-0" in mirror.progress.totals()["refused"]
    assert read(target) == []
    assert read_values(target, TopicPartition("t", 1)) == ["b"]


# figures, settings, the command


def test_metrics_tell_position_and_lag(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t")
    produce(source, *"abc")
    mirror = once(source, target)
    port = serve_metrics(mirror.progress, "127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        said = answer.read().decode()
    of = '{partition="0",topic="t"}'
    for line in (f"position{of} 3.0", f"lag_records{of} 0.0", f"records_total{of} 3.0",
                 f"lost_offsets_total{of} 0.0", "connected 0.0", "refused 0.0"):
        assert f"\nappliance_mirror_{line}\n" in said, said
    documented = set(re.findall(r"`appliance_mirror_(\w+)`", PAGE.read_text())) | {"bytes_total"}
    assert {each.replace("_created", "_total") for each in
            re.findall(r"\nappliance_mirror_(\w+)", said)} == documented


def test_every_setting_is_in_the_page() -> None:
    assert as_markdown(MirrorConfig) in PAGE.read_text()


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"topics": "("}, "not a valid regular expression"),
        ({"name": "a/b"}, "name: got 'a/b'"),
        ({"offsets": "guess"}, "wanted one of auto, keep, map"),
        ({"inbox_bytes": 0}, "at least 1"),
    ],
)
def test_a_bad_setting_is_named(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigInvalid, match=fact):
        MirrorConfig(**settings)


def test_the_command(source: RunningBroker, target: RunningBroker) -> None:
    make(source, "t")
    produce(source, *"abc")
    run = CliRunner().invoke
    ends = ["--from", source.bootstrap, "--to", target.bootstrap, "--topics", "t"]
    done = run(main, ["mirror", *ends, "--once", "--json", "--offsets", "map"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout.splitlines()[-1])
    assert (row["records"], row["lag"]) == (3, 0)
    asked = ["mirror", "translate", "--to", target.bootstrap, "--topic", "t", "--offset", "2"]
    assert run(main, asked).stdout.strip() == "2"
    assert json.loads(run(main, [*asked, "--json"]).stdout)["is_exact"]
    assert "no topic mirror.other.offsets" in run(main, [*asked, "--name", "other"]).output
    assert "missing --to, --topics" in run(main, ["mirror", "--from", "a:1"]).output
    assert "no setting 'x'" in run(main, ["mirror", *ends, "--set", "x=1"]).output
    assert "wanted int" in run(main, ["mirror", *ends, "--set", "inbox_bytes=many"]).output


def test_the_inbox_holds_no_more_than_it_may() -> None:
    inbox = Inbox(100)
    rows = [Fetched(T0, None, i, 1, 60) for i in range(3)]
    assert inbox.put(rows[0])
    assert inbox.put(rows[1])
    late = threading.Thread(target=inbox.put, args=(rows[2],))
    late.start()
    assert inbox.take(60, 0) == [rows[0]]
    late.join(10)
    assert inbox.take(1000, 0) == rows[1:]
    inbox.fail(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        inbox.take(1, 0)
    inbox.close()
    assert not inbox.put(rows[0])
