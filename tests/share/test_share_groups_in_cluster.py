"""Share groups whose states are at share coordinators: what their lag is, and which are forgotten.
This broker leads all that there is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.peers import Peers
from appliance.broker.share_peers import SharePeers
from appliance.groups.records import Partition
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from appliance.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from appliance.share import known_starts
from appliance.share.state_coordinator import Summary
from appliance.share.state_log import SharePartitionKey
from appliance.topics.topic import SHARE_STATE
from tests.support.logs import batch
from tests.support.two_brokers import Member, TwoBrokers

JOINING, LEAVING = 0, -1


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Member]:
    pair = TwoBrokers(tmp_path)
    pair.create("t", 2)
    pair.make_offsets_topic()
    pair.move(pair.one)
    broker, states = pair.one.broker, pair.one.broker.share_partitions.state_coordinator
    for each in pair.both:
        each.run(each.broker.group_places.make_share_state_topic())
    for name in ("t", SHARE_STATE):
        for log in broker.topics[name].logs:
            assert log is not None
            log.lead(1, 1, [], [], 1)
    for log in broker.topics["t"].logs:
        assert log is not None
        log.append_durable(batch(*"abcdefghij"))

    async def join() -> None:
        for number in range(len(broker.topics[SHARE_STATE].logs)):
            states.on_led(number, 1)
        await states.led.read_all()
        peers = Peers(lambda node: None, "broker-1")
        broker.share_partitions.join(
            SharePeers(1, broker.members, peers, broker.group_places, states)
        )
        broker.lag.ask_where_groups_are = broker.share_groups.ask_where_groups_are

    pair.one.run(join())
    yield pair.one
    pair.close()


def beat(member: Member, group: str, epoch: int = JOINING) -> None:
    topics = ["t"] if epoch == JOINING else None
    asked = ShareGroupHeartbeatRequest(group, "m", epoch, None, topics)
    assert member.ask(asked, 1).error_code == 0


def alter(member: Member, group: str, **offsets: int) -> None:
    asked = AlterShareGroupOffsetsRequest
    rows = [asked.AlterShareGroupOffsetsRequestPartition(int(name[1:]), offset)
            for name, offset in offsets.items()]  # fmt: skip
    topic = asked.AlterShareGroupOffsetsRequestTopic("t", rows)
    assert member.ask(asked(group, [topic]), 0).error_code == 0


def names(member: Member) -> set[str]:
    return {name for name, each in member.broker.groups.table.groups.items() if not each.is_dead}


def expire(member: Member) -> None:
    async def run() -> None:
        member.broker.groups.expiry.expire(1 << 50)
        await member.broker.share_groups.settled()

    member.run(run())


def lag(member: Member, group: str) -> list[tuple[Any, ...]]:
    found = member.run(member.broker.lag.of_group(group))
    return [(each.committed, each.end, each.records) for each in found.partitions]


def test_the_lag_counts_from_where_the_share_coordinator_says(
    one: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(one, "g", p0=7)
    beat(one, "g")
    assert lag(one, "g") == [(7, 10, 3), (None, 10, 0)]  # it begins with what comes
    one.run(one.broker.lag.round())
    (group,) = one.broker.lag.snapshot().groups
    assert (group.group, group.protocol, group.records) == ("g", "share", 3)
    asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup("g", None)
    (told,) = one.ask(DescribeShareGroupOffsetsRequest([asked]), 1).groups
    rows = [(each.partition_index, each.start_offset, each.lag)
            for topic in told.topics for each in topic.partitions]  # fmt: skip
    assert rows == [(0, 7, 3), (1, -1, -1)]

    async def silent(self: SharePeers, keys: Any) -> dict[SharePartitionKey, Summary]:
        return {}

    monkeypatch.setattr(SharePeers, "summaries", silent)
    monkeypatch.setattr(known_starts, "FRESH_S", 0.0)
    assert lag(one, "g") == [(None, None, 0), (None, None, 0)]
    found = one.broker.lag.records_of("g", {"t"})
    assert (found.unknown_partitions, found.without_commit.partitions) == (2, 0)
    assert Partition("t", 0) in one.broker.share_groups.progress("g").unknown


def test_groups_of_which_nobody_ever_read_are_forgotten(
    one: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(one, "told", p0=1)
    for name in ("idle", "gone"):
        beat(one, name)
    beat(one, "gone", LEAVING)
    with monkeypatch.context() as patched:
        async def silent(self: SharePeers, keys: Any) -> dict[SharePartitionKey, Summary]:
            return {}

        patched.setattr(SharePeers, "summaries", silent)
        expire(one)
        assert names(one) == {"told", "idle", "gone"}  # it is not known whether it has begun
    expire(one)
    assert names(one) == {"told", "idle"}
    states, topic_id = one.broker.share_partitions.states, one.broker.topics["t"].id
    assert one.run(states.progress("gone", topic_id, 0)) is None
    assert one.run(states.progress("told", topic_id, 0)) is not None


def test_who_was_too_slow_ends_no_change_of_another(
    one: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two change where a group begins, and both found that nobody does."""
    groups, topic_id = one.broker.share_groups, one.broker.topics["t"].id
    states = one.broker.share_partitions.states

    async def run() -> list[Any]:
        begun, may_end = asyncio.Event(), asyncio.Event()
        set_start_offset = states.set_start_offset

        async def slow(*asked: Any) -> None:
            begun.set()
            await may_end.wait()
            await set_start_offset(*asked)

        monkeypatch.setattr(states, "set_start_offset", slow)
        first = asyncio.create_task(groups.alter_offsets("g", {(topic_id, 0): 3}))
        second = asyncio.create_task(groups.alter_offsets("g", {(topic_id, 0): 4}))
        await asyncio.wait([second])
        await begun.wait()
        third = asyncio.create_task(groups.alter_offsets("g", {(topic_id, 0): 5}))
        await asyncio.sleep(0)
        may_end.set()
        return await asyncio.gather(first, second, third, return_exceptions=True)

    first, second, third = one.run(run())
    assert first == {}
    assert second.kafka_code == third.kafka_code == ErrorCode.NON_EMPTY_GROUP
    progress = one.run(states.progress("g", topic_id, 0))
    assert progress is not None
    assert progress.start_offset == 3
