"""Proves that the states of `moves` detect each step of a move that is left out."""

from __future__ import annotations

import pytest

from tests.support.release import gate_has

from .harness import record
from .moving import FAULTY
from .test_power_cut_states import SEED

STATES_MAX = 4000
WHY = "each takes 2 processor seconds; the gate has one, and kills at each step"


@pytest.mark.parametrize("fault", gate_has(["moves: files not synced"], WHY, FAULTY))
def test_a_step_that_is_left_out_is_found(fault: str) -> None:
    with record(fault) as recording:
        result = recording.explore(states=STATES_MAX, seed=SEED, first=True)
    print(f"{fault}: {result.tried} of {result.distinct} states until it was found")
    print(*result.failures, sep="\n")
    told = [line for each in result.failures for line in each.splitlines() if "  ! " in line]
    assert any("m-0" in each for each in told), "it went unnoticed"
