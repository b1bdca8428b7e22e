"""Joining a classic group: ids, votes, repeated joins, and what members read."""

from __future__ import annotations

import pytest

from appliance.groups.member import Synced
from appliance.groups.states import State
from appliance.protocol import ErrorCode
from tests.support.classic_group import (
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    World,
    errors,
    stable,
)
from tests.support.group_client import subscription

# Joining


def test_a_member_alone_is_a_generation(world: World) -> None:
    one = Consumer(world, "a").join()
    (joined,) = one.joined
    assert (joined.error, joined.generation, joined.leader) == (0, 1, one.id)
    assert [(each.member_id, each.metadata) for each in joined.members] == [(one.id, RANGE[0][1])]
    assert world.state is State.COMPLETING_REBALANCE
    one.sync()
    assert world.state is State.STABLE
    assert one.synced == [Synced(0, "consumer", "range", b"a")]


def test_consumers_that_start_together_make_one_rebalance() -> None:
    world = World(delay_ms=DELAY_MS)
    consumers = []
    for i in range(5):
        consumers.append(Consumer(world, f"c{i}").join())
        world.wait(DELAY_MS - 1)  # each newcomer makes it wait again, once
    assert all(not each.joined for each in consumers)
    world.wait(2 * DELAY_MS)
    assert {each.generation for each in consumers} == {1}
    assert [each.is_leader for each in consumers] == [True, False, False, False, False]
    assert len(consumers[0].joined[0].members) == 5


def test_newcomers_cannot_hold_up_the_first_rebalance_for_ever() -> None:
    world = World(delay_ms=1000)
    first, began_ms = Consumer(world, "first").join(), world.now_ms
    while not first.joined:
        Consumer(world, str(world.now_ms)).join()
        world.wait(500)
        assert world.now_ms <= began_ms + REBALANCE_MS


def test_one_consumer_waits_for_the_delay_only_once() -> None:
    world = World(delay_ms=DELAY_MS)
    one = Consumer(world, "a").join()
    world.wait(DELAY_MS - 1)
    assert not one.joined
    world.wait(1)
    assert one.generation == 1


def test_an_id_is_given_first_and_must_be_used_in_time(world: World) -> None:
    one, two = Consumer(world, "a").join(needs_id=True), Consumer(world, "b").join(needs_id=True)
    assert errors(one.joined) == [ErrorCode.MEMBER_ID_REQUIRED]
    assert len(world.group.members) == 0
    one.join(needs_id=True)
    assert len(one.joined) == 1  # waits for b, which is on its way
    world.wait(SESSION_MS)
    assert one.generation == 1
    two.join(needs_id=True)
    assert errors(two.joined) == [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_id_that_was_given_is_no_way_to_be_an_instance_twice(world: World) -> None:
    """Once both were members of the instance, and the second that left took the group with it."""
    static = Consumer(world, "s", instance="i").join().sync()
    new = Consumer(world, "n").join(needs_id=True)
    new.instance = "i"
    assert errors(new.join().joined) == [
        ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID
    ]  # fmt: skip
    assert world.group.members.static == {"i": static.id}
    assert static.leave() == 0
    world.wait(SESSION_MS)
    assert (len(world.group.members), world.group.members.static) == (0, {})


def test_who_has_only_an_id_may_leave(world: World) -> None:
    one, two = Consumer(world, "a").join(needs_id=True), Consumer(world, "b").join()
    assert not two.joined
    assert one.leave() == 0
    assert two.generation == 1


def test_the_protocol_with_most_votes_of_those_that_all_know(world: World) -> None:
    lists = ["xr", "rx", "yrx", "zrx"]
    consumers = [Consumer(world, n, protocols=[(p, b"") for p in n]) for n in lists]
    for i, each in enumerate(consumers):
        each.join()
        for other in consumers[:i]:
            other.join()
    assert {each.joined[-1].protocol_name for each in consumers} == {"r"}


def test_a_second_join_of_a_member_answers_the_first(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    one.join()
    assert errors(one.joined)[-1:] == [ErrorCode.REBALANCE_IN_PROGRESS]
    two.join()
    assert (one.generation, two.generation) == (3, 3)


def test_a_join_that_is_lost_and_repeated_gets_the_generation_again(world: World) -> None:
    one, two = stable(world, "a", "b")
    for each in (one, two):
        each.join()
    assert world.state is State.COMPLETING_REBALANCE
    again = two.join().joined[-1]
    assert (again.generation, again.leader, again.members) == (3, one.id, ())
    assert len(one.join().joined[-1].members) == 2
    assert world.group.generation == 3


def test_a_follower_that_joins_again_as_it_was_changes_nothing(world: World) -> None:
    one, two = stable(world, "a", "b")
    assert (two.join().generation, world.state) == (2, State.STABLE)
    assert two.sync().synced[-1].assignment == b"b"
    one.join()  # the leader, which saw something change
    assert world.state is State.PREPARING_REBALANCE


def test_a_follower_that_wants_something_else_begins_a_rebalance(world: World) -> None:
    one, two = stable(world, "a", "b")
    two.protocols = [("range", subscription("t", "u"))]
    two.join()
    assert world.state is State.PREPARING_REBALANCE
    assert one.join().joined[-1].members[1].metadata == subscription("t", "u")


def test_a_full_group_takes_nobody_in() -> None:
    world = World(max_size=2)
    stable(world, "a", "b")
    assert errors(Consumer(world, "c").join().joined) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert world.state is State.STABLE


# What members read


def test_topics_that_members_read(world: World) -> None:
    assert world.group.subscribed() is None
    Consumer(world, "a", protocols=[("range", subscription("t", "u"))]).join()
    assert world.group.subscribed() == {"t", "u"}


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\x09ab"])
def test_metadata_that_is_not_a_consumers_tells_nothing(world: World, metadata: bytes) -> None:
    Consumer(world, "a", protocols=[("range", metadata)]).join()
    assert world.group.subscribed() is None
