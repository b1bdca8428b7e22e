"""Share groups as clients and administrators see them, over the control plane."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from appliance.errors import LogFailed
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from appliance.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from appliance.protocol.messages.create_partitions import CreatePartitionsRequest
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from appliance.topics.topic import SHARE_STATE
from tests.support.control import Control, Sent
from tests.support.group_client import GroupClient
from tests.support.share_client import ACCEPT, ShareClient, write_many

JOINING, LEAVING = 0, -1
GROUP = 32  # the type of a config resource


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


class Member:
    def __init__(self, control: Control, name: str = "m", group: str = "g", *topics: str) -> None:
        self.control, self.id, self.group, self.topics = control, name, group, topics or ("t",)
        self.epoch = JOINING
        self.assigned: set[tuple[UUID, int]] = set()

    def ask(self, epoch: int | None = None, **said: Any) -> Sent:
        sent = self.epoch if epoch is None else epoch
        said.setdefault("subscribed_topic_names", list(self.topics) if sent == JOINING else None)
        asked = {"group_id": self.group, "member_id": self.id, "member_epoch": sent, **said}
        return self.control.send(ShareGroupHeartbeatRequest(**asked), 1)

    def beat(self, epoch: int | None = None, **said: Any) -> Any:
        answer = self.control.answer(self.ask(epoch, **said))
        if not answer.error_code:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.assigned = {(row.topic_id, index) for row in rows for index in row.partitions}
        return answer


def restarted(control: Control, path: Path, is_killed: bool = True) -> Control:
    if is_killed:
        control.kill()
    else:
        control.close()
    return Control(path)


def topic_id(control: Control, name: str = "t") -> UUID:
    return control.broker.topics[name].id


def describe(control: Control, *groups: str) -> list[Any]:
    return control.ask(ShareGroupDescribeRequest(list(groups), True), 1).groups


def offsets(control: Control, group: str = "g", **topics: list[int]) -> dict[tuple[str, int], Any]:
    """Start offset and lag; without topics of all."""
    request = DescribeShareGroupOffsetsRequest
    row = request.DescribeShareGroupOffsetsRequestTopic
    rows = [row(name, partitions) for name, partitions in topics.items()] or None
    asked = request([request.DescribeShareGroupOffsetsRequestGroup(group, rows)])
    (answer,) = control.ask(asked, 1).groups
    assert (answer.group_id, answer.error_code) == (group, 0)
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
        for topic in answer.topics
        for each in topic.partitions
    }


def alter(control: Control, group: str = "g", topic: str = "t", **starts: int) -> Any:
    request = AlterShareGroupOffsetsRequest
    row = request.AlterShareGroupOffsetsRequestPartition
    rows = [row(int(index.removeprefix("p")), start) for index, start in starts.items()]
    asked = request(group, [request.AlterShareGroupOffsetsRequestTopic(topic, rows)])
    return control.ask(asked, 0)


def delete_offsets(control: Control, *topics: str, group: str = "g") -> Any:
    request = DeleteShareGroupOffsetsRequest
    rows = [request.DeleteShareGroupOffsetsRequestTopic(each) for each in topics]
    return control.ask(request(group, rows), 0)


def delete(control: Control, *groups: str) -> list[int]:
    answer = control.ask(DeleteGroupsRequest(list(groups)), 2)
    return [each.error_code for each in answer.results]


def groups(control: Control, *types: str) -> dict[str, tuple[str, str, str]]:
    answer = control.ask(ListGroupsRequest([], list(types)), 5)
    return {
        each.group_id: (each.group_type, each.protocol_type, each.group_state)
        for each in answer.groups
    }


# Members


def test_a_member_joins_stays_and_leaves(control: Control) -> None:
    member = Member(control)
    joined = member.beat(rack_id="r1")
    assert (joined.error_code, joined.member_id, joined.heartbeat_interval_ms) == (0, "m", 5000)
    assert member.assigned == {(topic_id(control), 0), (topic_id(control), 1)}
    assert member.beat().assignment is None
    (row,) = describe(control, "g")
    assert (row.group_state, row.assignor_name, row.error_code) == ("Stable", "simple", 0)
    assert row.group_epoch == row.assignment_epoch == member.epoch
    assert row.authorized_operations > 0
    (told,) = row.members
    assert (told.member_id, told.rack_id, told.member_epoch) == ("m", "r1", member.epoch)
    assert (told.client_id, told.client_host) == ("test", "/127.0.0.1")
    assert told.subscribed_topic_names == ["t"]
    (places,) = told.assignment.topic_partitions
    assert (places.topic_name, places.partitions) == ("t", [0, 1])
    assert groups(control) == {"g": ("share", "share", "Stable")}
    left = member.beat(LEAVING)
    assert (left.error_code, left.member_epoch) == (0, LEAVING)
    assert groups(control, "Share") == {"g": ("share", "share", "Empty")}
    assert groups(control, "classic", "consumer") == {}


def test_what_the_coordinator_knows_is_there_for_others(control: Control) -> None:
    own = control.broker.share_groups
    member = Member(control)
    member.beat()
    assert own.assigned("g", "m") == member.assigned
    assert own.epoch("g") == member.epoch
    assert own.assigned("g", "other") == frozenset()
    assert own.epoch("h") is None


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"group_id": ""}, "GroupId"),
        ({"member_id": ""}, "MemberId"),
        ({"rack_id": ""}, "RackId"),
        ({"member_epoch": -2}, "MemberEpoch is -2"),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames"),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames"),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(
    control: Control, said: dict[str, Any], word: str
) -> None:
    answer = Member(control).beat(said.pop("member_epoch", JOINING), **said)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert word in answer.error_message


@pytest.mark.parametrize("epoch", [1, LEAVING])
def test_a_group_is_made_only_by_joining(control: Control, epoch: int) -> None:
    answer = Member(control).beat(epoch)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups(control) == {}


def test_a_member_of_a_topic_that_does_not_exist_yet_waits_for_it(control: Control) -> None:
    member = Member(control, "m", "g", "u")
    assert member.beat().assignment.topic_partitions == []
    control.create("u", 1)
    member.beat()
    assert member.assigned == {(topic_id(control, "u"), 0)}
    rows = [CreatePartitionsRequest.CreatePartitionsTopic("u", 3, None)]
    control.ask(CreatePartitionsRequest(rows, 1000, False), 3)
    member.beat()
    assert member.assigned == {(topic_id(control, "u"), each) for each in range(3)}


def test_the_pace_of_a_group_is_its_own(control: Control) -> None:
    change = IncrementalAlterConfigsRequest.AlterableConfig
    rows = [
        change("share.heartbeat.interval.ms", 0, "1500"),
        change("share.session.timeout.ms", 0, "6000"),
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP, "g", rows)
    assert control.ask(IncrementalAlterConfigsRequest([resource]), 1).responses[0].error_code == 0
    assert Member(control).beat().heartbeat_interval_ms == 1500
    assert Member(control, group="h").beat().heartbeat_interval_ms == 5000
    due_ms = control.broker.groups.table.groups["g"].due_ms
    assert 0 < due_ms - time.monotonic_ns() // 1_000_000 <= 6000


def test_a_member_that_times_out_loses_what_it_had(control: Control) -> None:
    member, reader = Member(control), ShareClient(control, "m")
    alter(control, p0=0)
    member.beat()
    write_many(control, 3)
    assert reader.acquire() == [(0, 2, 1)]
    group = control.broker.groups.table.groups["g"]

    async def ring() -> None:
        group.tick(group.due_ms)

    control.run(ring())
    (row,) = describe(control, "g")
    assert (row.group_state, row.members) == ("Empty", [])
    other, heir = Member(control, "n"), ShareClient(control, "n", connection=2)
    other.beat()
    assert heir.acquire() == [(0, 2, 2)], "given out a second time"


def test_who_leaves_may_still_say_what_became_of_its_records(control: Control) -> None:
    member, reader = Member(control), ShareClient(control, "m")
    alter(control, p0=0)
    member.beat()
    write_many(control, 3)
    assert reader.acquire() == [(0, 2, 1)]
    member.beat(LEAVING)
    assert reader.acknowledge((0, 2, [ACCEPT])) == 0
    assert offsets(control, t=[0]) == {("t", 0): (3, 0)}


# Another kind of group of the same name


def test_a_name_belongs_to_one_kind_of_group(control: Control) -> None:
    Member(control).beat()
    classic = GroupClient(control, "g")
    assert classic.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.commit(1) == [ErrorCode.GROUP_ID_NOT_FOUND]
    asked = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="c", member_epoch=0, rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"], topic_partitions=[],
    )
    assert control.ask(asked, 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (row,) = control.ask(DescribeGroupsRequest(["g"]), 6).groups
    assert (row.error_code, row.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    GroupClient(control, "c").enter()
    assert Member(control, group="c").beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (row,) = describe(control, "c")
    assert (row.error_code, row.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group c is not a share group.")
    (row,) = describe(control, "nobody")
    assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND


# Offsets


def test_offsets_and_what_is_left_are_described(control: Control) -> None:
    member, reader = Member(control), ShareClient(control, "m")
    write_many(control, 10)
    assert offsets(control, t=[0], nothing=[3]) == {("t", 0): (-1, -1), ("nothing", 3): (-1, -1)}
    assert offsets(control) == {}
    alter(control, p0=0)
    member.beat()
    assert offsets(control) == {("t", 0): (0, 10), ("t", 1): (-1, -1)}
    reader.fetch(0)
    reader.acknowledge((0, 3, [ACCEPT]), (6, 7, [ACCEPT]))
    assert offsets(control, t=[0]) == {("t", 0): (4, 4)}


def test_an_administrator_says_where_to_begin(control: Control) -> None:
    write_many(control, 10)
    answer = alter(control, p0=7, p1=0, p5=1)
    rows = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
    assert rows == {0: 0, 1: 0, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert answer.responses[0].topic_id == topic_id(control)
    assert groups(control) == {"g": ("share", "share", "Empty")}
    assert offsets(control) == {("t", 0): (7, 3), ("t", 1): (0, 0)}
    member, reader = Member(control), ShareClient(control, "m")
    member.beat()
    assert reader.acquire() == [(7, 9, 1)]
    assert alter(control, p0=0).error_code == ErrorCode.NON_EMPTY_GROUP
    member.beat(LEAVING)
    assert alter(control, p0=2).error_code == 0
    assert offsets(control, t=[0]) == {("t", 0): (2, 8)}
    member.epoch = JOINING
    member.beat()
    reader.epoch = 0
    assert reader.acquire() == [(2, 9, 1)]


def test_an_offset_that_cannot_be_is_refused(control: Control) -> None:
    (row,) = alter(control, p0=-1).responses[0].partitions
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert "got offset -1" in row.error_message
    assert alter(control, "", p0=0).error_code == ErrorCode.INVALID_GROUP_ID
    (row,) = alter(control, topic="u", p0=0).responses[0].partitions
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert groups(control) == {}


def test_offsets_of_a_topic_are_deleted(control: Control) -> None:
    control.create("u", 1)
    alter(control, p0=3, p1=4)
    alter(control, topic="u", p0=5)
    answer = delete_offsets(control, "t", "nothing")
    assert [each.error_code for each in answer.responses] == [
        0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert answer.responses[0].topic_id == topic_id(control)
    assert offsets(control) == {("u", 0): (5, 0)}
    (again,) = delete_offsets(control, "t").responses
    assert "has no place in topic t" in again.error_message
    assert delete_offsets(control, "t", group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert delete_offsets(control, "t", group="h").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    member = Member(control)
    member.beat()
    assert delete_offsets(control, "u").error_code == ErrorCode.NON_EMPTY_GROUP
    assert offsets(control, t=[0, 1]) == {("t", 0): (-1, -1), ("t", 1): (-1, -1)}


def test_a_deleted_topic_takes_its_offsets_along(control: Control) -> None:
    control.create("u", 1)
    alter(control, p0=3)
    alter(control, topic="u", p0=5)
    row = DeleteTopicsRequest.DeleteTopicState("u", UUID(int=0))
    control.ask(DeleteTopicsRequest([row], [], 1000), 6)
    assert offsets(control) == {("t", 0): (3, 0)}
    group = control.broker.share_groups.get("g")
    assert group.shared.topics == {topic_id(control)}


def test_a_share_group_of_which_nobody_ever_read_is_forgotten(tmp_path: Path) -> None:
    """Not one that has read, or is told where to begin; nor any with members, or after a start
    whose states are not known."""
    control = Control(tmp_path)
    control.create("t", 2)
    write_many(control, 2)
    member = Member(control, "m", "reads")
    member.beat()
    reader = ShareClient(control, "m", "reads")
    reader.fetch(0)
    reader.fetch(0)
    member.beat(LEAVING)
    alter(control, "told", p0=1)
    for name in ("idle", "gone"):
        idle = Member(control, "m", name)
        idle.beat()
    idle.beat(LEAVING)
    expire(control)
    assert set(groups(control)) == {"reads", "told", "idle"}
    control = restarted(control, tmp_path, is_killed=True)
    expire(control)
    assert set(groups(control)) == {"reads", "told", "idle"}
    control.close()


def expire(control: Control) -> None:
    async def run() -> None:
        control.broker.groups.expiry.expire(1 << 50)
        await control.broker.share_groups.settled()

    control.run(run())
    control.run(control._settle())


def test_a_group_that_is_being_changed_keeps_no_other_from_its_expiry(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("busy", "idle"):
        Member(control, group=name).beat()
        Member(control, group=name).beat(LEAVING)
    control.run(control._settle())
    states, groups = control.broker.share_partitions.states, control.broker.share_groups

    async def run() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def slow(*asked: Any) -> None:
            begun.set()
            await may_end.wait()

        monkeypatch.setattr(states, "set_start_offset", slow)
        changing = asyncio.create_task(groups.alter_offsets("busy", {(topic_id(control), 0): 3}))
        await begun.wait()
        await control.broker.groups.table.topic.all_settled()
        control.broker.groups.expiry.expire(0)
        may_end.set()
        await changing
        await groups.settled()

    control.run(run())
    assert list(control.broker.groups.table.groups) == ["busy"]


def test_the_lag_of_a_share_group_counts_from_its_start(control: Control) -> None:
    write_many(control, 10)
    alter(control, p0=7)
    Member(control).beat()
    found = control.run(control.broker.lag.of_group("g"))
    assert (found.protocol, found.records) == ("share", 3)
    assert [(each.topic, each.partition, each.committed, each.records)
            for each in found.partitions] == [("t", 0, 7, 3), ("t", 1, None, 0)]  # fmt: skip
    control.run(control.broker.lag.round())
    assert [each.group for each in control.broker.lag.snapshot().groups] == ["g"]


# The end of groups, and of brokers


def test_a_group_is_deleted_with_all_its_states(control: Control) -> None:
    member = Member(control)
    member.beat()
    assert delete(control, "g", "nobody") == [
        ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    member.beat(LEAVING)
    assert delete(control, "g") == [0]
    assert groups(control) == {}
    own = control.broker.share_partitions.states
    assert own.start_offset("g", topic_id(control), 0) is None
    member.epoch = JOINING
    assert member.beat().error_code == 0


def test_what_cannot_be_deleted_stays_and_may_be_tried_again(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(control, p0=3, p1=4)
    own = control.broker.share_partitions.states
    whole = own.delete

    async def broken(group: str, topic: UUID, partition: int) -> None:
        if partition == 1:
            raise LogFailed("the disk is gone")
        await whole(group, topic, partition)

    monkeypatch.setattr(own, "delete", broken)
    assert delete(control, "g") == [LogFailed.kafka_code]
    assert groups(control) == {"g": ("share", "share", "Empty")}
    monkeypatch.undo()
    assert delete(control, "g") == [0]
    assert own.start_offset("g", topic_id(control), 1) is None


@pytest.mark.parametrize("is_killed", [True, False])
def test_share_groups_come_back(tmp_path: Path, is_killed: bool) -> None:
    control = Control(tmp_path)
    control.create("t", 2)
    member = Member(control)
    alter(control, "h", p0=5)
    alter(control, "x", p0=6)
    member.beat()
    assert delete(control, "x") == [0]
    before = describe(control, "g", "h")
    control = restarted(control, tmp_path, is_killed)
    assert describe(control, "g", "h") == before
    assert offsets(control, "h") == {("t", 0): (5, 0)}
    assert groups(control) == {
        "g": ("share", "share", "Stable"), "h": ("share", "share", "Empty")}
    member.control = control
    answer = member.beat()
    assert (answer.error_code, answer.assignment) == (0, None)
    member.beat(LEAVING)
    assert delete(control, "g", "h") == [0, 0]
    control.close()


def test_a_deletion_that_a_crash_interrupted_goes_on_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control(tmp_path)
    control.create("t", 2)
    alter(control, p0=3, p1=4)

    async def never(group: str, topic: UUID, partition: int) -> None:
        raise LogFailed("cut short")

    monkeypatch.setattr(control.broker.share_partitions.states, "delete", never)
    assert delete_offsets(control, "t").responses[0].error_code == LogFailed.kafka_code
    monkeypatch.undo()
    control = restarted(control, tmp_path)
    own = control.broker.share_partitions.states
    control.run(control.broker.share_groups.settled())
    assert own.start_offset("g", topic_id(control), 1) is None
    assert control.broker.share_groups.get("g").shared.topics == frozenset()
    control.close()


def test_no_state_is_kept_of_what_nobody_reads(control: Control) -> None:
    GroupClient(control, "c").enter()
    assert SHARE_STATE not in control.broker.topics
    Member(control).beat()
    assert SHARE_STATE in control.broker.topics
