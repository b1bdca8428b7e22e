"""Elections of brokers for their groups, one after the other, in the middle of anything."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar

import pytest

from appliance.broker import health
from appliance.data_dir._control_plane_writes import LogWriter
from appliance.errors import LeaderEpochOld, StorageFull
from appliance.groups import offset_commits, offsets_topic_loading
from appliance.groups.offsets import Offsets
from appliance.groups.offsets_topic_replay import replay
from appliance.groups.records import OffsetCommitValue, Partition
from appliance.groups.states import State
from appliance.topics import internal_topic
from appliance.topics.internal_topic import InternalTopic
from appliance.topics.topic import OFFSETS
from tests.support.control import DEADLINE_S, Sent
from tests.support.group_client import GroupClient, committed, fetch_offsets
from tests.support.logs import batch, until
from tests.support.streams_group_client import Member as Streams
from tests.support.streams_group_client import described, reading
from tests.support.two_brokers import (
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    Member,
    TwoBrokers,
    appended,
    appended_in,
    listed,
)


def test_a_group_of_kafka_streams_goes_on_with_another_broker(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    one = Streams(pair.one, topology=reading("t"))
    one.beat()
    assert one.tasks["active_tasks"] == {"0": [0, 1, 2]}
    before = described(pair.one)
    pair.move(pair.two)
    assert one.send().error_code == NOT_COORDINATOR
    one.control = pair.two
    assert described(pair.two) == before
    assert one.beat().active_tasks is None
    pair.move(pair.one)
    one.control = pair.one
    assert one.beat().error_code == 0


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
    assert broker.lag.history("g").topics
    group = broker.groups.table.groups["g"]
    broker.groups.offsets.hold(7, "g", {place: value.value for place, value in
                                        broker.groups.offsets.of_group("g").items()}, 5)
    pair.move(pair.two)
    table, end_offset = broker.groups.table, pair.one.log(1).log_end_offset
    broker.groups.expiry.expire(1 << 62)
    assert pair.one.log(1).log_end_offset == end_offset
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
    assert isinstance(found[0].error, LeaderEpochOld)
    assert (found[1].error, found[1].base_offset) == (None, end_offset)


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

    def commit(name: str, to: Member) -> Sent:
        tried[name] += 1
        asked = GroupClient(to, name).send_commit(tried[name])
        sent.append((name, tried[name], to, asked))
        return asked

    for number in range(60):
        with pair.replication.held() if chance.random() < 0.5 else nullcontext():
            for name in names:
                to = chance.choice(pair.both)
                asked = commit(name, to)
                to.is_answered(asked)  # it is on its way, before whoever is elected next
            leader = chance.choice([pair.one, pair.two, None])
            pair.elect(leader, chance.randrange(2), raised=chance.randrange(2) if not leader else 1)
        if leader and chance.random() < 0.5:
            leader.run(asyncio.sleep(chance.random() / 100))
        if number % 20 == 9:  # these come to their end, however busy the machine is
            pair.move(pair.one)
            for name in names:
                pair.one.answer(commit(name, pair.one))
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
        pair.one.run(pair.one.broker.groups.commits.forget_topics({"t"}))
    pair.loaded(pair.one)
    while committed(pair.one):
        pair.one.run(asyncio.sleep(0.001))
    with pair.replication.held():
        appended(pair.one, lambda: client.send_commit(3))
        pair.elect(pair.one, 1)
        pair.one.run(pair.one.broker.groups.commits.forget_topics({"t"}))
        pair.elect(None, 1)
    pair.move(pair.two, 1)
    client.control = pair.two
    assert client.commit(4) == [0]
    pair.move(pair.one, 1)
    assert listed(pair.one) == (0, ["g"])  # and what it began by itself has come on its way
    while pair.one.broker.groups.table.topic.is_busy:
        pair.one.run(asyncio.sleep(0.001))
    assert committed(pair.one) == {("t", 0): 4}


def test_offsets_of_a_topic_deleted_while_nobody_led_them_go(pair: TwoBrokers) -> None:
    """With whoever is elected next; a later coordinator keeps those in a new topic of the name."""
    pair.move(pair.one)
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]
    pair.elect(None, 1)
    for each in pair.both:
        each.run(each.broker.forget_topic("t"))
    pair.move(pair.two, 1)
    end_s = time.monotonic() + DEADLINE_S
    while committed(pair.two) and time.monotonic() < end_s:
        pair.two.run(asyncio.sleep(0.001))
    assert committed(pair.two) == {}
    pair.create("t")
    client.control = pair.two
    assert client.commit(4) == [0]
    pair.move(pair.one, 1)
    assert listed(pair.one) == (0, ["g"])
    while pair.one.broker.groups.table.topic.is_busy:
        pair.one.run(asyncio.sleep(0.001))
    assert committed(pair.one) == {("t", 0): 4}


@contextmanager
def unwritten(pair: TwoBrokers, again_s: float = 1000) -> Iterator[GroupClient]:
    """A group commits 1 at the first broker; the topic is deleted while nothing can be written.
    Offsets are deleted again when the test says so, or after `again_s`."""
    client = GroupClient(pair.one)
    assert client.commit(1) == [0]

    def fail(self: InternalTopic) -> None:
        raise StorageFull("no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_commits, "AGAIN_S", again_s)
        with pytest.MonkeyPatch.context() as held:
            held.setattr(InternalTopic, "_hand_over", fail)
            for each in pair.both:
                each.run(each.broker.forget_topic("t"))
        (found,) = health.of_owners(pair.one.broker)
        assert (found.level, found.text) == ("degraded", pair.one.broker.groups.commits.fault)
        assert "in deleted topics (t is the first of 1)" in found.text
        assert pair.two.broker.groups.commits.fault == ""
        yield client


def delete_again(member: Member) -> None:
    async def begin() -> None:
        member.broker.groups.commits.delete_again()

    member.run(begin())
    settle(member)


def settle(member: Member) -> None:
    while member.broker.groups.table.topic.is_busy:
        member.run(asyncio.sleep(0.001))


def test_offsets_of_a_deleted_topic_that_cannot_be_deleted_are_none_and_tried_again(
    pair: TwoBrokers,
) -> None:
    pair.move(pair.one)
    with unwritten(pair):
        pair.create("t")
        assert committed(pair.one) == {}
        pair.elect(pair.one)
        pair.loaded(pair.one)
        assert committed(pair.one) == {}  # though it was read again
        delete_again(pair.one)
        assert pair.one.broker.groups.commits.fault == ""
        pair.move(pair.two)
        assert committed(pair.two) == {}


def test_offsets_of_a_deleted_topic_are_deleted_again_until_they_are_gone(pair: TwoBrokers) -> None:
    pair.move(pair.one)
    with unwritten(pair, 0.01):
        commits, end_s = pair.one.broker.groups.commits, time.monotonic() + DEADLINE_S
        while commits.fault and time.monotonic() < end_s:
            pair.one.run(asyncio.sleep(0.001))
        assert commits.fault == ""
        pair.move(pair.two)
        assert committed(pair.two) == {}


def test_offsets_of_a_deleted_topic_go_though_its_export_hold_stays(
    pair: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(topics: object) -> None:
        raise StorageFull("no room")

    pair.move(pair.one)
    assert GroupClient(pair.one).commit(1) == [0]
    monkeypatch.setattr(pair.one.broker.holds, "forget_topics", fail)
    pair.one.run(pair.one.broker.forget_topic("t"))
    assert committed(pair.one) == {}


@pytest.mark.parametrize("is_moved", [False, True], ids=["here", "at another coordinator"])
def test_offsets_in_the_next_topic_of_that_name_stay(pair: TwoBrokers, is_moved: bool) -> None:
    pair.move(pair.one)
    with unwritten(pair) as client:
        pair.create("t")
        if is_moved:
            pair.move(pair.two)
            client.control = pair.two
        assert client.commit(4) == [0]
        pair.move(pair.one)
        assert committed(pair.one) == {("t", 0): 4}
        delete_again(pair.one)
        assert committed(pair.one) == {("t", 0): 4}
        assert pair.one.broker.groups.commits.fault == ""
        pair.move(pair.two)
        assert committed(pair.two) == {("t", 0): 4}


def test_another_coordinator_has_what_was_not_deleted_before(pair: TwoBrokers) -> None:
    """Who was it has nothing to try again."""
    pair.move(pair.one)
    with unwritten(pair):
        pair.move(pair.two)
        end_offset = pair.one.log(1).log_end_offset
        delete_again(pair.one)
        assert pair.one.broker.groups.commits.fault == ""
        assert pair.one.log(1).log_end_offset == end_offset


def test_what_a_transaction_holds_in_a_deleted_topic_is_left_out_with_the_rest(
    pair: TwoBrokers,
) -> None:
    pair.move(pair.one)
    groups, place = pair.one.broker.groups, Partition("t", 1)
    groups.offsets.hold(7, "g", {place: OffsetCommitValue(5, 0, "", 0)}, 0)
    with unwritten(pair):
        groups.commits.end_transaction(7, is_commit=True)
        assert committed(pair.one) == {}


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


def test_what_a_transaction_holds_of_a_group_that_is_not_there_goes_with_its_partition(
    pair: TwoBrokers,
) -> None:
    """Nothing of that group counts yet: there is only what an open transaction has of it."""
    pair.move(pair.one)
    coordinator = pair.one.broker.groups
    place = Partition("t", 0)
    held = OffsetCommitValue(5, 0, "", 0)
    coordinator.offsets.hold(7, "g", {place: held}, 0)
    assert "g" not in coordinator.table.groups
    pair.move(pair.two)
    assert not coordinator.offsets.is_held("g")
    assert not coordinator.offsets.held_groups(7)
