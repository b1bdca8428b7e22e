"""Who leads a partition, as a table. `test_election_model.py` compares it with the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.cluster import election
from appliance.cluster.election import Voters
from appliance.cluster.forms import NOBODY, PartitionState, Replicas

REPLICAS = (1, 2, 3)
ALL = {1: 11, 2: 12, 3: 13}


def state(leader: int, isr: Replicas, eligible: Replicas = ()) -> PartitionState:
    return PartitionState(leader, ALL.get(leader, 0), 5, isr, eligible, 2, 9)


def living(*brokers: int) -> dict[int, int]:
    return {each: ALL[each] for each in brokers}


# what it is, who lives, who leaves; leader, ISR and eligible afterwards, None: nothing changes.
# min.insync.replicas is 2.
ELECTIONS = {
    "the leader lives": (state(1, (1, 2, 3)), living(1, 2, 3), (), None),
    "a follower is gone": (state(1, (1, 2, 3)), living(1, 2), (), None),
    "the leader is gone": (state(1, (1, 2, 3)), living(2, 3), (), (2, (2, 3), ())),
    "in the order of replicas": (state(1, (3, 2, 1)), living(2, 3), (), (2, (3, 2), ())),
    "one of the ISR is left": (state(1, (1, 2, 3)), living(3), (), (3, (3,), (1, 2))),
    "not who lives outside the ISR": (state(1, (1, 3)), living(2, 3), (), (3, (3,), (1,))),
    "the leader came back": (state(1, (1, 2)), {**ALL, 1: 99}, (), (1, (1, 2), ())),
    "alone and came back": (state(1, (1,)), {1: 99}, (), (1, (1,), ())),
    "it took itself out": (state(1, (2, 3)), ALL, (), (2, (2, 3), ())),
    "and was the last": (state(1, ()), ALL, (), (NOBODY, (), ())),
    "nobody lives": (state(1, (1, 2)), {}, (), (NOBODY, (1, 2), ())),
    "nobody of the ISR lives": (state(1, (1, 2)), living(3), (), (NOBODY, (1, 2), ())),
    "still nobody": (state(NOBODY, (1, 2)), living(3), (), None),
    "one came back": (state(NOBODY, (1, 2)), living(2, 3), (), (2, (2,), (1,))),
    "an eligible one": (state(1, (1,), (2,)), living(2, 3), (), (2, (2,), (1,))),
    "the ISR before the eligible": (state(1, (1, 3), (2,)), living(2, 3), (), (3, (3,), (1, 2))),
    "the ISR is lost, an eligible lives": (state(NOBODY, (), (3,)), ALL, (), (3, (3,), ())),
    "nothing is left of the ISR": (state(NOBODY, ()), ALL, (), None),
    "who leaves is the last choice": (state(1, (1, 2, 3)), living(2, 3), (2,), (3, (3,), (1, 2))),
    "who leaves rather than nobody": (state(1, (1, 2)), living(2), (2,), (2, (2,), (1,))),
    "a broker without a life": (state(1, (1, 2)), {2: 0}, (), (NOBODY, (1, 2), ())),
}


@pytest.mark.parametrize("case", ELECTIONS)
def test_elections(case: str) -> None:
    before, lives, leaving, wanted = ELECTIONS[case]
    after = election.elected(before, REPLICAS, Voters(lives, leaving), 2)
    if wanted is None:
        assert after is None
        return
    assert after is not None
    assert (after.leader, after.isr, after.eligible) == wanted
    assert after.leader_life == lives.get(after.leader, 0)
    assert (after.leader_epoch, after.version) == (6, 9)


def test_an_isr_that_is_large_enough_leaves_nobody_eligible() -> None:
    after = election.elected(state(1, (1, 2, 3), (4,)), (1, 2, 3, 4), Voters(living(2, 3)), 2)
    assert after is not None
    assert (after.isr, after.eligible) == ((2, 3), ())
    after = election.elected(state(1, (1, 2, 3)), REPLICAS, Voters(living(2)), 1)
    assert after is not None
    assert (after.isr, after.eligible) == ((2,), ())


def test_anybody_else_only_when_a_person_says_so() -> None:
    voters = Voters(living(3))
    lost = state(NOBODY, (1,), (2,))
    assert election.elected(lost, REPLICAS, voters, 2) is None
    after = election.elected(lost, REPLICAS, voters, 2, unclean=True)
    assert after == PartitionState(3, 13, 6, (3,), (), 2, 9, unclean=6)
    led = state(1, (1,))
    assert election.elected(led, REPLICAS, Voters(living(1, 3)), 2, unclean=True) is None
    clean = election.elected(state(1, (1, 2)), REPLICAS, Voters(living(2, 3)), 2, unclean=True)
    assert clean is not None
    assert clean.leader == 2, "who has all is chosen even then"
    assert election.elected(lost, REPLICAS, Voters({}), 2, unclean=True) is None


MOVES = {
    "to the next of the ISR": (state(1, (1, 2, 3)), living(1, 2, 3), (1,), (2, (2, 3), ())),
    "not to who is outside": (state(1, (1, 3)), living(1, 2, 3), (1,), (3, (3,), (1,))),
    "not to who leaves too": (state(1, (1, 2, 3)), living(1, 2, 3), (1, 2), (3, (3,), (1, 2))),
    "not to the dead": (state(1, (1, 2)), living(1, 3), (1,), None),
    "it is alone": (state(1, (1,)), living(1, 2, 3), (1,), None),
    "another one leads": (state(2, (1, 2)), living(1, 2, 3), (1,), None),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_controlled_stop_moves_leaders(case: str) -> None:
    before, lives, leaving, wanted = MOVES[case]
    after = election.moved_away(before, REPLICAS, Voters(lives, leaving), 2)
    assert (after and (after.leader, after.isr, after.eligible)) == wanted
    assert after is None or after.leader_epoch == 6


def test_the_preferred_leader_is_the_first_replica() -> None:
    everybody = Voters(ALL)
    after = election.preferred(state(2, (1, 2, 3)), REPLICAS, everybody, 2)
    assert after == replace(state(1, (1, 2, 3)), leader_epoch=6)
    assert election.preferred(state(1, (1, 2)), REPLICAS, everybody, 2) is None
    assert election.preferred(state(2, (2, 3)), REPLICAS, everybody, 2) is None
    assert election.preferred(state(2, (1, 2)), REPLICAS, Voters(living(2, 3)), 2) is None
    assert election.preferred(state(2, (1, 2)), REPLICAS, Voters(ALL, (1,)), 2) is None


def test_a_new_partition_is_led_by_the_first_that_lives() -> None:
    first = election.first_state
    assert first(REPLICAS, Voters(ALL), 2) == PartitionState(1, 11, 0, (1, 2, 3))
    assert first(REPLICAS, Voters(living(2, 3)), 2) == PartitionState(2, 12, 0, (2, 3))
    alone = first(REPLICAS, Voters(living(3)), 2)
    assert alone == PartitionState(3, 13, 0, (3,), (1, 2)), "all are equally empty"
    nobody = first(REPLICAS, Voters({}), 2)
    assert nobody == PartitionState(NOBODY, 0, 0, (1, 2, 3))
    assert election.elected(nobody, REPLICAS, Voters(living(2)), 1) is not None


def test_what_a_leader_writes() -> None:
    led = state(1, (1, 2, 3))
    assert election.with_isr(led, (1, 2), 2) == state(1, (1, 2))
    alone = election.with_isr(led, (1,), 2)
    assert alone == state(1, (1,), (2, 3))
    assert election.with_isr(alone, (1,), 2) == alone
    assert election.with_isr(alone, (1, 3), 3) == state(1, (1, 3), (2,))
    assert election.with_isr(alone, (1, 3), 2) == state(1, (1, 3))
    assert election.with_isr(alone, (1,), 1) == state(1, (1,)), "after min.insync was lowered"


def test_who_lost_its_replica_is_nowhere() -> None:
    assert election.without(state(1, (1, 2), (3,)), 3) == state(1, (1, 2))
    assert election.without(state(1, (1, 2), (3,)), 1) == state(1, (2,), (3,))
