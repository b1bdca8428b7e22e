"""Coordinators follow their partitions: two brokers, of which one or the other leads."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from appliance.data_dir._control_plane_writes import LogWriter
from appliance.errors import LeaderEpochOld
from appliance.groups import offsets_topic_loading
from appliance.groups.offsets import Offsets
from appliance.groups.offsets_topic_replay import replay
from appliance.groups.states import State
from appliance.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from appliance.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from appliance.topics import internal_topic
from appliance.topics.topic import OFFSETS
from tests.support.consumer_group_client import Member as NewMember
from tests.support.control import Sent
from tests.support.group_client import GroupClient, committed, fetch_offsets
from tests.support.logs import batch, until
from tests.support.two_brokers import Member, TwoBrokers

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path)
    made.create("t", 3)
    made.make_offsets_topic()
    yield made
    made.close()


def listed(member: Member) -> tuple[int, list[str]]:
    answer = member.ask(ListGroupsRequest(), 5)
    return answer.error_code, sorted(each.group_id for each in answer.groups)


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


def test_what_is_not_served_in_a_cluster_says_so(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
    (found,) = pair.one.ask(asked, 6).coordinators
    assert found.error_code == NOT_AVAILABLE
    assert found.error_message == "transactions are not served in a cluster yet"
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{'A' * 22}:0"])
    (found,) = pair.one.ask(asked, 6).coordinators
    assert found.error_message == "share groups are not served in a cluster yet"
    given = pair.one.ask(InitProducerIdRequest("id", 1000), 5)
    assert given.error_code == NOT_AVAILABLE
    beat = ShareGroupHeartbeatRequest("s", "m", 0, None, ["t"])
    assert pair.one.ask(beat, 1).error_code == NOT_AVAILABLE


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


def appended(member: Member, send: Callable[[], Sent]) -> Sent:
    """It is in the log of the group's leader, and nowhere else."""
    return appended_in(1, member, send)


def appended_in(partition: int, member: Member, send: Callable[[], Sent]) -> Sent:
    log = member.log(partition)
    before, sent = log.log_end_offset, send()
    assert not member.is_answered(sent)
    until(lambda: log.log_end_offset > before)
    return sent


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


# Elections, one after the other


