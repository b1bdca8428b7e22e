"""How a mirror follows its source, of either kind of target: topics, links, deletion, damage."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import ConfigResource, NewPartitions

from appliance.mirror.config import MirrorConfig
from appliance.mirror.pipeline import Pipeline
from appliance.mirror.site import EARLIEST, LATEST, Site, TopicPartition
from appliance.protocol import ErrorCode
from appliance.protocol.messages.list_offsets import API as LIST_OFFSETS
from appliance.protocol.messages.produce import ProduceResponse
from appliance.testing import RunningBroker, running_broker
from appliance.topics import reopening
from loadtest.ports import lasting_port
from tests.support.logs import batch, break_open
from tests.support.mirroring import (
    BOTH,
    T0,
    admin,
    config,
    delete_before,
    make,
    mirror_topics,
    once,
    produce,
    read,
    read_values,
    running,
    until,
)
from tests.support.release import gate_has
from tests.support.unserved import unopened
from tests.support.warm_broker import WarmBroker as Broker
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.first


@pytest.mark.parametrize(
    ("dead", "offsets"),
    gate_has([("source", "keep"), ("target", "map")], "the other two of each dead side",
             product(("source", "target"), ("keep", "map"))),
)
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
        alter(source, "t", "retention.ms", "7654321")
        make(source, "u")
        produce(source, "x", partition=2)
        produce(source, "y", topic="u")
        until(lambda: {"t", "u"} <= mirror_topics(target).keys(), "the new topic is made")
        new = TopicPartition("t", 2)
        until(lambda: read_values(target, new) == ["x"], "the new partition arrives")
        until(lambda: read_values(target, TopicPartition("u", 0)) == ["y"], "the new topic arrives")
        until(lambda: own_configs(target)["retention.ms"] == "7654321", "configs follow")


def alter(broker: RunningBroker, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entry = ck.admin.ConfigEntry(name, value, incremental_operation=ck.admin.AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    asked = admin(broker)  # it must live until it is answered
    asked.incremental_alter_configs([resource])[resource].result(20)


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
    assert "a new topic" in mirror.progress.refused["t"]
    assert [value for _, value in read(target)] == ["a"]
    assert [value for _, value in read(target, TopicPartition("u", 0))] == ["b"]
    with running(config(source, target, offsets=offsets)) as mirror:
        until(lambda: "t" in mirror.progress.refused, "refused again")
        time.sleep(0.3)  # three looks at what there is to mirror: they do not forget it
        assert "a new topic" in mirror.progress.refused["t"]


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_topic_that_cannot_be_opened_waits_and_the_others_go_on(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a Kafka whose replicas of it are all off."""
    monkeypatch.setattr(reopening, "RETRY_MIN_MS", 3_600_000)  # not while this runs
    with both(tmp_path) as (source, there):
        for topic in ("t", "u"):
            make(source, topic)
            produce(source, "a", topic=topic)
        once(source, there)
        produce(source, "b")
        produce(source, "b", topic="u")
    with unopened(tmp_path / where, "u"), both(tmp_path) as (source, there):
        mirror = once(source, there)
        why = f"one of its partitions has no leader in the {where} now"
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
    make(source, "u")
    mirror = once(source, target)
    assert "no mirror" in mirror.progress.refused["t"]
    assert read(target) == [(0, "mine")]


@BOTH
def test_a_link_that_comes_late_is_waited_for(
    offsets: str, source: RunningBroker, tmp_path: Path
) -> None:
    make(source, "t")
    produce(source, *"abc")
    address = f"127.0.0.1:{lasting_port()}"
    with running(config(source, address, offsets=offsets)) as mirror:
        until(lambda: mirror.progress.failures > 2, "it tries again")
        assert not mirror.progress.is_connected
        with running_broker(tmp_path / "late", {"listeners": address}) as late:
            until(lambda: mirror.progress.of(T0).position == 3, "all is written")
            assert [value for _, value in read(late)] == list("abc")
            mirror.stop()


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


