"""What a classic group stores before it answers, and what it is after a restart."""

from __future__ import annotations

from appliance.errors import TimedOut
from appliance.groups.consumer_protocol import NO_PARTITIONS
from appliance.groups.group import Group
from appliance.groups.states import State
from appliance.protocol import ErrorCode
from tests.support.classic_group import SESSION_MS, Consumer, World, beat, errors, stable


def test_nobody_hears_of_an_assignment_before_it_is_on_disk() -> None:
    world = World(waiting=[])
    one, two = Consumer(world, "a").join(), Consumer(world, "b").join()
    one.join()
    two.sync()
    one.sync(two)
    assert (one.synced, two.synced, world.state) == ([], [], State.COMPLETING_REBALANCE)
    record = world.records[-1]
    assert [each.assignment for each in record.members] == [b"a", b"b"]
    world.stored()
    assert world.state is State.STABLE
    assert (one.synced[-1].assignment, two.synced[-1].assignment) == (b"a", b"b")


def test_a_rebalance_that_overtakes_the_disk_wins() -> None:
    world = World(waiting=[])
    one = Consumer(world, "a").join().sync()
    two = Consumer(world, "b").join()
    assert errors(one.synced) == [ErrorCode.REBALANCE_IN_PROGRESS]
    world.stored()
    assert world.state is State.PREPARING_REBALANCE
    one.join()
    two.sync()
    one.sync(two)
    world.stored()
    assert (one.synced[-1].assignment, two.synced[-1].assignment) == (b"a", b"b")


def test_an_assignment_that_cannot_be_stored_is_told_and_begins_a_rebalance() -> None:
    world = World(waiting=[])
    one = Consumer(world, "a").join().sync()
    world.stored(TimedOut("the disk sleeps"))
    assert errors(one.synced) == [TimedOut.kafka_code]
    assert world.state is State.PREPARING_REBALANCE
    one.join().sync()
    world.stored()
    assert (one.generation, world.state) == (2, State.STABLE)


def test_a_leader_that_asks_twice_is_answered_twice_and_stored_once() -> None:
    world = World(waiting=[])
    one = Consumer(world, "a").join().sync().sync()
    assert len(world.records) == 1
    world.stored()
    assert errors(one.synced) == [ErrorCode.REBALANCE_IN_PROGRESS, 0]


def test_a_static_member_is_back_when_that_is_on_disk(world: World) -> None:
    Consumer(world, "a", instance="i").join().sync()
    world.waiting = []
    back = Consumer(world, "b", instance="i").join()
    assert back.joined == []
    world.stored(TimedOut("the disk sleeps"))
    assert errors(back.joined) == [TimedOut.kafka_code]
    again = Consumer(world, "c", instance="i").join()
    world.stored()
    assert again.generation == 1


def test_after_a_restart_members_go_on_with_their_generation(world: World) -> None:
    one, two = stable(world, "a", "b")
    three = Consumer(world, "c", instance="i").join()
    one.join()
    two.join()
    three.sync()
    two.sync()
    one.sync(two, three)
    world.group = Group("g", world.group.config, world._store)
    world.group.restore(world.records[-1], world.now_ms)
    assert world.state is State.STABLE
    assert [each.heartbeat() for each in (one, two, three)] == [0, 0, 0]
    assert [each.commit() for each in (one, two, three)] == [0, 0, 0]
    assert two.sync().synced[-1].assignment == b"b"
    assert Consumer(world, "d", instance="i").join().generation == 3
    beat(world, [one], SESSION_MS)
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    one.join()
    assert one.is_leader


def test_a_restart_of_an_empty_group_goes_on_counting(world: World) -> None:
    (one,) = stable(world, "a")
    one.leave()
    world.group = Group("g", world.group.config, world._store)
    world.group.restore(world.records[-1], world.now_ms)
    assert (world.state, world.group.protocol_type) == (State.EMPTY, "consumer")
    assert Consumer(world, "b").join().generation == 3


def test_a_member_without_assignment_gets_one_that_can_be_read(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    two.join().sync()
    one.sync()
    assert two.synced[-1].assignment == NO_PARTITIONS
