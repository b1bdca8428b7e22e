"""The assignors of consumer groups: fair, complete, and no more moves than must be."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from appliance.groups.assignors import ASSIGNORS, assign_range, assign_uniform
from appliance.groups.handover import Places

A, B, C, D = (UUID(int=each) for each in range(1, 5))


def sizes(found: dict[str, Places]) -> dict[str, int]:
    return {member: len(places) for member, places in found.items()}


def moves(before: dict[str, Places], after: dict[str, Places]) -> int:
    """Partitions that a member had, which is still there, and that others have now."""
    owner = {place: member for member in after for place in before.get(member, ())}
    return sum(
        1
        for member, places in after.items()
        for place in places
        if owner.get(place) not in (None, member)
    )


def everybody(count: int, *topics: UUID) -> dict[str, frozenset[UUID]]:
    return {f"m{i:02}": frozenset(topics) for i in range(count)}


def test_range_gives_the_same_numbers_of_each_topic() -> None:
    found = assign_range(everybody(3, A, B), {A: 7, B: 7}, {})
    assert found["m00"] == {(t, i) for t in (A, B) for i in (0, 1, 2)}
    assert found["m01"] == {(t, i) for t in (A, B) for i in (3, 4)}
    assert found["m02"] == {(t, i) for t in (A, B) for i in (5, 6)}


def test_range_with_more_members_than_partitions() -> None:
    assert sizes(assign_range(everybody(3, A), {A: 2}, {})) == {"m00": 1, "m01": 1, "m02": 0}


def test_uniform_keeps_what_it_can() -> None:
    before = assign_uniform(everybody(2, A), {A: 10}, {})
    assert sizes(before) == {"m00": 5, "m01": 5}
    after = assign_uniform(everybody(3, A), {A: 10}, before)
    assert sorted(map(len, after.values())) == [3, 3, 4]
    assert moves(before, after) == 3
    back = assign_uniform(everybody(2, A), {A: 10}, after)
    assert moves(after, back) == 0, "only what the third left is given out"
    assert assign_uniform(everybody(2, A), {A: 10}, back) == back


def test_uniform_with_different_wishes() -> None:
    wanted = {"a": frozenset({A}), "ab": frozenset({A, B}), "b": frozenset({B})}
    found = assign_uniform(wanted, {A: 6, B: 6}, {})
    assert sizes(found) == {"a": 4, "ab": 4, "b": 4}


def test_uniform_moves_what_a_newcomer_may_have() -> None:
    before = {"a": frozenset((A, i) for i in range(4))}
    wanted = {"a": frozenset({A, B}), "b": frozenset({B})}
    found = assign_uniform(wanted, {A: 4, B: 4}, before)
    assert found["a"] == before["a"]
    assert sizes(found) == {"a": 4, "b": 4}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_topics_that_are_gone(name: str) -> None:
    before = {"m00": frozenset({(A, 0), (B, 0), (B, 1), (C, 0)})}
    found = ASSIGNORS[name](everybody(1, A, B), {B: 1}, before)
    assert found == {"m00": {(B, 0)}}
    assert ASSIGNORS[name]({}, {B: 1}, before) == {}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(60))
def test_any_wishes(name: str, seed: int) -> None:
    chance = random.Random(seed)
    counts = {topic: chance.randint(1, 9) for topic in (A, B, C, D)}
    before: dict[str, Places] = {}
    for _ in range(5):
        wanted = {
            f"m{i}": frozenset(chance.sample([A, B, C, D], chance.randint(0, 4)))
            for i in range(chance.randint(1, 8))
        }
        found = ASSIGNORS[name](wanted, counts, before)
        given = [place for places in found.values() for place in places]
        readable = {topic for topics in wanted.values() for topic in topics}
        assert sorted(given) == sorted((t, i) for t in readable for i in range(counts[t]))
        assert all({topic for topic, _ in found[member]} <= wanted[member] for member in wanted)
        if name == "uniform":
            check_is_even(found, wanted)
        assert ASSIGNORS[name](wanted, counts, found) == found, "the same again"
        before = found


def check_is_even(found: dict[str, Places], wanted: dict[str, frozenset[UUID]]) -> None:
    """No partition could go to somebody who has two less."""
    for member, places in found.items():
        for topic in {topic for topic, _ in places}:
            least = min(len(found[each]) for each in wanted if topic in wanted[each])
            assert len(places) - least < 2, (member, topic)


def test_a_large_group() -> None:
    found = assign_uniform(everybody(100, A), {A: 1000}, {})
    assert set(map(len, found.values())) == {10}
    found = assign_uniform(everybody(101, A), {A: 1000}, found)
    assert set(map(len, found.values())) == {9, 10}
