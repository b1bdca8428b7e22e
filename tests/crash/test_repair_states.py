"""Every disk that a power cut may leave during a repair: all other records are served as before;
either all batches are restored or none; after the return of the repair all are."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .build import engine_environment, recorded, run_module, scratch
from .harness import NIGHTLY
from .repairing import DAMAGES, judge
from .states import Enumerator, Materialiser
from .test_power_cut_states import SEED
from .trace import History, build_history, read_entries

STATES_MAX = 1_000_000 if NIGHTLY else 150


@contextmanager
def repaired(damage: str, engine: Path | None = None, **environment: str) -> Iterator[History]:
    """The trace of a repair."""
    place = Path(tempfile.mkdtemp(prefix="crash-repair-", dir=scratch()))
    root, trace = place / "root", place / "repair.trace"
    root.mkdir()
    given = recorded(trace, root, engine_environment(engine, **environment), CRASH_SKIP_SYNC="1")
    try:
        done = run_module("crash.repairing", root, damage, environment=given)
        assert done.returncode == -9, done.stderr
        history = build_history(read_entries(trace), root)
        assert history.differences(root) == [], "the recorder missed a call"
        yield history
    finally:
        shutil.rmtree(place, ignore_errors=True)


def failures(history: History) -> tuple[int, list[str]]:
    """The number of checked disks, and the faults."""
    marked, put_back = (note.at for note in history.notes)
    lost, back = (history.notes[0].facts["marked"], history.notes[1].facts["put_back"])
    enumerator = Enumerator(history, SEED)
    found, tried = [], 0
    place = Path(tempfile.mkdtemp(prefix="crash-repair-state-", dir=scratch()))
    materialiser = Materialiser(place, enumerator.contents)
    states = [each for each in enumerator.find(every_cut=True) if max(each.cuts) >= marked]
    states.sort(key=lambda each: each.rank)
    for state in states[:STATES_MAX]:
        cuts = [cut for cut in state.cuts if cut >= marked]
        materialiser.lay(state)
        wrong = judge(place, lost, back, is_put_back=max(cuts) > put_back)
        tried += 1
        if wrong:
            found.append(f"{state.label} at {cuts[:3]}: {wrong}")
    shutil.rmtree(place)
    return tried, found


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_power_cut_in_a_repair_leaves_the_hole_or_what_was_put_back(damage: str) -> None:
    with repaired(damage) as history:
        tried, found = failures(history)
    print(f"{damage}: {tried} states")
    assert tried > 20
    assert found == []
