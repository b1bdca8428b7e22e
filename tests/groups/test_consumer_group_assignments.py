"""Who gets which partitions in a group of the newer protocol: moves, assignors, patterns."""

from __future__ import annotations

import pytest

from appliance.groups.consumer_member import LEAVING
from appliance.groups.handover import NOWHERE
from appliance.groups.states import ConsumerState
from appliance.protocol import ErrorCode
from tests.support.consumer_group import REBALANCE_MS, Client, World, settle


def test_a_partition_moves_only_after_its_owner_let_go() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    answer = two.beat()
    assert (answer.epoch, answer.assigned) == (2, NOWHERE)
    assert world.group.state is ConsumerState.RECONCILING
    told = one.beat()
    assert (told.epoch, len(told.assigned or ())) == (1, 2), "told to let go, in its old epoch"
    assert two.beat().assigned is None, "not yet let go"
    done = one.beat()
    assert (done.epoch, done.assigned) == (2, None)
    assert len(two.beat().assigned or ()) == 2
    assert one.owned | two.owned == world.topics.all("t")
    assert world.group.state is ConsumerState.STABLE


def test_a_member_that_does_not_say_what_it_has_has_not_let_go() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    two.beat()
    one.beat()
    assert one.beat(owned=None).epoch == 1
    assert one.beat().epoch == 2


def test_an_assignor_that_does_not_exist() -> None:
    world = World()
    answer = Client(world, "one", assignor="best").beat()
    assert answer.error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (answer.message or "")
    assert not world.group.members


def test_the_assignor_that_most_ask_for() -> None:
    world = World()
    one, two, three = (Client(world, each) for each in ("one", "two", "three"))
    two.facts["assignor"] = three.facts["assignor"] = "range"
    one.beat()
    assert world.group.assignor == "uniform"
    two.beat()
    three.beat()
    assert world.group.assignor == "range"


@pytest.mark.parametrize("pattern", ["(", "*", "(?=a)", r"(a)\1", "a{1000}{1000}"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    world = World()
    answer = Client(world, "one", topics=None, pattern=pattern).beat()
    assert answer.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert repr(pattern) in (answer.message or "")
    assert not world.group.members


def test_a_pattern_follows_topics_as_they_come_and_go() -> None:
    world = World(a1=1, a2=2, ba=1)
    one = Client(world, "one", topics=None, pattern="a.*")
    assert one.beat().assigned == world.topics.all("a1", "a2")
    world.topics.change(a3=1, b=1)
    one.beat()
    assert one.owned == world.topics.all("a1", "a2", "a3")
    world.topics.change(a1=0)
    one.beat()
    assert one.owned == world.topics.all("a2", "a3")
    assert world.disk.stored().patterns == {"a.*": frozenset({"a2", "a3"})}
    one.beat(pattern="", topics=("b",))
    settle(one)
    assert one.owned == world.topics.all("b")
    assert world.disk.stored().patterns == {}


def test_a_pattern_that_would_take_forever_elsewhere() -> None:
    world = World(**{"a" * 200: 1})
    one = Client(world, "one", topics=None, pattern="(a+)+b")
    assert one.beat().assigned == NOWHERE


def test_new_partitions_are_given_out() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    world.topics.change(t=7, other=1)
    assert one.beat().assigned == world.topics.all("t")
    assert (one.epoch, len(one.owned)) == (2, 7)
    world.topics.change(other=0)
    assert (one.beat().assigned, one.epoch) == (None, 2), "none of its topics"


def test_a_member_that_does_not_let_go_is_out() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    two.beat()
    one.beat()
    for _ in range(4):
        world.wait(REBALANCE_MS // 4 - 1)
        one.beat(owned=world.topics.all("t"))
        two.beat()
    assert len(world.group.members) == 2
    world.wait(4)
    assert list(world.group.members) == ["two"]
    assert two.beat().assigned == world.topics.all("t")


def test_leaving_gives_all_to_the_others() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    answer = one.beat(LEAVING)
    assert (answer.error, answer.epoch) == (0, LEAVING)
    assert two.beat().assigned == world.topics.all("t")
    two.beat(LEAVING)
    assert world.group.state is ConsumerState.EMPTY
    assert world.disk.stored().members == {}
