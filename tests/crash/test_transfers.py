"""Proves that the states of `transfers` and `share` detect a coordinator that acts too early."""

from __future__ import annotations

import pytest

from .harness import record
from .test_power_cut_states import SEED
from .workloads import FAULTY

STATES_MAX = 4000


@pytest.mark.parametrize("fault", FAULTY)
def test_a_step_too_early_is_found(fault: str) -> None:
    with record(fault) as recording:
        result = recording.explore(states=STATES_MAX, seed=SEED, first=True)
    print(f"{fault}: {result.tried} of {result.distinct} states until it was found")
    told = [line.strip() for each in result.failures for line in each.splitlines() if "! " in line]
    print(*told, sep="\n")
    what = ("! transfer", "! share partition")
    assert any(each.startswith(what) for each in told), "it went unnoticed"
