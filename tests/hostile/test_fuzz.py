"""Some seconds of what `python -m tests.hostile.fuzz` does for half an hour."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.conftest import GROWTH_MAX, MIB
from tests.hostile.fuzz import Run, Storm

SEED = 20261123


def test_a_storm_and_a_start_on_what_it_left(tmp_path: Path) -> None:
    run = Run(tmp_path, {}, GROWTH_MAX + 100 * MIB, Storm(SEED))
    for number in (1, 2):
        run.round(5, number)
    print(run.storm.told())
    assert run.faults == []
    assert run.storm.answers > 200
