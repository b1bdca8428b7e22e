"""Static members of a classic group: they come back, stay away, and are fenced."""

from __future__ import annotations

import pytest

from appliance.groups.states import State
from appliance.protocol import ErrorCode
from tests.support.classic_group import REBALANCE_MS, Consumer, World, beat, errors, stable
from tests.support.group_client import subscription


def test_a_static_member_comes_back_without_a_rebalance(world: World) -> None:
    one, two = stable(world, "a", "b", instance=None)
    three = Consumer(world, "c", instance="i").join()
    one.join()
    two.join()
    three.sync()
    two.sync()
    one.sync(two, three)
    back = Consumer(world, "d", instance="i").join()
    (joined,) = back.joined
    assert (joined.error, joined.generation, joined.leader) == (0, 3, one.id)
    assert (joined.members, joined.skip_assignment, world.state) == ((), False, State.STABLE)
    assert back.sync().synced[-1].assignment == b"c"
    assert three.heartbeat() == three.commit() == three.leave() == ErrorCode.FENCED_INSTANCE_ID
    assert three.sync().synced[-1].error == ErrorCode.FENCED_INSTANCE_ID
    assert [one.heartbeat(), two.heartbeat(), back.heartbeat()] == [0, 0, 0]
    assert {each.member_id for each in world.records[-1].members} == {one.id, two.id, back.id}


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_comes_back_and_need_not_assign(world: World, may_skip: bool) -> None:
    one = Consumer(world, "a", instance="i").join().sync()
    back = Consumer(world, "b", instance="i", may_skip=may_skip).join()
    (joined,) = back.joined
    assert (joined.generation, joined.skip_assignment) == (1, may_skip)
    assert joined.leader == (back.id if may_skip else one.id)
    assert len(joined.members) == (1 if may_skip else 0)
    assert back.sync().synced[-1].assignment == b"a"
    back.join()  # it saw something change, and leads
    assert (back.generation, back.is_leader, len(back.joined[-1].members)) == (2, True, 1)


def test_a_static_member_that_wants_something_else_begins_a_rebalance(world: World) -> None:
    Consumer(world, "a", instance="i").join().sync()
    back = Consumer(world, "b", instance="i", protocols=[("range", subscription("u"))]).join()
    assert (back.generation, world.state) == (2, State.COMPLETING_REBALANCE)


def test_what_a_static_member_owned_is_no_change(world: World) -> None:
    """Consumers tell in their metadata what they own; after a restart that is nothing."""
    owned = [("range", subscription("t") + b"owned")]
    Consumer(world, "a", instance="i", protocols=owned).join().sync()
    assert Consumer(world, "b", instance="i").join().generation == 1


def test_a_static_member_replaced_while_it_waits_is_fenced(world: World) -> None:
    one, two = stable(world, "a", "b")
    three = Consumer(world, "c", instance="i").join()
    back = Consumer(world, "d", instance="i").join()
    assert errors(three.joined) == [ErrorCode.FENCED_INSTANCE_ID]
    one.join()
    two.join()
    assert back.generation == 3
    back.sync()
    third = Consumer(world, "e", instance="i").join()
    assert errors(back.synced) == [ErrorCode.FENCED_INSTANCE_ID]
    assert (world.state, third.joined) == (State.PREPARING_REBALANCE, [])


def test_a_static_member_keeps_its_place_until_its_session_ends(world: World) -> None:
    one = Consumer(world, "a").join().sync()
    two = Consumer(world, "b", instance="i", session_ms=5 * REBALANCE_MS).join()
    one.join()
    two.sync()
    one.sync(two)
    one.join()
    beat(world, [one], REBALANCE_MS)
    assert one.generation == 3  # without two, which is away
    assert {each.instance_id for each in one.joined[-1].members} == {None, "i"}
    one.sync(two)
    back = Consumer(world, "c", instance="i").join()
    assert (back.generation, back.sync().synced[-1].assignment) == (3, b"b")


def test_a_group_of_static_members_that_are_all_away_waits(world: World) -> None:
    one = Consumer(world, "a", instance="i", session_ms=3 * REBALANCE_MS).join().sync()
    two = Consumer(world, "b", instance="j").join()
    assert two.leave() == 0
    world.wait(REBALANCE_MS + 1)
    assert (world.state, world.group.generation) == (State.PREPARING_REBALANCE, 1)
    world.wait(3 * REBALANCE_MS)
    assert world.state is State.EMPTY
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_is_removed_by_its_name_alone(world: World) -> None:
    one = Consumer(world, "a", instance="i").join().sync()
    one.id = "wrong"
    assert one.leave() == ErrorCode.FENCED_INSTANCE_ID
    one.id = ""
    assert one.leave() == 0
    assert world.state is State.EMPTY
    assert one.leave() == ErrorCode.UNKNOWN_MEMBER_ID
