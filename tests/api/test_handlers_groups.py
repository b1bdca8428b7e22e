"""Groups and offsets as clients see them, over every version: from request to answer."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.config import GroupsConfig
from appliance.groups.offsets_topic_replay import ReplayedGroups, replay
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.heartbeat import HeartbeatRequest
from appliance.protocol.messages.join_group import JoinGroupRequest
from appliance.protocol.messages.leave_group import LeaveGroupRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed, fetch_offsets, subscription

NOT_ASKED = -(1 << 31)
SHARE_KEY = f"g:{'A' * 22}:0"


# FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_this_broker_is_every_coordinator(control: Control, version: int) -> None:
    kinds = {0: "g", 1: "tx", 2: SHARE_KEY}
    for kind in range(1 if version == 0 else 2 if version < 6 else 3):
        asked = FindCoordinatorRequest(key_type=kind)
        asked.key, asked.coordinator_keys = kinds[kind], [kinds[kind]] * 2
        answer = control.ask(asked, version)
        rows = answer.coordinators if version >= 4 else [answer]
        assert len(rows) == (2 if version >= 4 else 1)
        told = control.broker.advertised
        for each in rows:
            assert (each.error_code, each.node_id, each.host, each.port) == (
                0,
                1,
                told.host,
                told.port,
            )
            assert version < 4 or each.key == kinds[kind]
            assert version == 0 or each.error_message == ("" if version >= 4 else None)


@pytest.mark.parametrize(
    ("kind", "key", "version"), [(3, "x", 6), (-1, "x", 1), (2, SHARE_KEY, 5), (2, "g:t:0", 6)]
)
def test_a_key_that_nobody_looks_after(control: Control, kind: int, key: str, version: int) -> None:
    asked = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    answer = control.ask(asked, version)
    (row,) = answer.coordinators if version >= 4 else [answer]
    assert (row.error_code, row.node_id, row.host, row.port) == (42, -1, "", -1)


# Membership


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_alone(control: Control, version: int) -> None:
    one = GroupClient(control)
    answer = one.join(version)
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert answer.leader == answer.member_id == one.id
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    (row,) = answer.members
    assert (row.member_id, row.metadata) == (one.id, subscription("t"))
    assert not answer.skip_assignment


@pytest.mark.parametrize("version", range(10))
def test_a_new_member_is_told_its_id_first_from_version_4_on(
    control: Control, version: int
) -> None:
    one = GroupClient(control)
    answer = control.answer(one.send_join(version))
    assert answer.error_code == (79 if version >= 4 else 0)
    assert answer.member_id.startswith("test-")
    if version >= 4:
        assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
        assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_joins_at_once(control: Control, version: int) -> None:
    answer = control.answer(GroupClient(control, instance="i").send_join(version))
    assert answer.error_code == 0
    assert answer.members[0].group_instance_id == "i"
    assert answer.member_id.startswith("i-")


@pytest.mark.parametrize("version", range(6))
def test_members_get_what_the_leader_assigned(control: Control, version: int) -> None:
    one, two = GroupClient(control), GroupClient(control)
    one.enter()
    sent = two.send_join(3)
    assert not control.is_answered(sent)
    assert one.heartbeat() == 27
    one.join()
    two.joined(sent)
    assert (one.generation, two.generation) == (2, 2)
    assert (one.is_leader, two.is_leader) == (True, False)
    waiting = two.send_sync(version)
    assert not control.is_answered(waiting)
    mine = one.sync(version, **{one.id: b"mine", two.id: b"yours"})
    yours = control.answer(waiting)
    assert (mine.error_code, mine.assignment) == (0, b"mine")
    assert (yours.error_code, yours.assignment) == (0, b"yours")
    assert mine.protocol_type == ("consumer" if version >= 5 else None)
    assert mine.protocol_name == ("range" if version >= 5 else None)
    assert (one.heartbeat(), two.heartbeat()) == (0, 0)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats(control: Control, version: int) -> None:
    one = GroupClient(control)
    assert one.heartbeat(version) == 25  # there is no such group
    one.enter()
    assert one.heartbeat(version) == 0
    one.generation += 1
    assert one.heartbeat(version) == 22
    one.id = "else"
    assert one.heartbeat(version) == 25
    one.group = ""
    assert one.heartbeat(version) == 24


@pytest.mark.parametrize("version", range(6))
def test_leaving(control: Control, version: int) -> None:
    one = GroupClient(control)
    one.enter()
    answer = one.leave(version)
    assert answer.error_code == 0
    if version >= 3:
        assert [(each.member_id, each.error_code) for each in answer.members] == [(one.id, 0)]
    again = one.leave(version)
    code = again.members[0].error_code if version >= 3 else again.error_code
    assert code == 25
    assert state_of(control, "g") == "Empty"


@pytest.mark.parametrize("version", range(3, 6))
def test_an_administrator_removes_static_members(control: Control, version: int) -> None:
    one = GroupClient(control, instance="i")
    one.enter()
    identity = LeaveGroupRequest.MemberIdentity
    rows = [identity("", "i"), identity("", "nobody"), identity("x", None)]
    answer = control.ask(LeaveGroupRequest(group_id="g", members=rows), version)
    assert [each.error_code for each in answer.members] == [0, 25, 25]
    assert answer.members[0].group_instance_id == "i"


def test_leaving_a_group_that_has_no_name(control: Control) -> None:
    identity = LeaveGroupRequest.MemberIdentity("x")
    assert control.ask(LeaveGroupRequest(group_id="", members=[identity]), 5).error_code == 24


@pytest.mark.parametrize("timeout_ms", [0, 5_999, 1_800_001, -1])
def test_session_timeouts_have_limits(control: Control, timeout_ms: int) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    asked = JoinGroupRequest("g", timeout_ms, 1, "", None, "consumer", [protocol])
    assert control.ask(asked, 9).error_code == 26


def test_a_member_that_nobody_knows_cannot_join(control: Control) -> None:
    one = GroupClient(control)
    one.id = "made up"
    answer = one.join()
    assert (answer.error_code, answer.member_id) == (25, "made up")
    GroupClient(control).enter()
    assert one.join().error_code == 25


def test_protocols_must_have_one_in_common(control: Control) -> None:
    GroupClient(control).enter()
    assert GroupClient(control, protocols={"other": b""}).join(3).error_code == 23
    assert GroupClient(control, protocol_type="connect").join(3).error_code == 23
    assert GroupClient(control, "h", protocol_type="").join(3).error_code == 23


def test_metadata_is_never_read_for_joining(control: Control) -> None:
    one = GroupClient(control, protocol_type="connect", protocols={"compatible": b"\xff\0"})
    assert one.join().members[0].metadata == b"\xff\0"
    assert one.sync(**{one.id: b"\x01"}).assignment == b"\x01"


def test_a_group_may_be_full(tmp_path: Path) -> None:
    groups = GroupsConfig(initial_rebalance_delay_ms=0, max_size=1)
    control = Control(tmp_path, groups=groups)
    GroupClient(control).enter()
    assert GroupClient(control).join().error_code == 81
    assert GroupClient(control, instance="i").join().error_code == 81
    control.close()


def test_joins_that_wait_keep_nobody_out(tmp_path: Path) -> None:
    """More of them than may be in work at a time."""
    control = Control(tmp_path, requests_max=3)
    first = GroupClient(control)
    first.enter()
    others = [GroupClient(control) for _ in range(20)]
    waiting = [each.send_join(3) for each in others]
    assert not any(control.is_answered(each) for each in waiting)
    assert len(control.ask(MetadataRequest(topics=[]), 9).brokers) == 1
    assert first.join().error_code == 0
    assert [
        each.joined(sent).generation_id for each, sent in zip(others, waiting, strict=True)
    ] == ([2] * 20)
    control.close()


def test_who_waits_is_answered_when_the_broker_stops(control: Control) -> None:
    first, second = GroupClient(control), GroupClient(control)
    first.enter()
    sent = second.send_join(3)
    assert not control.is_answered(sent)
    control.dispatcher.stop_waiting()
    assert control.answer(sent).error_code == 15
    assert first.heartbeat() == 15


# OffsetCommit, OffsetFetch


@pytest.mark.parametrize("version", range(2, 11))
def test_what_was_committed_comes_back(control: Control, version: int) -> None:
    control.create("t", 3)
    one = GroupClient(control)
    one.enter()
    assert one.commit(10, 20, version=version, metadata="words") == [0, 0]
    for fetch in range(1, 11):
        answer = fetch_offsets(control, "g", {"t": [0, 1, 2]}, fetch)
        (topic,) = answer.topics
        rows = [(each.committed_offset, each.metadata) for each in topic.partitions]
        assert rows == [(10, "words"), (20, "words"), (-1, "")]
        assert [each.error_code for each in topic.partitions] == [0, 0, 0]
        assert {each.committed_leader_epoch for each in topic.partitions} == {-1}
        if fetch >= 2:
            assert answer.error_code == 0


@pytest.mark.parametrize("version", range(2, 11))
def test_null_topics_mean_all(control: Control, version: int) -> None:
    topic = control.create("t", 2)
    control.create("u")
    one = GroupClient(control)
    assert one.commit(1, 2) == [0, 0]
    assert one.commit(3, topic="u") == [0]
    answer = fetch_offsets(control, "g", None, version)
    found = {
        (each.topic_id if version >= 10 else each.name): len(each.partitions)
        for each in answer.topics
    }
    names = {"t": 2, "u": 1} if version < 10 else {topic.id: 2, control.broker.topics["u"].id: 1}
    assert found == names
    assert fetch_offsets(control, "nobody", None, version).topics == []


def test_several_groups_at_once(control: Control) -> None:
    control.create("t")
    for number, name in enumerate("abc"):
        GroupClient(control, name).commit(number)
    rows = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name) for name in "abcd"]
    for each in rows:
        each.topics = [OffsetFetchRequest.OffsetFetchRequestTopics("t", partition_indexes=[0])]
    answer = control.ask(OffsetFetchRequest(groups=rows), 9)
    assert [each.group_id for each in answer.groups] == ["a", "b", "c", "d"]
    offsets = [each.topics[0].partitions[0].committed_offset for each in answer.groups]
    assert offsets == [0, 1, 2, -1]


def test_a_leader_epoch_is_kept(control: Control) -> None:
    control.create("t")
    row = OffsetCommitRequest.OffsetCommitRequestPartition(0, 5, 7, None)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[row])
    asked = OffsetCommitRequest("g", -1, "", topics=[topic])
    assert control.ask(asked, 8).topics[0].partitions[0].error_code == 0
    (found,) = fetch_offsets(control, "g", {"t": [0]}).topics[0].partitions
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (5, 7, "")


@pytest.mark.parametrize("version", range(2, 11))
def test_only_topics_that_exist_can_be_committed(control: Control, version: int) -> None:
    control.create("t")
    one = GroupClient(control)
    assert one.commit(1, 2, version=version) == [0, 3]
    assert one.commit(1, topic="nowhere", version=version) == [100 if version >= 10 else 3]
    assert committed(control) == {("t", 0): 1}


def test_metadata_has_a_limit(control: Control) -> None:
    control.create("t")
    one = GroupClient(control)
    assert one.commit(1, metadata="x" * 4096) == [0]
    assert one.commit(2, metadata="x" * 4097) == [12]
    assert one.commit(3, metadata="\N{EURO SIGN}" * 1366) == [12]
    assert committed(control) == {("t", 0): 1}


def test_who_may_commit(control: Control) -> None:
    control.create("t")
    one, nobody = GroupClient(control), GroupClient(control)
    nobody.generation = 1
    assert nobody.commit(1) == [22]  # a generation of no group
    nobody.generation = -1
    assert nobody.commit(1) == [0]  # an administrator, while there is no member
    one.join()
    assert one.commit(2) == [27]  # before it knows its partitions
    assert one.sync(**{one.id: b"all"}).error_code == 0
    assert one.commit(2) == [0]
    assert nobody.commit(3) == [25]
    one.generation += 1
    assert one.commit(3) == [22]
    assert committed(control) == {("t", 0): 2}


def test_a_topic_without_id_is_unknown_by_id(control: Control) -> None:
    unknown = uuid.uuid4()
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=unknown, partition_indexes=[3])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    (answer,) = control.ask(OffsetFetchRequest(groups=[group]), 10).groups
    (row,) = answer.topics
    assert row.topic_id == unknown
    assert [(each.partition_index, each.error_code) for each in row.partitions] == [(3, 100)]


def test_the_topic_of_offsets_is_made_on_first_use(control: Control) -> None:
    control.create("t")
    assert "__consumer_offsets" not in control.broker.topics
    GroupClient(control).commit(1)
    row = MetadataRequest.MetadataRequestTopic(name="__consumer_offsets")
    (topic,) = control.ask(MetadataRequest(topics=[row]), 12).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 1)
    configs = control.broker.topics["__consumer_offsets"].configs
    assert configs["cleanup.policy"] == "compact"
    assert configs["segment.bytes"] == str(8 << 20)


# OffsetDelete, DeleteGroups


def delete_offsets(control: Control, group: str, *topics: str) -> tuple[int, list[int]]:
    """The error of the whole, and of partition 0 of each topic."""
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition
    rows = [OffsetDeleteRequest.OffsetDeleteRequestTopic(each, [part(0)]) for each in topics]
    answer = control.ask(OffsetDeleteRequest(group, rows), 0)
    return answer.error_code, [each.partitions[0].error_code for each in answer.topics]


def test_offsets_are_deleted(control: Control) -> None:
    for name in ("t", "u"):
        control.create(name)
    one = GroupClient(control)
    assert delete_offsets(control, "g", "t") == (69, [])
    one.enter()
    assert (one.commit(1), one.commit(2, topic="u")) == ([0], [0])
    assert delete_offsets(control, "g", "t", "u", "v") == (0, [86, 0, 3])
    assert committed(control) == {("t", 0): 1}
    one.leave()
    assert delete_offsets(control, "g", "t") == (0, [0])
    assert committed(control) == {}


def test_offsets_of_members_that_do_not_tell_what_they_read_stay(control: Control) -> None:
    control.create("t")
    one = GroupClient(control, protocol_type="connect", protocols={"p": b"\xff"})
    one.enter()
    assert one.commit(1) == [0]
    assert delete_offsets(control, "g", "t") == (68, [])


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(control: Control, version: int) -> None:
    control.create("t")
    one = GroupClient(control)
    one.enter()
    one.commit(1)
    GroupClient(control, "h").commit(2)
    answer = control.ask(DeleteGroupsRequest(["g", "h", "nobody"]), version)
    rows = [(each.group_id, each.error_code) for each in answer.results]
    assert rows == [("g", 68), ("h", 0), ("nobody", 69)]
    assert committed(control, "h") == {}
    assert committed(control, "g") == {("t", 0): 1}
    assert listed(control) == [("g", "consumer", "Stable", "classic")]
    assert control.ask(DeleteGroupsRequest([]), version).results == []


# ListGroups, DescribeGroups


def listed(control: Control, version: int = 5, **filters: list[str]) -> list[tuple[str, ...]]:
    answer = control.ask(ListGroupsRequest(**filters), version)
    return sorted(
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in answer.groups
    )


def state_of(control: Control, group: str) -> str:
    (state,) = [row[2] for row in listed(control) if row[0] == group]
    return state


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(control: Control, version: int) -> None:
    control.create("t")
    assert listed(control, version) == []
    GroupClient(control).enter()
    GroupClient(control, "simple").commit(1)
    state = ("Stable", "Empty") if version >= 4 else ("", "")
    kind = "classic" if version >= 5 else ""
    assert listed(control, version) == [
        ("g", "consumer", state[0], kind),
        ("simple", "", state[1], kind),
    ]


def test_groups_are_filtered(control: Control) -> None:
    control.create("t")
    GroupClient(control).enter()
    GroupClient(control, "simple").commit(1)

    def names(**filters: list[str]) -> list[str]:
        return [row[0] for row in listed(control, **filters)]

    assert names(states_filter=["sTABLE"]) == ["g"]
    assert names(states_filter=["Empty", "PreparingRebalance"]) == ["simple"]
    assert names(states_filter=["nonsense"]) == []
    assert names(types_filter=["Classic", "Consumer"]) == ["g", "simple"]
    assert names(types_filter=["consumer"]) == []


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described(control: Control, version: int) -> None:
    one = GroupClient(control, instance="i")
    one.enter()
    (row,) = control.ask(DescribeGroupsRequest(["g"]), version).groups
    assert (row.error_code, row.group_id, row.group_state) == (0, "g", "Stable")
    assert (row.protocol_type, row.protocol_data) == ("consumer", "range")
    assert row.authorized_operations == NOT_ASKED
    (member,) = row.members
    assert (member.member_id, member.client_id, member.client_host) == (
        one.id,
        "test",
        "/127.0.0.1",
    )
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"all")
    (dead,) = control.ask(DescribeGroupsRequest(["nobody"]), version).groups
    assert (dead.error_code, dead.group_state) == (69 if version >= 6 else 0, "Dead")
    if version >= 3:
        (row,) = control.ask(DescribeGroupsRequest(["g"], True), version).groups
        assert row.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def test_what_members_read_is_told_of_a_stable_group_only(control: Control) -> None:
    one = GroupClient(control)
    one.join()
    (row,) = control.ask(DescribeGroupsRequest(["g"]), 6).groups
    assert (row.group_state, row.protocol_data) == ("CompletingRebalance", "")
    assert (row.members[0].member_metadata, row.members[0].member_assignment) == (b"", b"")


# A start


def test_until_offsets_are_read_clients_are_told_to_ask_again(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.create("t")
    one = GroupClient(control)
    one.enter()
    one.commit(1)
    groups = control.broker.groups
    may_read = threading.Event()

    def replay_later(logs: Iterable[Log]) -> ReplayedGroups:
        assert may_read.wait(20)
        return replay(logs)

    monkeypatch.setattr("appliance.groups.offsets_topic_loading.replay", replay_later)

    async def start_again() -> None:
        groups.start()

    control.run(start_again())
    sent = [
        control.send(HeartbeatRequest("g", 1, one.id), 4),
        one.send_join(),
        one.send_sync(),
        control.send(ListGroupsRequest(), 5),
        control.send(LeaveGroupRequest("g", members=[LeaveGroupRequest.MemberIdentity("x")]), 5),
    ]
    described = control.send(DescribeGroupsRequest(["g"]), 6)
    deleted = control.send(DeleteGroupsRequest(["g"]), 2)
    commit = one.send_commit(2)
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g")
    fetched = control.send(OffsetFetchRequest(groups=[group]), 9)
    old = control.send(OffsetFetchRequest(group_id="g", topics=[]), 7)
    assert [control.answer(each).error_code for each in sent] == [14] * 5
    assert control.answer(described).groups[0].error_code == 14
    assert control.answer(deleted).results[0].error_code == 14
    assert control.answer(commit).topics[0].partitions[0].error_code == 14
    assert control.answer(fetched).groups[0].error_code == 14
    assert control.answer(old).error_code == 14
    may_read.set()
    control.run(groups.loading.loaded())
    assert committed(control) == {("t", 0): 1}
    assert one.heartbeat() == 0
