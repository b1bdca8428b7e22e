"""The rules of elections against the model of the protocol, which a search has tried: for all
states of three brokers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from appliance.cluster import election
from appliance.cluster.election import Voters
from appliance.cluster.forms import NOBODY, PartitionState, Replicas
from tests.replication import controller
from tests.replication.state import (
    BROKERS,
    EVERYBODY,
    Budget,
    State,
    Tree,
    eligible_after,
    members,
)
from tests.replication.state import first_state as state_of_model

REPLICAS = tuple(range(BROKERS))
BUDGET = Budget(elections=1)


def states() -> Iterator[tuple[PartitionState, dict[int, int]]]:
    """Every leader, ISR and eligible, and every broker dead, alive, or alive again."""
    masks = range(EVERYBODY + 1)
    for leader, isr, eligible in product((NOBODY, *REPLICAS), masks, masks):
        if isr & eligible:
            continue
        for lives in product((0, 1, 2), repeat=BROKERS):
            life = 1 if leader != NOBODY else 0
            state = PartitionState(leader, life, 1, of(isr), of(eligible), 0, 1)
            yield state, {node: each for node, each in enumerate(lives) if each}


def of(mask: int) -> Replicas:
    return tuple(members(mask))


def mask_of(replicas: Replicas) -> int:
    return sum(1 << each for each in replicas)


def tree_of(state: PartitionState, lives: dict[int, int], min_insync: int = 2) -> Tree:
    live = tuple(lives.get(node, 0) for node in REPLICAS)
    return Tree(
        1, state.version, state.leader, state.leader_life, state.leader_epoch, mask_of(state.isr),
        mask_of(state.eligible), live, live, 1, min_insync,
    )  # fmt: skip


def in_model(state: PartitionState, lives: dict[int, int], min_insync: int = 2) -> State:
    model = state_of_model(BUDGET)
    model.tree = tree_of(state, lives, min_insync)
    return model


def after_of(tree: Tree) -> tuple[object, ...]:
    return tree.leader, tree.life, tree.epoch, tree.isr, tree.eligible


def elections_in_model(
    state: PartitionState, lives: dict[int, int], min_insync: int
) -> list[tuple[object, ...]]:
    model = in_model(state, lives, min_insync)
    return [after_of(after.tree) for _, after in controller.elect("", model)]


@pytest.mark.parametrize("min_insync", [1, 2, 3])
def test_each_election_is_one_of_the_models(min_insync: int) -> None:
    elections = 0
    for state, lives in states():
        after = election.elected(state, REPLICAS, Voters(lives), min_insync)
        wanted = elections_in_model(state, lives, min_insync)
        assert (after is None) == (not wanted), (state, lives)
        if after:
            assert after_of(tree_of(after, lives)) in wanted, (state, lives, after)
            elections += 1
    assert elections > 1000


@pytest.mark.parametrize("min_insync", [1, 2, 3])
def test_a_leader_keeps_the_same_eligible_as_the_model(min_insync: int) -> None:
    for state, _ in states():
        for isr in range(1, EVERYBODY + 1):
            left = mask_of(state.isr) & ~isr
            wanted = eligible_after(mask_of(state.eligible), left, isr, min_insync)
            found = election.with_isr(state, of(isr), min_insync)
            assert (mask_of(found.isr), mask_of(found.eligible)) == (isr, wanted), state


def test_who_lost_a_replica_resigns_as_in_the_model() -> None:
    for state, lives in states():
        for node in REPLICAS:
            model = in_model(state, lives)
            controller._resign(model, node)
            found = election.without(state, node)
            wanted = model.tree.isr, model.tree.eligible
            assert (mask_of(found.isr), mask_of(found.eligible)) == wanted


@pytest.mark.parametrize("min_insync", [1, 2, 3])
def test_a_controlled_stop_is_a_shrunk_isr_and_an_election(min_insync: int) -> None:
    """Both are steps that the model takes in any order."""
    moves = 0
    for state, lives in states():
        if lives.get(state.leader) != state.leader_life or state.leader not in state.isr:
            continue
        after = election.moved_away(state, REPLICAS, Voters(lives, [state.leader]), min_insync)
        if after is None:
            continue
        gone = {node: life for node, life in lives.items() if node != state.leader}
        found = after_of(tree_of(after, lives))
        assert found in elections_in_model(state, gone, min_insync), state
        moves += 1
    assert moves == 96, "of all states"
