"""Groups of Kafka Streams as clients see them: from request to answer, over restarts too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.config import StreamsGroupsConfig
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed
from tests.support.streams_group_client import (
    Member,
    Request,
    counting,
    described,
    internal,
    reading,
    statuses,
)

MISSING_SOURCE, MISSING_INTERNAL, DELAYED = 1, 3, 5


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


def settled(control: Control) -> None:
    control.run(control.broker.streams_topics.settled())


def counting_member(control: Control, name: str = "one", **facts: Any) -> Member:
    """Its topics are made."""
    member = Member(control, name, counting(), **facts)
    member.beat()
    settled(control)
    member.beat()
    return member


def listed(control: Control, **asked: Any) -> list[tuple[str, str, str, str]]:
    answer = control.ask(ListGroupsRequest(**asked), 5)
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups]  # fmt: skip


def test_a_member_joins_gets_its_tasks_and_leaves(control: Control) -> None:
    one = Member(control, topology=counting())
    answer = one.beat()
    assert statuses(answer) == {MISSING_INTERNAL: "Internal topics are missing: g-counts, g-words"}
    assert one.tasks["active_tasks"] == {}
    settled(control)
    answer = one.beat()
    assert statuses(answer) == {}
    assert one.tasks["active_tasks"] == {"0": [0, 1], "1": [0, 1]}
    assert answer.heartbeat_interval_ms == 5000
    assert one.beat().active_tasks is None
    counts = control.broker.topics["g-counts"]
    assert (len(counts.logs), counts.configs["cleanup.policy"]) == (2, "compact")
    answer = one.send(-1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert one.send(one.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_missing_source_topics_are_told_until_they_are_there(control: Control) -> None:
    one = Member(control, topology=reading("t", "u"))
    assert statuses(one.beat()) == {MISSING_SOURCE: "Source topics u are missing."}
    control.create("u", 3)
    assert statuses(one.beat()) == {}
    assert one.tasks["active_tasks"] == {"0": [0, 1, 2]}


def test_why_internal_topics_cannot_be_made_is_told_with_the_next_heartbeat(
    control: Control,
) -> None:
    topology = counting()
    topology.subtopologies[1].state_changelog_topics = [internal("g-counts", factor=3)]
    one = Member(control, topology=topology)
    one.beat()
    settled(control)
    told = statuses(one.beat())[MISSING_INTERNAL]
    assert "g-counts; Creation failed: g-counts: got replication factor 3" in told
    assert "g-words" not in told, "that one was made"


@pytest.mark.parametrize(("facts", "text"), [
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"instance_id": "i"}, "Static membership is not yet supported."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"topology": None}, "Topology must be non-null when (re-)joining."),
    ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
    ({"active_tasks": [Request.TaskIds("0", [0])]},
     "ActiveTasks must be empty when (re-)joining."),
    ({"warmup_tasks": [Request.TaskIds("0", [0])]}, "WarmupTasks are not supported yet."),
    ({"task_offsets": []}, "TaskOffsets are not supported yet."),
    ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
    ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
    ({"member_epoch": 1, "topology": None, "standby_tasks": None},
     "If one task-type is non-null, all must be non-null."),
    ({"topology": Request.Topology(0, [Request.Subtopology("0", [], ["a.*"])])},
     "Regular expressions for source topics are not supported yet."),
])
def test_what_cannot_be_asked_is_refused_in_kafkas_words(
    control: Control, facts: dict[str, Any], text: str
) -> None:
    answer = Member(control).send(0, **facts)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, text)
    assert control.broker.groups.table.groups == {}


@pytest.mark.parametrize(("topology", "text"), [
    (reading("__consumer_offsets"), "Use of Kafka internal topics __consumer_offsets in a Kafka "
     "Streams topology is prohibited."),
    (reading("a b"), "Topic names a b are not valid topic names."),
    (Request.Topology(0, [Request.Subtopology("0", ["t"],
     copartition_groups=[Request.CopartitionGroup([-1], [], [])])]), "a copartition group"),
    (Request.Topology(-1, [Request.Subtopology("0", ["t"])]), "must be non-negative"),
    (Request.Topology(0, []), "must have subtopologies"),
])
def test_a_topology_that_cannot_be_is_refused(
    control: Control, topology: Any, text: str
) -> None:
    answer = Member(control, topology=topology).send(0)
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert text in answer.error_message
    assert control.broker.groups.table.groups == {}


def test_a_topology_as_large_as_no_member_may_be_is_refused(control: Control) -> None:
    topology = reading(*(f"{'t' * 200}{n}" for n in range(5000)))
    answer = Member(control, topology=topology).send(0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "group.member.max.bytes" in answer.error_message


def test_more_tasks_than_there_may_be_are_nobodys(control: Control) -> None:
    one = Member(control)
    one.beat()
    answer = one.send(active_tasks=[Request.TaskIds("0", [0] * 10_001)])
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "group.streams.max.tasks" in answer.error_message


def test_what_a_group_is_described_as(control: Control) -> None:
    at = Request.Endpoint("here", 65_535)
    one = counting_member(control, user_endpoint=at, client_tags=[Request.KeyValue("zone", "a")])
    told = described(control)
    assert (told.error_code, told.group_state, told.group_epoch, told.assignment_epoch) == (
        0, "Stable", one.epoch, one.epoch)
    assert told.authorized_operations > 0
    first, second = told.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["t"], ["g-words"])
    assert [(each.name, each.partitions) for each in second.state_changelog_topics] == [
        ("g-counts", 2)]
    (member,) = told.members
    assert (member.member_id, member.process_id, member.topology_epoch) == ("one", "process-one", 0)
    assert (member.user_endpoint.host, member.user_endpoint.port) == ("here", 65_535)
    assert [(each.key, each.value) for each in member.client_tags] == [("zone", "a")]
    assert {e.subtopology_id: e.partitions for e in member.assignment.active_tasks} == {
        "0": [0, 1], "1": [0, 1]}
    assert member.target_assignment == member.assignment
    assert described(control, "other").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_applications_find_each_others_state(control: Control) -> None:
    one = counting_member(control, user_endpoint=Request.Endpoint("here", 1))
    answer = one.beat(endpoint_information_epoch=-1)
    (row,) = answer.partitions_by_user_endpoint
    assert {each.topic: each.partitions for each in row.active_partitions} == {
        "g-words": [0, 1], "t": [0, 1]}
    known = answer.endpoint_information_epoch
    assert one.beat(endpoint_information_epoch=known).partitions_by_user_endpoint is None


def test_other_tools_see_its_kind(control: Control) -> None:
    counting_member(control)
    row = ("g", "streams", "Stable", "streams")
    assert listed(control) == [row]
    assert listed(control, types_filter=["Streams"], states_filter=["stable"]) == [row]
    assert listed(control, types_filter=["consumer"]) == []
    (answer,) = control.ask(DescribeGroupsRequest(["g"]), 6).groups
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")


def commit(control: Control, member: str, epoch: int, version: int = 9) -> int:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, -1, "")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[part])
    answer = control.ask(OffsetCommitRequest("g", epoch, member, None, -1, [topic]), version)
    return int(answer.topics[0].partitions[0].error_code)


def test_offsets_are_a_members_by_its_epoch(control: Control) -> None:
    one = counting_member(control)
    assert commit(control, "one", one.epoch) == 0
    assert committed(control)["t", 0] == 7
    assert commit(control, "one", one.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(control, "two", one.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(control, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(control, "one", one.epoch, 8) == ErrorCode.UNSUPPORTED_VERSION
    row = OffsetFetchRequest.OffsetFetchRequestGroup
    for member, epoch, code in (("one", one.epoch, 0), ("one", 99, ErrorCode.STALE_MEMBER_EPOCH),
                                ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID), (None, -1, 0)):  # fmt: skip
        (answer,) = control.ask(OffsetFetchRequest(groups=[row("g", member, epoch)]), 9).groups
        assert answer.error_code == code
    deletion = OffsetDeleteRequest("g", [OffsetDeleteRequest.OffsetDeleteRequestTopic(
        "t", [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)])])
    (topic,) = control.ask(deletion, 0).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    one.send(-1)
    assert commit(control, "", -1) == 0, "an administrator resets a group without members"
    (topic,) = control.ask(deletion, 0).topics
    assert topic.partitions[0].error_code == 0


def delete(control: Control) -> int:
    (answer,) = control.ask(DeleteGroupsRequest(["g"]), 2).results
    return int(answer.error_code)


def test_a_group_is_deleted_when_all_have_left(
    control: Control, killed: Callable[..., Control]
) -> None:
    one = counting_member(control)
    assert delete(control) == ErrorCode.NON_EMPTY_GROUP
    one.send(-1)
    assert described(control).group_state == "Empty"
    assert delete(control) == 0
    assert listed(control) == []
    assert listed(killed()) == []


def test_a_group_outlives_its_broker(control: Control, killed: Callable[..., Control]) -> None:
    one = counting_member(control)
    commit(control, "one", one.epoch)
    before = described(control)
    one.control = control = killed()
    assert described(control) == before
    assert one.beat().active_tasks is None
    assert committed(control)["t", 0] == 7


def test_an_application_of_the_classic_protocol_comes_over_with_its_offsets(
    control: Control, killed: Callable[..., Control]
) -> None:
    assert commit(control, "", -1) == 0
    assert listed(control)[0][3] == "classic"
    one = counting_member(control)
    assert listed(control)[0][3] == "streams"
    assert committed(control)["t", 0] == 7
    assert GroupClient(control, "g").join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    one.control = control = killed()
    assert one.beat().error_code == 0
    one.send(-1)
    joined = GroupClient(control, "g")
    joined.join()
    assert listed(control)[0][3] == "classic", "and back, when all have left"
    assert committed(control)["t", 0] == 7


def test_groups_of_other_kinds_are_none_of_streams(control: Control) -> None:
    other = GroupClient(control, "g")
    other.join()
    answer = Member(control).send(0)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == "Group g is not a streams group."
    assert Member(control, group_id="none").send(1, topology=None).error_code == (
        ErrorCode.GROUP_ID_NOT_FOUND)


def test_the_first_member_waits_for_others(tmp_path: Path) -> None:
    delay = StreamsGroupsConfig(initial_rebalance_delay_ms=30_000)
    with closing(Control(tmp_path, streams_groups=delay)) as control:
        control.create("t", 2)
        one = Member(control)
        assert list(statuses(one.beat())) == [DELAYED]
        assert (one.epoch, described(control).group_state) == (1, "Assigning")
        group = control.broker.groups.streams.get("g")

        async def ring() -> None:
            group.tick(group.due_ms)

        control.run(ring())
        assert list(statuses(one.beat())) == []
        assert one.tasks["active_tasks"] == {"0": [0, 1]}
