"""Groups that a mirror copies: committed offsets, never ahead of the records, never expired."""

from __future__ import annotations

import confluent_kafka as ck
import pytest

from appliance.mirror import group_offsets
from appliance.mirror.errors import OffsetsCannotBeKept
from appliance.mirror.group_offsets import FRESH_S, GroupOffsets
from appliance.mirror.mirror import Mirror
from appliance.mirror.site import TopicPartition
from appliance.testing import RunningBroker
from tests.support.mirroring import T0, config, make, once, produce, running, site

pytestmark = pytest.mark.first


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