def test_the_groups_of_other_partitions_go_on(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    client, other = GroupClient(pair.one), GroupClient(pair.one, "h")
    client.enter()
    other.enter()
    version = pair.one.broker.groups.table.version
    pair.move(pair.two, 1)
    assert (client.heartbeat(), other.heartbeat()) == (NOT_COORDINATOR, 0)
    assert other.commit(1) == [0]
    assert (listed(pair.one), listed(pair.two)) == ((0, ["h"]), (0, ["g"]))
    assert pair.one.broker.groups.table.version > version


def test_nothing_of_an_unloaded_group_stays_in_memory(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    client = GroupClient(pair.one)
    client.enter()
    assert client.commit(1) == [0]
    broker = pair.one.broker
    pair.one.run(broker.lag.round())
    assert [each.group for each in broker.lag.snapshot().groups] == ["g"]
    group = broker.groups.table.groups["g"]
    broker.groups.offsets.hold(7, "g", {place: value.value for place, value in
                                        broker.groups.offsets.of_group("g").items()}, 5)
    pair.move(pair.two)
    table = broker.groups.table
    assert (table.groups, table._timers, len(table.weights._kept)) == ({}, {}, 0)
    assert vars(broker.groups.offsets) == vars(Offsets())
    assert (broker.lag.snapshot().groups, [*broker.lag.series]) == ((), [])
    assert (group.state, len(group.members)) == (State.DEAD, 0)


def test_a_load_that_an_election_overtakes_is_dropped(
    pair: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read what was there before others wrote."""
    pair.move(pair.two)
    client = GroupClient(pair.two)
    assert client.commit(1) == [0]
    begun, may_end, reads = threading.Event(), threading.Event(), []

    def slow(logs: Any) -> Any:
        found = replay(logs)
        reads.append(found)
        if len(reads) == 1:
            begun.set()
            assert may_end.wait(20)
        return found

    monkeypatch.setattr(offsets_topic_loading, "replay", slow)
    pair.elect(pair.one, 1)
    pair.one.run(asyncio.to_thread(begun.wait, 20))
    pair.elect(pair.two, 1)
    may_end.set()
    pair.loaded(pair.one)
    assert pair.one.broker.groups.table.groups == {}
    pair.loaded(pair.two)
    assert client.commit(2) == [0]
    pair.elect(pair.one, 1)
    pair.loaded(pair.one)
    assert committed(pair.one) == {("t", 0): 2}
    assert pair.one.broker.groups.table.groups.keys() == {"g"}


def test_a_write_of_an_election_that_is_over_is_refused(pair: TwoBrokers) -> None:
    """Also when this broker was elected again before it came to its turn."""
    pair.elect(pair.one)
    log, writer = pair.one.log(1), LogWriter()
    epoch = log.election
    pair.elect(pair.two)
    pair.elect(pair.one)
    end_offset = log.log_end_offset
    writer.begin([(log, batch("stale"), epoch), (log, batch("good"), log.election)], 10)
    found = until(writer.take)
    writer.close()
    assert isinstance(found[0][0], LeaderEpochOld)
    assert found[1] == (None, end_offset)


def test_one_that_pauses_reads_anew_what_it_leads_in_the_same_election(pair: TwoBrokers) -> None:
    """Its session with ZooKeeper may have been over. What it was about to write stays unwritten,
    or is read."""
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    with pair.replication.held():
        written = appended(pair.one, lambda: client.send_commit(2))
        queued = client.send_commit(3)
        assert not pair.one.is_answered(queued)
        pair.elect(None, 1, raised=0)
        for each in (written, queued):
            answer = pair.one.answer(each).topics[0].partitions[0]
            assert answer.error_code == NOT_COORDINATOR
        assert client.commit(4) == [NOT_COORDINATOR]
    pair.elect(pair.one, 1, raised=0)
    pair.loaded(pair.one)
    assert committed(pair.one) == {("t", 0): 2}


def test_no_acknowledged_commit_is_lost_whatever_is_elected(pair: TwoBrokers) -> None:
    """Elections in the middle of commits and of loads, also before a load has begun."""
    chance = random.Random(7)
    names = "g", "h"
    tried, sent = dict.fromkeys(names, 0), []
    for _ in range(60):
        with pair.replication.held() if chance.random() < 0.5 else nullcontext():
            for name in names:
                tried[name] += 1
                to = chance.choice(pair.both)
                commit = GroupClient(to, name).send_commit(tried[name])
                to.is_answered(commit)  # it is on its way, before whoever is elected next
                sent.append((name, tried[name], to, commit))
            leader = chance.choice([pair.one, pair.two, None])
            pair.elect(leader, chance.randrange(2), raised=chance.randrange(2) if not leader else 1)
        if leader and chance.random() < 0.5:
            leader.run(asyncio.sleep(chance.random() / 100))
    pair.move(pair.one)
    acknowledged = dict.fromkeys(names, 0)
    for name, offset, to, each in sent:
        if not to.answer(each).topics[0].partitions[0].error_code:
            acknowledged[name] = offset
    found = {name: committed(pair.one, name).get(("t", 0), 0) for name in names}
    assert all(0 < acknowledged[each] <= found[each] <= tried[each] for each in names), found
    pair.move(pair.two)
    assert {name: committed(pair.two, name)["t", 0] for name in names} == found


def test_a_slow_follower_of_one_partition_holds_up_no_other(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    assert GroupClient(pair.one).commit(1) == GroupClient(pair.one, "h").commit(1) == [0]
    with pair.replication.held():
        held = appended(pair.one, lambda: GroupClient(pair.one).send_commit(2))
        sent = appended_in(0, pair.one, lambda: GroupClient(pair.one, "h").send_commit(3))
        pair.replication.fetch(pair.one.log(0), pair.two.log(0), 2, pair.one.log(0).election)
        assert pair.one.answer(sent).topics[0].partitions[0].error_code == 0
        assert not pair.one.is_answered(held)
    assert pair.one.answer(held).topics[0].partitions[0].error_code == 0


class LateWriter(LogWriter):
    """Its thread comes to its turn late: after what the test does meanwhile."""

    meanwhile: ClassVar[list[Callable[[], None]]] = []

    def begin(self, batches: Any, timeout_s: float) -> None:
        if not self.meanwhile:
            super().begin(batches, timeout_s)
            return
        self.meanwhile.pop()()
        begin = partial(super().begin, batches, timeout_s)
        asyncio.get_running_loop().call_later(0.05, begin)


def test_a_commit_that_two_elections_overtake_on_its_way_is_refused(
    pair: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_topic, "LogWriter", LateWriter)
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    log = pair.one.log(1)
    end_offset = log.log_end_offset
    LateWriter.meanwhile.append(lambda: pair.elect_logs([pair.two, pair.one], 1))
    assert client.commit(2) == [NOT_COORDINATOR]
    assert log.log_end_offset == end_offset


def test_a_load_waits_for_what_is_on_its_way(
    pair: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same election, before a pause: it may come to the log yet, and must be in memory."""
    monkeypatch.setattr(internal_topic, "LogWriter", LateWriter)
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    LateWriter.meanwhile.append(lambda: None)
    sent = client.send_commit(2)
    assert not pair.one.is_answered(sent)
    pair.elect(None, 1, raised=0)
    pair.elect(pair.one, 1, raised=0)
    pair.loaded(pair.one)
    assert pair.one.answer(sent).topics[0].partitions[0].error_code == NOT_COORDINATOR
    pair.one.run(asyncio.sleep(0.1))
    assert values_in(pair.one) == committed(pair.one)


def values_in(member: Member) -> dict[tuple[str, int], int]:
    """Committed offsets as a start would find them."""
    found = replay([member.log(1)]).offsets.of_group("g")
    return {tuple(place): each.value.offset for place, each in found.items()}


def test_being_told_again_changes_nothing(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    client = GroupClient(pair.one)
    client.enter()
    groups = pair.one.broker.groups
    group, epoch = groups.table.groups["g"], pair.one.log(1).election

    async def tell() -> None:
        groups.on_led(1, epoch)

    pair.one.run(tell())
    assert groups.table.groups["g"] is group
    assert client.heartbeat() == 0


def test_a_partition_that_cannot_be_read_shows_in_health(
    pair: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(logs: object) -> None:
        raise ZeroDivisionError("not foreseen")

    with monkeypatch.context() as patch:
        patch.setattr(offsets_topic_loading, "replay", fail)
        pair.elect(pair.one, 1)
        availability = pair.one.broker.groups.availability
        while not availability.fault:
            pair.one.run(asyncio.sleep(0.001))
        assert f"{OFFSETS}-1 (ZeroDivisionError" in availability.fault
        assert fetch_offsets(pair.one, "g", None).error_code == NOT_AVAILABLE
        assert listed(pair.one) == (0, [])
    pair.move(pair.two, 1)
    assert availability.fault == ""
    assert fetch_offsets(pair.two, "g", None).error_code == 0


def test_offsets_of_a_topic_deleted_before_they_were_read_go(pair: TwoBrokers) -> None:
    """But not those that a later coordinator took for a new topic of the name."""
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    with pair.replication.held():
        appended(pair.one, lambda: client.send_commit(2))
        pair.elect(pair.one, 1)
        pair.one.run(pair.one.broker.groups.commits.forget_topic("t"))
    pair.loaded(pair.one)
    while committed(pair.one):
        pair.one.run(asyncio.sleep(0.001))
    with pair.replication.held():
        appended(pair.one, lambda: client.send_commit(3))
        pair.elect(pair.one, 1)
        pair.one.run(pair.one.broker.groups.commits.forget_topic("t"))
        pair.elect(None, 1)
    pair.move(pair.two, 1)
    client.control = pair.two
    assert client.commit(4) == [0]
    pair.move(pair.one, 1)
    # what it began by itself, too
    assert pair.one.is_answered(pair.one.send(ListGroupsRequest(), 5))
    while pair.one.broker.groups.table.topic.is_busy:
        pair.one.run(asyncio.sleep(0.001))
    assert committed(pair.one) == {("t", 0): 4}


def test_a_stop_in_the_middle_of_a_load_ends(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    with pair.replication.held():
        sent = appended(pair.one, lambda: client.send_commit(2))
        pair.elect(pair.one, 1)
        pair.one.run(pair.one.broker.groups.close())
    assert pair.one.is_answered(sent)
    assert pair.one.broker.groups.availability.terms[1].groups == set()
