"""Plans of moves: what goes where, how much, and what stays apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from appliance.cluster import plans
from appliance.cluster.plans import Placed, Plan

NO_RACKS = {1: "", 2: "", 3: "", 4: ""}


def after(placed: list[Placed], plan: Plan) -> dict[tuple[str, int], tuple[int, ...]]:
    found = {each.key: each.replicas for each in placed}
    return found | {each.of.key: each.replicas for each in plan.moves}


def test_off_a_broker_goes_to_who_has_least_and_leads_as_before() -> None:
    placed = [Placed("a", 0, (3, 1), 100), Placed("a", 1, (1, 3), 10), Placed("b", 0, (1, 2), 5)]
    plan = plans.off(3, placed, NO_RACKS)
    assert after(placed, plan) == {("a", 0): (4, 1), ("a", 1): (1, 2), ("b", 0): (1, 2)}
    assert (plan.size, plan.stuck) == (110, [])


def test_without_another_broker_it_stays_and_is_told() -> None:
    placed = [Placed("a", 0, (1, 2, 3)), Placed("b", 0, (3,))]
    plan = plans.off(3, placed, {1: "", 2: "", 3: ""})
    assert plan.stuck == [placed[0]]
    assert [each.of for each in plan.moves] == [placed[1]]


def test_it_may_have_a_replica_less_but_never_none() -> None:
    placed = [Placed("a", 0, (3, 1)), Placed("b", 0, (3,))]
    plan = plans.off(3, placed, {1: "", 3: ""}, may_be_fewer=True)
    assert after(placed, plan) == {("a", 0): (1,), ("b", 0): (1,)}
    assert plans.off(3, placed[1:], {3: ""}, may_be_fewer=True).stuck == placed[1:]


def test_racks_stay_apart() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    placed = [Placed("t", each, (1, 3)) for each in range(6)] + [Placed("u", 0, (5,))]
    for replicas in after(placed, plans.off(3, placed, racks)).values():
        assert len({racks[each] for each in replicas}) == len(replicas)
    for replicas in after(placed, plans.even(placed, racks)).values():
        assert len({racks[each] for each in replicas}) == len(replicas)


def test_in_the_place_of_a_broker_comes_another() -> None:
    placed = [Placed("a", 0, (3, 1), 7), Placed("a", 1, (4, 3)), Placed("a", 2, (1, 2))]
    plan = plans.in_place_of(3, 4, placed, {1: "", 2: "", 4: ""})
    assert after(placed, plan) == {("a", 0): (4, 1), ("a", 1): (4, 2), ("a", 2): (1, 2)}
    full = plans.in_place_of(3, 4, [Placed("a", 0, (3, 4))], {4: ""})
    assert len(full.stuck) == 1


def test_more_replicas_come_to_who_has_least_and_leaders_stay() -> None:
    placed = [Placed("a", 0, (3,), 7), Placed("a", 1, (3, 1)), Placed("a", 2, (1, 2, 4))]
    plan = plans.up_to(2, placed, NO_RACKS)
    assert after(placed, plan) == {("a", 0): (3, 2), ("a", 1): (3, 1), ("a", 2): (1, 2, 4)}
    assert (plan.size, plan.stuck) == (7, [])
    racks = {1: "a", 2: "a", 3: "b"}
    assert after(placed[:1], plans.up_to(2, [Placed("a", 0, (1,))], racks)) == {("a", 0): (1, 3)}
    assert plans.up_to(4, placed[:1], racks).stuck == placed[:1]


def test_even_moves_the_smallest_and_no_more_than_it_must() -> None:
    placed = [Placed("t", 0, (1,), 1000), Placed("t", 1, (1,), 10), Placed("t", 2, (1,), 5)]
    plan = plans.even(placed, {1: "", 2: ""})
    assert [(str(each.of), each.replicas) for each in plan.moves] == [("t-2", (2,))]
    assert plans.even(placed[:1], {1: "", 2: ""}).moves == []


def test_leaders_are_evened_without_a_byte() -> None:
    placed = [Placed("t", each, (1, 2, 3), 100) for each in range(6)]
    plan = plans.even(placed, {1: "", 2: "", 3: ""})
    led = Counter(replicas[0] for replicas in after(placed, plan).values())
    assert led == {1: 2, 2: 2, 3: 2}
    assert plan.size == 0


def test_a_partition_with_a_dead_replica_stays() -> None:
    placed = [Placed("t", each, (9, 1)) for each in range(4)]
    assert plans.even(placed, {1: "", 2: ""}).moves == []


@pytest.mark.parametrize("seed", range(20))
def test_afterwards_all_have_as_much_whatever_it_was(seed: int) -> None:
    chance = random.Random(seed)
    racks = dict.fromkeys(range(chance.randint(2, 7)), "")
    placed = [
        Placed(f"t{each % 5}", each, tuple(chance.sample([*racks], chance.randint(1, len(racks)))),
               chance.randint(0, 1000))
        for each in range(chance.randint(0, 60))
    ]  # fmt: skip
    plan = plans.even(placed, racks)
    found = after(placed, plan)
    assert {key: len(each) for key, each in found.items()} == {
        each.key: len(each.replicas) for each in placed}  # fmt: skip
    assert all(len({*each}) == len(each) for each in found.values())
    counts = Counter(dict.fromkeys(racks, 0))
    counts.update(node for each in found.values() for node in each)
    assert max(counts.values()) - min(counts.values()) <= 1
