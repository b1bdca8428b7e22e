"""Every disk that a power cut may leave, for each scenario of workloads.py: all promises hold.

A failure prints the state, the seed, the promise and the calls before the cut; the disk is kept in
tests/.cache/failures. CRASH_NIGHTLY=1 tries every state at every cut, CRASH_SEED chooses another
sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from .harness import NIGHTLY, record
from .workloads import SCENARIOS

SEED = int(os.environ.get("CRASH_SEED", "1"))
STATES_MAX = 10_000_000 if NIGHTLY else 100  # half of them damaged in a common way, each in another
DEEP = 200 if NIGHTLY else 2  # recoveries cut in their turn, in each process


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_promised_is_lost_by_a_power_cut(
    scenario: str, record_property: Callable[[str, object], None]
) -> None:
    with record(scenario) as recording:
        assert recording.differences() == [], "the recorder missed a call"
        result = recording.explore(states=STATES_MAX, seed=SEED, deep=DEEP)
    print(
        f"{scenario}: {result.tried} of {result.distinct} states, {result.judged} judgements, "
        f"{result.deep} of cut recoveries, slowest open {result.slowest_open_seconds:.3f} s, "
        f"{result.seconds:.1f} s"
    )
    for name in ("distinct", "tried", "judged", "deep", "seconds"):
        record_property(name, getattr(result, name))
    assert not result.failures, f"{result.failed} failing states\n" + "\n".join(result.failures)
