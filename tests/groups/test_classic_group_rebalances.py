"""Rebalances of a classic group: who takes part, who is out, who leaves."""

from __future__ import annotations

from appliance.groups.joins import NEW_MEMBER_JOIN_MS
from appliance.groups.member import NEVER_MS
from appliance.groups.states import State
from appliance.protocol import ErrorCode
from tests.support.classic_group import (
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    World,
    beat,
    errors,
    stable,
)


def test_members_hear_of_a_rebalance_by_their_heartbeat(world: World) -> None:
    one, two = stable(world, "a", "b")
    three = Consumer(world, "c").join()
    assert [one.heartbeat(), two.heartbeat()] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert one.commit() == 0  # what it read until now
    one.join()
    assert not three.joined
    two.join()
    assert {each.generation for each in (one, two, three)} == {3}
    assert one.commit() == ErrorCode.REBALANCE_IN_PROGRESS
    assert one.heartbeat() == 0


def test_who_does_not_join_in_time_is_out(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    beat(world, [two], REBALANCE_MS - 1)
    assert len(one.joined) == 2
    world.wait(1)
    assert (one.generation, one.is_leader) == (3, True)
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_is_alive(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    beat(world, [two], 5 * SESSION_MS)
    two.join()
    assert (one.generation, two.generation) == (3, 3)


def test_a_new_member_that_waits_too_long_is_given_up() -> None:
    world = World()
    (one,) = stable(world, "a", session_ms=2 * NEW_MEMBER_JOIN_MS)
    object.__setattr__(world.group.members.find(one.id, None), "rebalance_timeout_ms", 10**9)
    two = Consumer(world, "b").join()
    world.wait(NEW_MEMBER_JOIN_MS - 1)
    assert not two.joined
    world.wait(1)
    assert errors(two.joined) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert one.join().generation == 2


def test_a_rebalance_within_a_rebalance(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    two.join().sync()
    assert world.state is State.COMPLETING_REBALANCE
    three = Consumer(world, "c").join()
    assert errors(two.synced)[-1:] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert one.sync(two).synced[-1].error == ErrorCode.REBALANCE_IN_PROGRESS
    one.join()
    two.join()
    assert {each.generation for each in (one, two, three)} == {4}


def test_the_leader_that_died_is_replaced(world: World) -> None:
    one, two = stable(world, "a", "b")
    two.join()
    beat(world, [two], SESSION_MS)
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    two.join()
    assert (two.generation, two.is_leader) == (3, True)


def test_members_that_never_ask_for_their_assignment_are_out(world: World) -> None:
    one, two = stable(world, "a", "b")
    for each in (one, two):
        each.join()
    one.sync(two)
    assert world.state is State.STABLE
    beat(world, [one, two], REBALANCE_MS - 1)
    assert world.state is State.STABLE
    world.wait(1)
    assert world.state is State.PREPARING_REBALANCE
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.join().generation == 4


def test_a_leader_that_never_assigns_is_out(world: World) -> None:
    one, two = stable(world, "a", "b")
    for each in (one, two):
        each.join()
    two.sync()
    beat(world, [one], REBALANCE_MS - 1)
    world.wait(1)
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert errors(two.synced)[-1:] == [ErrorCode.REBALANCE_IN_PROGRESS]
    two.join()
    assert (two.generation, two.is_leader) == (4, True)


def test_the_last_member_leaves_an_empty_group(world: World) -> None:
    (one,) = stable(world, "a")
    assert one.leave() == 0
    assert (world.state, world.group.generation) == (State.EMPTY, 2)
    record = world.records[-1]
    assert (record.members, record.leader, record.protocol) == ([], None, None)
    assert (record.protocol_type, record.generation) == ("consumer", 2)
    assert world.group.due_ms == NEVER_MS or world.wait(10 * REBALANCE_MS) is None
    assert Consumer(world, "b").join().generation == 3


def test_leaving_lets_the_others_go_on(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    assert two.leave() == 0
    assert one.generation == 3
    assert two.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_while_it_waits_is_told(world: World) -> None:
    one, two = stable(world, "a", "b")
    two.join()
    assert world.state is State.STABLE
    one.join()
    assert one.leave() == 0
    assert errors(one.joined)[-1:] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_who_waits_is_answered_at_a_stop(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    world.group.stop()
    assert errors(one.joined)[-1:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    two.join()
    assert world.state is State.PREPARING_REBALANCE
