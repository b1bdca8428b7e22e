"""Sessions of a classic group's members, and what is refused to who is none."""

from __future__ import annotations

import pytest

from appliance.groups.classic_timeouts import SESSION_GRAIN_MS
from appliance.groups.member import Sync
from appliance.groups.states import State
from appliance.protocol import ErrorCode
from tests.support.classic_group import SESSION_MS, World, beat, stable


def test_silence_ends_a_session(world: World) -> None:
    one, two = stable(world, "a", "b")
    beat(world, [one], SESSION_MS - 1)
    assert world.state is State.STABLE
    world.wait(1)
    assert world.state is State.PREPARING_REBALANCE
    assert one.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("sign", ["heartbeat", "commit"])
def test_signs_of_life_keep_a_session(world: World, sign: str) -> None:
    (one,) = stable(world, "a")
    for _ in range(20):
        world.wait(SESSION_MS - 1)
        assert getattr(one, sign)() == 0
    world.wait(SESSION_MS)
    assert world.state is State.EMPTY


def test_a_heartbeat_rings_no_timer(world: World) -> None:
    consumers = stable(world, *(f"c{i}" for i in range(20)))
    due_ms, rung = world.group.due_ms, 0
    for _ in range(1000):
        world.now_ms += 100
        for each in consumers:
            assert each.heartbeat() == 0
        if world.group.due_ms <= world.now_ms:
            world.group.tick(world.now_ms)
            rung += 1
    assert rung <= 1000 * 100 // SESSION_MS + 1
    assert world.group.due_ms > due_ms


def test_many_members_that_die_together_are_looked_at_a_few_times(world: World) -> None:
    consumers = stable(world, *(f"c{i}" for i in range(50)))
    for each in consumers:
        world.now_ms += 20
        each.heartbeat()
    ticks, end_ms = 0, world.now_ms + SESSION_MS + 2 * SESSION_GRAIN_MS
    while world.group.due_ms <= end_ms:
        world.now_ms = max(world.now_ms, world.group.due_ms)
        world.group.tick(world.now_ms)
        ticks += 1
    assert world.state is State.EMPTY
    assert ticks <= 50 * 20 // SESSION_GRAIN_MS + 3


def test_a_process_that_stood_still_expires_nobody(world: World) -> None:
    one, two = stable(world, "a", "b")
    world.now_ms += 3 * SESSION_MS
    world.group.postpone(2 * SESSION_MS, world.now_ms)
    world.group.tick(world.now_ms)
    assert [one.heartbeat(), two.heartbeat()] == [0, 0]
    beat(world, [one], SESSION_MS)
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_not_of_the_generation(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.joined.append(one.joined[-1]._replace(generation=1))
    assert [one.heartbeat(), one.commit()] == [ErrorCode.ILLEGAL_GENERATION] * 2
    assert one.sync().synced[-1].error == ErrorCode.ILLEGAL_GENERATION
    two.id = "else"
    assert two.heartbeat() == two.commit() == two.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_that_is_not_the_groups(world: World) -> None:
    (one,) = stable(world, "a")
    for kind, name in (("connect", None), ("consumer", "roundrobin"), (None, "roundrobin")):
        asked = Sync(one.id, None, one.generation, kind, name, {})
        world.group.sync(asked, world.now_ms, one.synced.append)
        assert one.synced[-1].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    asked = Sync(one.id, None, one.generation, "consumer", "range", {})
    world.group.sync(asked, world.now_ms, one.synced.append)
    assert one.synced[-1].error == 0