@BOTH
def test_a_partition_whose_disk_fails_holds_up_no_other(
    offsets: str, source: RunningBroker, target: RunningBroker
) -> None:
    """Its leader is there, and refuses each request for it."""
    make(source, "t", 2)
    produce(source, "a")
    produce(source, "b", partition=1)
    (path,) = (source.data_dir / "t-0").glob("*.log")
    break_open(path, by=source.data_dir)
    with running(config(source, target, offsets=offsets, refresh_interval_ms=500)) as mirror:
        # each refresh forgets it, and asks again
        why = until(lambda: mirror.progress.totals()["refused"].get("t-0"), "it is passed by")
        assert why == "fetch of t-0 at offset 0: KAFKA_STORAGE_ERROR"
        until(lambda: read_values(target, TopicPartition("t", 1)) == ["b"], "the other one")
        produce(source, "c", partition=1)
        until(lambda: read_values(target, TopicPartition("t", 1)) == ["b", "c"], "and goes on")


def test_of_a_partition_that_is_deleted_no_refusal_is_kept(
    source: RunningBroker, target: RunningBroker
) -> None:
    make(source, "t")
    make(source, "u")
    produce(source, "a")
    (path,) = (source.data_dir / "t-0").glob("*.log")
    break_open(path, by=source.data_dir)
    with running(config(source, target, refresh_interval_ms=500)) as mirror:
        until(lambda: "t-0" in mirror.progress.totals()["refused"], "it is passed by")
        assert [*mirror.progress.unread._since] == [T0]
        asked = admin(source)
        asked.delete_topics(["t"])["t"].result(20)
        until(lambda: not mirror.progress.unread._since, "it is forgotten")


@pytest.mark.parametrize(
    ("where", "end"), [("source", EARLIEST), ("source", LATEST), ("target", LATEST)]
)
def test_a_partition_whose_ends_are_refused_holds_up_no_other(
    where: str, end: int, source: RunningBroker, target: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    refusing = {"source": source, "target": target}[where].bootstrap
    refused = {"t"}
    ask = Site.ask

    def some_refused(site: Site, api: Any, request: Any, *more: Any, **named: Any) -> Any:
        answer = ask(site, api, request, *more, **named)
        if api is not LIST_OFFSETS or site.config.broker_list != refusing:
            return answer
        for wanted, each in zip(request.topics, answer.topics, strict=True):
            if each.name in refused and wanted.partitions[0].timestamp == end:
                each.partitions[0].error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer

    monkeypatch.setattr(Site, "ask", some_refused)
    make(source, "t")
    make(source, "u")
    produce(source, "a")
    produce(source, "b", topic="u")
    with running(config(source, target, refresh_interval_ms=500)) as mirror:
        # each refresh forgets it, and asks again
        why = until(lambda: mirror.progress.totals()["refused"].get("t-0"), "it is passed by")
        assert why == "offsets of t-0: KAFKA_STORAGE_ERROR"
        until(lambda: mirror.progress.of(TopicPartition("u", 0)).position == 1, "the other one")
        refused.clear()
        until(lambda: read_values(target, T0) == ["a"], "its turn")


@pytest.mark.parametrize("others", [["b"], []])
def test_a_topic_that_the_target_refuses_for_a_while_holds_up_no_other(
    others: list[str], source: RunningBroker, target: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As one without enough replicas in a cluster; one broker has none that would last. Without
    others the mirror waits for its turn, too."""
    refused = {"t"}
    rows = Pipeline._rows

    def some_refused(pipeline: Pipeline, answer: ProduceResponse) -> Iterator[Any]:
        for each in answer.responses:
            if each.name in refused:
                each.partition_responses[0].error_code = ErrorCode.NOT_ENOUGH_REPLICAS
        return rows(pipeline, answer)

    monkeypatch.setattr(Pipeline, "_rows", some_refused)
    make(source, "t")
    produce(source, "a")
    if others:
        make(source, "u")
        produce(source, *others, topic="u")
    with running(config(source, target, offsets="map", refresh_interval_ms=500)) as mirror:
        until(lambda: "t" in mirror.progress.totals()["refused"], "it is passed by")
        if others:
            until(lambda: read_values(target, TopicPartition("u", 0)) == others, "the other one")
        assert read(target) == []
        refused.clear()
        until(lambda: read_values(target, T0) == ["a"], "its turn")
