"""Proves that the harness detects one-line durability bugs, compiled into a copy.

APPLIANCE_MUTANT enables one bug by name. The named scenario must detect it, with the same states
that the real engine passes (test_power_cut_states, test_failing_sync).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.replication.histories.mutants import COMPILED

from .build import REPOSITORY, TESTS, engine_environment, mutant_engine
from .harness import NIGHTLY, record
from .test_failing_sync import problems_after_a_doubtful_sync, problems_after_a_failed_sync
from .test_power_cut_states import SEED
from .test_repair_states import failures, repaired

STATES_MAX = 4000
FAILING_SYNC = "a failing sync"
DOUBTFUL_SYNC = "a doubtful sync"
REPLICAS = "replicas"


def problems_of_replicas(engine: Path | None = None, **environment: str) -> list[str]:
    """What the tests of a log's replicas say: nothing is lost there by a power cut alone."""
    names = ("replication", "high_watermark")
    files = [TESTS / "storage" / f"test_log_{each}.py" for each in names]
    # Else pytest would put the repository in front, in which the engine is as released.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath="]
    command += ["--import-mode=importlib", *map(str, files)]
    ours = engine_environment(engine, **environment)
    ours["PYTHONPATH"] += f":{REPOSITORY}"
    done = subprocess.run(command, cwd=TESTS, env=ours, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("FAILED")]


STORIES = {
    REPLICAS: problems_of_replicas,
    FAILING_SYNC: problems_after_a_failed_sync,
    DOUBTFUL_SYNC: problems_after_a_doubtful_sync,
}
CAUGHT_BY = {
    "ack_before_sync": "produce",
    "segment_without_directory_sync": "roll",
    "recovery_without_crc": "produce",
    "recovery_without_continuity": "produce",
    "roll_without_sync_of_old_segment": "roll",
    "trust_segments_below_recovery_point": "roll",
    "checkpoint_ahead_of_durable": "checkpoint",
    "swap_without_directory_sync": "compaction",
    "swap_without_journal": "compaction",
    "log_start_after_unlink": "retention",
    "journal_without_crc": "journal",
    "journal_rotate_without_sync": "journal",
    "cache_kept_after_failed_sync": FAILING_SYNC,
    "visible_ahead_of_durable": "produce",
    "second_sync_after_failure": FAILING_SYNC,
    "truncate_without_journal": "truncate",
    "partition_without_parent_sync": "partitions",
    "partitions_without_sync": "creations",
    "txn_index_not_synced": "transactions",
    "producer_state_ahead_of_log": "racing",
    "watermark_before_sync": "produce",
    "commit_without_question": DOUBTFUL_SYNC,
    "journal_without_question": DOUBTFUL_SYNC,
    "directory_without_question": DOUBTFUL_SYNC,
    "question_without_flags": DOUBTFUL_SYNC,
    "question_without_read": DOUBTFUL_SYNC,
    "question_without_write": DOUBTFUL_SYNC,
    "watermark_below_min_insync": REPLICAS,
    "former_self_counts": REPLICAS,
    "joins_unwaited": REPLICAS,
}
# For scenarios with thousands of states: the states that concern the mutant come first.
FOCUS = {"journal_without_crc": "checkpoint.", "journal_rotate_without_sync": "random member"}


# The build takes 27 processor seconds, and the bugs as many.
OF_THE_BUILD = pytest.mark.release(
    "tests/crash/test_transfers.py and tests/crash/test_enumerator.py plant bugs without a build"
)


@pytest.fixture(scope="module")
def engine() -> Path:
    return mutant_engine()


@OF_THE_BUILD
def test_the_copy_is_what_runs(engine: Path) -> None:
    source = "import appliance.storage._log_commit as commit; print(commit.__file__)"
    command = [sys.executable, "-c", source]
    environment = engine_environment(engine)
    said = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, check=True)
    assert Path(said.stdout.decode().strip()).is_relative_to(engine)


@OF_THE_BUILD
def test_the_copy_with_its_mutants_asleep_passes(engine: Path) -> None:
    with record("roll", engine) as recording:
        result = recording.explore(states=100, seed=SEED, first=True)
    assert result.failures == []
    assert problems_after_a_failed_sync(engine) == []
    assert problems_after_a_doubtful_sync(engine) == []
    assert problems_of_replicas(engine) == []


@OF_THE_BUILD
@pytest.mark.parametrize("mutant", CAUGHT_BY)
def test_the_mutant_is_caught(mutant: str, engine: Path) -> None:
    if story := STORIES.get(CAUGHT_BY[mutant]):
        caught = story(engine, APPLIANCE_MUTANT=mutant)
    else:
        with record(CAUGHT_BY[mutant], engine, APPLIANCE_MUTANT=mutant) as recording:
            states = 100 * STATES_MAX if NIGHTLY else STATES_MAX
            focus = FOCUS.get(mutant, "")
            result = recording.explore(states=states, seed=SEED, first=True, focus=focus)
        caught = result.failures
        print(f"{mutant}: {result.tried} of {result.distinct} states until it was caught")
    assert caught, f"{mutant} went unnoticed: the harness is blind, or the switch is gone"
    print(caught[0])


@OF_THE_BUILD
@pytest.mark.parametrize(
    ("mutant", "damage"),
    [
        ("swap_without_journal", "two batches of which one is put back"),
        ("swap_without_journal", "two segments"),
        ("swap_without_directory_sync", "two batches"),
    ],
)
def test_a_repair_that_does_a_step_too_early_is_found(
    mutant: str, damage: str, engine: Path
) -> None:
    with repaired(damage, engine, APPLIANCE_MUTANT=mutant) as history:
        tried, found = failures(history)
    print(f"{mutant}, {damage}: {len(found)} of {tried} states")
    assert found, f"{mutant} went unnoticed"
    print(found[0])


def test_every_planted_mutant_is_expected_here_and_the_other_way_round() -> None:
    planted = set()
    for source in (REPOSITORY / "appliance").rglob("_*.pyx"):
        for part in source.read_text().split('mutant(b"')[1:]:
            planted.add(part.split('"')[0])
    assert planted == {*CAUGHT_BY, *COMPILED}
