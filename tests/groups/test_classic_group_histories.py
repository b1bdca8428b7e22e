"""Random calls to a classic group: each is answered, and the group comes to rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appliance.groups.joins import NEW_MEMBER_JOIN_MS
from appliance.groups.member import NEVER_MS
from appliance.groups.states import State
from tests.support.classic_group import DELAY_MS, REBALANCE_MS, SESSION_MS, Consumer, World


def steps(seed: int) -> Iterator[int]:
    """A sequence that looks random and is the same for a seed on any machine."""
    value = seed
    while True:
        value = (value * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield value >> 33


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_every_call_is_answered_and_the_group_comes_to_rest(seed: int) -> None:
    world, random = World(delay_ms=DELAY_MS if seed % 2 else 0), steps(seed)
    consumers = [
        Consumer(world, f"c{i}", instance=f"i{i}" if i % 3 == 0 else None) for i in range(6)
    ]
    asked = {each.name: [0, 0] for each in consumers}
    for _ in range(400):
        one, what = consumers[next(random) % 6], next(random) % 8
        if what < 3:
            one.join()
            asked[one.name][0] += 1
            if one.joined and one.joined[-1].error:
                one.id = ""
        elif what < 6 and one.joined and not one.joined[-1].error:
            one.sync(*(each for each in consumers if each is not one and each.id))
            asked[one.name][1] += 1
        elif what == 6 and one.joined:
            one.heartbeat()
            one.commit()
            if next(random) % 4 == 0:
                one.leave()
        else:
            world.wait(next(random) % (SESSION_MS if seed % 3 else 500))
        parked = sum(each.join is not None for each in world.group.members)
        assert parked == world.group.members.joining
        assert world.group.unsynced <= {each.id for each in world.group.members}
        assert (world.group.rebalance is not None) == (world.state is State.PREPARING_REBALANCE)
    world.wait(NEW_MEMBER_JOIN_MS + 10 * REBALANCE_MS)
    assert {each.name: [len(each.joined), len(each.synced)] for each in consumers} == asked
    assert (world.state, len(world.group.members)) == (State.EMPTY, 0)
    assert world.group.due_ms == NEVER_MS
