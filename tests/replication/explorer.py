"""Tries every order of the steps of a model, breadth first, so that what it finds is shortest."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tests.replication.invariants import Violated
from tests.replication.partition_model import Model
from tests.replication.state import Budget, State
from tests.replication.symmetry import Symmetry


@dataclass
class Search:
    states: int = 0
    steps: int = 0
    depth: int = 0
    invariant: str = ""  # that was violated
    violation: str = ""
    path: list[str] = field(default_factory=list)


# How a state was reached: which of the steps from the one before, and how that was reached.
Trail = tuple[int, Any] | None


class Seen:
    """A state with more left of each bound can do all that the same one with less can."""

    def __init__(self) -> None:
        self.symmetry = Symmetry()
        self.budgets: dict[tuple[int, ...], tuple[Budget, ...]] = {}

    def is_new(self, state: State) -> bool:
        key = self.symmetry.canonical(state)
        known, budget = self.budgets.get(key, ()), state.budget
        for each in known:
            if each == budget or all(map(int.__ge__, each, budget)):
                return False
        self.budgets[key] = (*known, budget)
        return True


def explore(model: Model, first: State, states_max: int = 0) -> Search:
    """To exhaustion, or until something is violated."""
    search, seen = Search(states=1), Seen()
    seen.is_new(first)
    level: list[tuple[State, Trail]] = [(first, None)]
    with no_collector():
        while level:
            level, broken = _next_level(model, level, seen, search)
            if broken:
                search.path = labels(model, first, broken)
                break
            search.depth += bool(level)
            if states_max and search.states > states_max:
                raise AssertionError(f"more than {states_max} states: {search}")
    return search


def _next_level(
    model: Model, level: list[tuple[State, Trail]], seen: Seen, search: Search
) -> tuple[list[tuple[State, Trail]], Trail]:
    following: list[tuple[State, Trail]] = []
    for state, trail in level:
        number = 0
        try:
            for number, (_, after) in enumerate(model.steps(state), 1):
                if seen.is_new(after):
                    following.append((after, (number, trail)))
        except Violated as violated:
            search.invariant, search.violation = violated.invariant, str(violated)
            return [], (number + 1, trail)
        search.steps += number
    search.states += len(following)
    return following, None


def labels(model: Model, first: State, trail: Trail) -> list[str]:
    """The path to the step that violated something."""
    numbers = []
    while trail:
        number, trail = trail
        numbers.append(number)
    path, state = [], first
    for number in numbers[:0:-1]:
        label, state = list(islice(model.steps(state), number))[-1]
        path.append(label)
    return path


@contextmanager
def no_collector() -> Iterator[None]:
    """States have no cycles, and to go over millions of them takes longer than to make them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
