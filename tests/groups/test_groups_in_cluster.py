"""Coordinators follow their partitions: two brokers, of which one or the other leads."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.admin.api import told_of
from appliance.groups.group import Group
from appliance.groups.states import GroupRefused
from appliance.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from appliance.topics.topic import OFFSETS
from tests.support.consumer_group_client import Member as NewMember
from tests.support.group_client import GroupClient, committed, fetch_offsets
from tests.support.logs import until
from tests.support.streams_group_client import Member as StreamsMember
from tests.support.streams_group_client import described as streams_described
from tests.support.two_brokers import (
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    Member,
    TwoBrokers,
    appended,
    listed,
)

REBALANCE = 27


def join_two(control: Member) -> tuple[GroupClient, GroupClient]:
    """A group of two, Stable."""
    one, two = GroupClient(control), GroupClient(control)
    one.enter()
    sent = two.send_join()
    two.id = control.answer(sent).member_id  # MEMBER_ID_REQUIRED
    first, second = one.send_join(), two.send_join()
    assert one.joined(first).error_code == two.joined(second).error_code == 0
    leader, other = (one, two) if one.is_leader else (two, one)
    parked = other.send_sync()
    assert leader.sync(**{one.id: b"left", two.id: b"right"}).error_code == 0
    assert control.answer(parked).error_code == 0
    return leader, other


# Who is the coordinator


def test_the_leader_of_its_partition_is_a_groups_coordinator(tmp_path: Path) -> None:
    pair = TwoBrokers(tmp_path)
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"])
    found = pair.one.ask(asked, 6).coordinators
    assert [each.error_code for each in found] == [NOT_AVAILABLE] * 2
    assert "has no leader now" in found[0].error_message
    assert OFFSETS in pair.one.broker.topics  # it was made for who asked
    pair.make_offsets_topic()
    pair.elect(pair.one, 0)
    pair.elect(pair.two, 1)
    for each in pair.both:
        found = each.ask(asked, 6).coordinators
        assert [(e.node_id, e.host, e.port) for e in found] == [
            (2, "node2", 9002), (1, "node1", 9001)
        ]  # fmt: skip
        old = each.ask(FindCoordinatorRequest("g", 0), 3)
        assert (old.error_code, old.node_id, old.port) == (0, 2, 9002)
    pair.close()


def code_of_commit(client: GroupClient) -> int:
    (code,) = client.commit(1)
    return code


def code_of_leave(client: GroupClient) -> int:
    return int(client.leave().error_code)


def code_of_txn_commit(client: GroupClient) -> int:
    row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 1, -1, "")
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic("t", [row])
    asked = TxnOffsetCommitRequest("id", "g", 1, 0, topics=[topic])
    return int(client.control.ask(asked, 5).topics[0].partitions[0].error_code)


ASKED: dict[str, Callable[[GroupClient], Any]] = {
    "JoinGroup": lambda client: client.join().error_code,
    "SyncGroup": lambda client: client.sync().error_code,
    "Heartbeat": lambda client: client.heartbeat(),
    "LeaveGroup": code_of_leave,
    "OffsetCommit": code_of_commit,
    "OffsetFetch": lambda client: fetch_offsets(client.control, "g", None).error_code,
    "OffsetFetch 5": lambda client: fetch_offsets(client.control, "g", None, 5).error_code,
    "ConsumerGroupHeartbeat": lambda client: NewMember(client.control).send().error_code,
    "StreamsGroupHeartbeat": lambda client: StreamsMember(client.control).send().error_code,
    "StreamsGroupDescribe": lambda client: streams_described(client.control).error_code,
    "DescribeGroups": lambda client: (
        client.control.ask(DescribeGroupsRequest(["g"]), 6).groups[0].error_code
    ),
    "ConsumerGroupDescribe": lambda client: (
        client.control.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups[0].error_code
    ),
    "DeleteGroups": lambda client: (
        client.control.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code
    ),
    "OffsetDelete": lambda client: client.control.ask(OffsetDeleteRequest("g"), 0).error_code,
    "TxnOffsetCommit": code_of_txn_commit,
}


def test_who_does_not_lead_a_groups_partition_sends_away(pair: TwoBrokers) -> None:
    client = GroupClient(pair.one)
    client.id, client.generation = "somebody", 1
    pair.move(pair.two)
    answers = {name: ask(client) for name, ask in ASKED.items()}
    assert answers == dict.fromkeys(ASKED, NOT_COORDINATOR)
    assert listed(pair.one) == (0, [])
    assert pair.one.broker.groups.availability.fault == ""
    with pytest.raises(GroupRefused, match=f"{OFFSETS}-1, where it stands, is led") as told:
        pair.one.broker.groups.table.get("g")
    assert told_of(told.value)[:2] == (421, "not_coordinator")


def test_a_group_is_not_served_before_its_partition_was_read(pair: TwoBrokers) -> None:
    """And that waits for all that there is at the election to be on the replicas."""
    pair.move(pair.one)
    client, other = GroupClient(pair.one), GroupClient(pair.one, "h")
    assert client.commit(1) == other.commit(2) == [0]
    with pair.replication.held():
        sent = appended(pair.one, lambda: client.send_commit(3))
        pair.elect(pair.one, 1)
        client.id, client.generation = "somebody", 1
        answers = {name: ask(client) for name, ask in ASKED.items()}
        assert answers == dict.fromkeys(ASKED, LOADING)
        assert listed(pair.one) == (LOADING, ["h"])
        assert fetch_offsets(pair.one, "h", None).error_code == 0
        assert pair.one.broker.groups.availability.fault == ""
    assert pair.one.answer(sent).topics[0].partitions[0].error_code == NOT_COORDINATOR
    pair.loaded(pair.one)
    assert committed(pair.one) == {("t", 0): 3}  # it was written, whatever was told
    assert listed(pair.one) == (0, ["g", "h"])


# Classic groups


def test_a_group_goes_on_at_its_partitions_next_leader(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    leader, other = join_two(pair.one)
    assert leader.commit(1, 2) == [0, 0]
    pair.move(pair.two)
    assert leader.heartbeat() == other.heartbeat() == NOT_COORDINATOR
    leader.control = other.control = pair.two
    assert leader.heartbeat() == other.heartbeat() == 0
    assert committed(pair.two) == {("t", 0): 1, ("t", 1): 2}
    assert leader.commit(3) == [0]
    pair.move(pair.one)
    leader.control = other.control = pair.one
    assert committed(pair.one) == {("t", 0): 3, ("t", 1): 2}
    assert other.heartbeat() == 0
    assert {bytes(each.sync().assignment) for each in (leader, other)} == {b"left", b"right"}


def test_who_waits_in_a_join_is_sent_away(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    leader, other = join_two(pair.one)
    third = GroupClient(pair.one)
    third.id = pair.one.answer(third.send_join()).member_id
    parked = [third.send_join(), leader.send_join()]
    assert not any(pair.one.is_answered(each) for each in parked)
    pair.move(pair.two)
    assert [pair.one.answer(each).error_code for each in parked] == [NOT_COORDINATOR] * 2
    leader.control = other.control = third.control = pair.two
    assert leader.heartbeat() == other.heartbeat() == 0  # as if that rebalance had never been
    third.id = ""
    assert pair.two.answer(third.send_join()).error_code == 79


def test_who_waits_for_an_assignment_is_sent_away(pair: TwoBrokers) -> None:
    """Also who gave it, while it is on its way to the replicas. It never was."""
    pair.move(pair.one)
    leader, other = join_two(pair.one)
    generation = leader.generation
    sent = [leader.send_join(), other.send_join()]
    for each, own in zip((leader, other), sent, strict=True):
        assert each.joined(own).generation_id == generation + 1
    parked = other.send_sync()
    assert not pair.one.is_answered(parked)
    with pair.replication.held():
        assigned = {leader.id: b"new", other.id: b"newer"}
        given = appended(pair.one, lambda: leader.send_sync(**assigned))
        pair.elect(pair.two)
        answers = [pair.one.answer(each).error_code for each in (parked, given)]
    assert answers == [NOT_COORDINATOR] * 2
    pair.loaded(pair.two)
    leader.control = other.control = pair.two
    leader.generation = other.generation = generation
    assert leader.heartbeat() == other.heartbeat() == 0
    assert {bytes(each.sync().assignment) for each in (leader, other)} == {b"left", b"right"}
    until(lambda: pair.one.log(1).log_end_offset == pair.two.log(1).log_end_offset)


def test_a_commit_that_did_not_get_to_the_replicas_never_was(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    with pair.replication.held():
        lost = appended(pair.one, lambda: client.send_commit(2))
        pair.elect(pair.two)
        answer = pair.one.answer(lost)
    assert answer.topics[0].partitions[0].error_code == NOT_COORDINATOR
    pair.loaded(pair.two)
    assert committed(pair.two) == {("t", 0): 1}
    client.control = pair.two
    assert client.commit(3) == [0]
    pair.move(pair.one)
    assert committed(pair.one) == {("t", 0): 3}


def test_a_deletion_under_way_leaves_the_group_to_its_next_coordinator(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    assert GroupClient(pair.one).commit(1) == [0]
    with pair.replication.held():
        sent = appended(pair.one, lambda: pair.one.send(DeleteGroupsRequest(["g"]), 2))
        pair.elect(pair.two)
        assert pair.one.answer(sent).results[0].error_code == NOT_COORDINATOR
    pair.loaded(pair.two)
    assert committed(pair.two) == {("t", 0): 1}
    assert listed(pair.two) == (0, ["g"])


def test_a_deletion_of_an_election_that_is_over_deletes_nothing(pair: TwoBrokers) -> None:
    """It waits for commits on their way, and finds another group of the name."""
    pair.move(pair.one)
    assert GroupClient(pair.one).commit(1) == [0]
    with pair.replication.held():
        appended(pair.one, lambda: GroupClient(pair.one).send_commit(2))
        sent = pair.one.send(DeleteGroupsRequest(["g"]), 2)
        assert not pair.one.is_answered(sent)
        pair.elect(pair.one, 1)
    pair.loaded(pair.one)
    assert pair.one.answer(sent).results[0].error_code == NOT_COORDINATOR
    assert committed(pair.one) == {("t", 0): 2}
    assert GroupClient(pair.one).commit(3) == [0]


# Groups of the newer protocol


def test_a_newer_group_goes_on_at_its_partitions_next_leader(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    one, two = NewMember(pair.one, "one"), NewMember(pair.one, "two")
    one.beat()
    two.beat()
    one.beat()  # it is told to give up some
    pair.move(pair.two)
    assert one.send().error_code == two.send().error_code == NOT_COORDINATOR
    one.control = two.control = pair.two
    for each in (one, two) * 3:
        each.beat()
    held = [sorted(index for own in each.owned.values() for index in own) for each in (one, two)]
    assert sorted(held[0] + held[1]) == [0, 1, 2]
    assert one.epoch == two.epoch
    assert one.commit(*[5] * 3) == [0] * 3


def test_heartbeats_that_wait_for_the_disk_are_sent_away(pair: TwoBrokers) -> None:
    """Both the one whose change is being written, and those behind it."""
    pair.move(pair.one)
    one, two = NewMember(pair.one, "one"), NewMember(pair.one, "two")
    one.beat()
    epoch = one.epoch
    with pair.replication.held():
        first = appended(pair.one, lambda: two.begin())
        second = NewMember(pair.one, "three").begin()
        assert not pair.one.is_answered(second)
        pair.elect(pair.two)
        answers = [pair.one.answer(each) for each in (first, second)]
    assert [each.error_code for each in answers] == [NOT_COORDINATOR] * 2
    pair.loaded(pair.two)
    one.control = pair.two
    one.beat()
    assert one.epoch == epoch
    group = pair.two.broker.groups.table.groups["g"]
    assert list(group.members) == ["one"]


def test_a_group_on_its_way_to_the_newer_protocol_goes_on(pair: TwoBrokers) -> None:
    """And back, at the next leader."""
    pair.move(pair.one)
    old, new = GroupClient(pair.one), NewMember(pair.one, "new")
    old.enter()
    new.beat()
    assert listed(pair.one) == (0, ["g"])
    pair.move(pair.two)
    assert old.heartbeat() == new.send().error_code == NOT_COORDINATOR
    old.control = new.control = pair.two
    assert old.heartbeat() in (0, REBALANCE)
    assert old.join().error_code == old.sync().error_code == 0
    new.beat()
    assert new.send(-1).error_code == 0  # it leaves, and with it the newer protocol
    group = pair.two.broker.groups.table.groups["g"]
    assert (type(group), [each.id for each in group.members]) == (Group, [old.id])
    pair.move(pair.one)
    old.control = pair.one
    assert old.heartbeat() == REBALANCE
    old.enter()


@pytest.mark.parametrize("is_newer", [False, True])
def test_an_unloaded_group_is_freed(pair: TwoBrokers, is_newer: bool) -> None:
    """At once: what the collector does not look at any more would stay for good."""
    pair.move(pair.one)
    if is_newer:
        NewMember(pair.one).beat()
    else:
        GroupClient(pair.one).enter()
    group = weakref.ref(pair.one.broker.groups.table.groups["g"])
    gc.disable()
    try:
        pair.move(pair.two)
        pair.one.run(asyncio.sleep(0))
        assert group() is None
    finally:
        gc.enable()
