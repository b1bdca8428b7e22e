"""Members of one group of the newer protocol: they join, are fenced, fall silent, leave."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.groups.consumer_member import AWAY, JOINING, LEAVING
from appliance.groups.handover import NOWHERE
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.protocol import ErrorCode
from tests.support.consumer_group import SESSION_MS, Client, World, settle


def test_the_first_member_gets_everything_at_once() -> None:
    world = World()
    one = Client(world, "one")
    answer = one.beat()
    assert (answer.error, answer.member_id, answer.epoch) == (0, "one", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert answer.assigned == world.topics.all("t")
    assert world.group.state is ConsumerState.STABLE
    assert one.beat().assigned is None, "nothing changed"


def test_a_member_that_becomes_another_instance_can_leave_and_time_out() -> None:
    """Once the group had it under the old name alone: it could neither leave nor time out."""
    for before in (None, "a"):
        world = World()
        one = Client(world, "one", instance=before)
        one.beat()
        one.facts["instance"] = "b"
        assert one.beat(JOINING).error == 0
        assert world.group.static == {"b": "one"}
        if before is None:
            assert one.beat(LEAVING).error == 0
        else:
            world.wait(SESSION_MS + 1)
        assert (world.group.members, world.group.static, world.group.owners) == ({}, {}, {})


def test_an_instance_that_comes_back_under_the_id_of_another_member() -> None:
    """Who had that id is no more, and its partitions are free."""
    world = World(t=4)
    one, two = Client(world, "one", instance="i"), Client(world, "two")
    settle(one, two)
    one.beat(AWAY)
    back = Client(world, "two", instance="i")
    assert back.beat().error == 0
    settle(back)
    assert world.held() == {"two": world.topics.all("t")}
    assert back.beat(LEAVING).error == 0
    assert (world.group.members, world.group.static, world.group.owners) == ({}, {}, {})


@pytest.mark.parametrize(
    ("epoch", "said"),
    [(5, {}), (1, {"owned": None})],
    ids=["an epoch that never was", "the epoch before, and it may have more than it should"],
)
def test_epochs_that_are_fenced(epoch: int, said: dict[str, Any]) -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    settle(one, two)
    assert (one.epoch, world.group.epoch) == (2, 2)
    assert one.beat(epoch, **said).error == ErrorCode.FENCED_MEMBER_EPOCH
    had, one.owned = one.owned, NOWHERE
    again = one.beat(JOINING)
    assert (again.error, again.epoch, again.assigned) == (0, 2, had)


def test_a_lost_answer_is_asked_for_again() -> None:
    world = World()
    one = Client(world, "one")
    one.ask()
    one.answers.clear()
    answer = one.beat(JOINING)
    assert (answer.error, answer.epoch, answer.assigned) == (0, 1, world.topics.all("t"))
    two = Client(world, "two")
    two.beat()
    one.beat()
    one.ask()
    one.answers.clear()
    assert world.group.members["one"].now.epoch == 2
    assert (one.epoch, one.beat().epoch) == (1, 2)


def test_an_unknown_member_is_told_so() -> None:
    world = World()
    assert Client(world, "one").beat(3).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert Client(world, "one").beat(LEAVING).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    world.wait(SESSION_MS - 1)
    one.beat()
    world.wait(1)
    assert list(world.group.members) == ["one"]
    assert one.beat().assigned == world.topics.all("t")
    assert two.beat().error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_process_that_stood_still_blames_nobody() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    world.now_ms += 10 * SESSION_MS
    world.group.postpone(10 * SESSION_MS, world.now_ms)
    world.group.tick(world.now_ms)
    assert one.beat().error == 0
    world.wait(SESSION_MS)
    assert not world.group.members


# Static members


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = World()
    one, two = Client(world, "one", instance="i"), Client(world, "two")
    settle(one, two)
    had, epoch = one.owned, world.group.epoch
    assert one.beat(AWAY).epoch == AWAY
    again = Client(world, "one-again", instance="i")
    answer = again.beat()
    assert (answer.error, answer.epoch, answer.assigned) == (0, epoch, had)
    assert world.group.epoch == epoch, "nobody else noticed"
    assert one.beat(epoch).error == ErrorCode.FENCED_INSTANCE_ID
    world.restart()
    assert (again.beat().error, again.owned) == (0, had)


def test_an_instance_in_use_is_not_released() -> None:
    world = World()
    Client(world, "one", instance="i").beat()
    answer = Client(world, "two", instance="i").beat()
    assert answer.error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert Client(world, "one", instance="j").beat(1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_out() -> None:
    world = World()
    one, two = Client(world, "one", instance="i"), Client(world, "two")
    settle(one, two)
    one.beat(AWAY)
    assert one.beat(2).error == ErrorCode.FENCED_MEMBER_EPOCH
    world.wait(SESSION_MS - 1)
    two.beat()
    world.wait(1)
    assert two.beat().assigned == world.topics.all("t")


# Limits and deletion


def test_a_full_group_takes_nobody() -> None:
    world = World(size_max=1)
    one = Client(world, "one", instance="i")
    one.beat()
    assert Client(world, "two").beat().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    one.beat(AWAY)
    assert Client(world, "again", instance="i").beat().error == 0


def test_a_group_with_members_is_not_deleted() -> None:
    world = World()
    one = Client(world, "one", topics=(), pattern="t")
    one.beat()
    with pytest.raises(GroupRefused) as caught:
        world.group.delete()
    assert caught.value.kafka_code == ErrorCode.NON_EMPTY_GROUP
    one.beat(LEAVING)
    world.group.delete()
    world.disk.latest.update(world.group.tombstones())
    assert set(world.disk.latest.values()) == {None}
