"""Histories find bugs of replication that are planted into the processes; else they prove nothing.

    python -m pytest tests/replication/test_history_mutants.py -m release -s

    HISTORY_MUTANT_ROUNDS  how many rounds each may take (6)
    HISTORY_S              how long the faults of each last (30)
"""

from __future__ import annotations

import os

import pytest

from tests.crash import loop_disk
from tests.replication.histories import network
from tests.replication.histories.ensemble import ZooKeepers
from tests.replication.histories.mutants import ALL, SESSIONS_MS
from tests.replication.histories.network import Network
from tests.replication.histories.rounds import play
from tests.replication.histories.schedule import schedule
from tests.replication.test_histories import ROUND_S, SESSION_MS, tell
from tests.replication.test_histories import places as places

ROUNDS = int(os.environ.get("HISTORY_MUTANT_ROUNDS", "6"))
WHY_NOT = network.why_not() or loop_disk.why_not()


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
@pytest.mark.release("minutes for each; tests/replication/test_history_checks.py has the checks")
@pytest.mark.parametrize("mutant", [*ALL])
def test_the_mutant_is_found(
    mutant: str,
    places: tuple[Network, ZooKeepers],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    session_ms = SESSIONS_MS.get(mutant, SESSION_MS)
    for seed in range(1, ROUNDS + 1):
        planned = schedule(seed, ROUND_S, session_ms / 1000, ALL[mutant])
        folder = tmp_path_factory.mktemp(f"mutant-{seed}-")
        result = play(seed, ROUND_S, planned, *places, folder, session_ms, mutant)
        if result.counts:
            tell(request, f"{mutant}: found in round {seed} by {dict(result.counts)}")
            return
    raise AssertionError(f"{mutant} went unnoticed in {ROUNDS} rounds")
