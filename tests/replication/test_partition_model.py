"""Within bounds the protocol of `docs/replication.md` keeps its promises in every order of steps,
and each bug that is planted breaks one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replication.bounds import BOUNDS, FOUND, IN_GATE, NEEDLESS
from tests.replication.bugs import BUGS
from tests.replication.explorer import explore
from tests.replication.invariants import INVARIANTS
from tests.replication.partition_model import Model
from tests.support.release import gate_has, in_release

PAGE = Path(__file__).parents[2] / "docs/replication.md"
LONG = "a search of seconds to minutes"
FOUND_SOON = [bug for bug, found in FOUND.items() if found.states < 20_000]


@pytest.mark.parametrize("name", gate_has(IN_GATE, LONG, BOUNDS))
def test_every_order_of_steps_keeps_the_promises(name: str) -> None:
    bounds, model = BOUNDS[name], Model()
    search = explore(model, bounds.first(model))
    assert not search.violation, search
    assert (search.states, search.depth) == (bounds.states, bounds.depth)


@pytest.mark.parametrize("bug", gate_has(FOUND_SOON, LONG, FOUND))
def test_a_planted_bug_is_found(bug: str) -> None:
    found, model = FOUND[bug], Model(bug)
    search = explore(model, BOUNDS[found.within].first(model))
    assert search.violation, f"nothing is violated in {search.states} states"
    assert (search.invariant, len(search.path)) == (found.invariant, found.steps), search
    assert search.states == found.states


@pytest.mark.parametrize("rule", in_release(LONG, NEEDLESS))
def test_a_rule_that_another_one_covers_is_not_missed(rule: str) -> None:
    """The page says so. States that are reached only without it show that it was broken."""
    bounds, model = BOUNDS[NEEDLESS[rule]], Model(rule)
    search = explore(model, bounds.first(model))
    assert not search.violation, search
    assert search.states > bounds.states


def test_each_bug_has_bounds_and_each_invariant_is_broken_by_one() -> None:
    assert {*FOUND, *NEEDLESS} == set(BUGS)
    assert {found.invariant for found in FOUND.values()} == set(INVARIANTS)


def test_the_page_has_the_figures() -> None:
    page = PAGE.read_text()
    rows = [f"| {name} | {each.states:,} | {each.depth} |" for name, each in BOUNDS.items()]
    rows += [
        f"| {bug} | {each.invariant} | {each.within} | {each.steps} | {each.states:,} |"
        for bug, each in FOUND.items()
    ]
    assert not [each for each in rows if each not in page]
