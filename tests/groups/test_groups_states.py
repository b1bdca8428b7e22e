"""The state table of classic groups: what follows what, and what is refused when."""

from __future__ import annotations

import pytest

from appliance.config import GroupsConfig
from appliance.errors import ApplianceError
from appliance.groups.group import Group
from appliance.groups.member import Stored
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import REFUSED, TRANSITIONS, Ask, GroupRefused, State
from appliance.protocol import ErrorCode


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(State)


def test_no_state_follows_itself_and_nothing_follows_dead() -> None:
    assert all(state not in after for state, after in TRANSITIONS.items())
    assert TRANSITIONS[State.DEAD] == frozenset()


def test_every_state_is_reached_from_empty() -> None:
    found, new = {State.EMPTY}, {State.EMPTY}
    while new:
        new = {after for each in new for after in TRANSITIONS[each]} - found
        found |= new
    assert found == set(State)


def test_the_names_are_those_that_clients_know() -> None:
    assert [each.value for each in State] == [
        "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead",
    ]  # fmt: skip


def test_what_is_refused_asks_to_join_again() -> None:
    assert set(REFUSED) == set(Ask)
    codes = {code for by_state in REFUSED.values() for code in by_state.values()}
    assert codes == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert not any(State.STABLE in by_state for by_state in REFUSED.values())


def store(value: GroupMetadataValue, done: Stored) -> None:
    done(None, 0)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("after", State)
def test_a_transition_that_is_not_in_the_table_is_a_fault(state: State, after: State) -> None:
    group = Group("g", GroupsConfig(), store, state)
    if after in TRANSITIONS[state]:
        group._go(after)
        assert group.state is after
    else:
        with pytest.raises(AssertionError, match="g: "):
            group._go(after)


@pytest.mark.parametrize("state", State)
def test_only_an_empty_group_is_deleted(state: State) -> None:
    group = Group("g", GroupsConfig(), store, state)
    if state is State.EMPTY:
        group.delete()
        assert group.state is State.DEAD
        return
    with pytest.raises(GroupRefused) as caught:
        group.delete()
    assert caught.value.kafka_code == ErrorCode.NON_EMPTY_GROUP
    assert isinstance(caught.value, ApplianceError)
