"""A mirror that maps the source's offsets: translation, batches built again, who may write."""

from __future__ import annotations

import threading

import pytest

from appliance.mirror import offset_map
from appliance.mirror.errors import MirrorFenced, OffsetNotMapped
from appliance.mirror.mirror import Mirror
from appliance.mirror.site import TopicPartition
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest
from appliance.record import _batch
from appliance.testing import RunningBroker
from tests.support.mirror_load import committed
from tests.support.mirroring import (
    T0,
    aborted,
    config,
    delete_before,
    make,
    once,
    produce,
    read,
    read_values,
    running,
    site,
    until,
)

pytestmark = pytest.mark.first


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
