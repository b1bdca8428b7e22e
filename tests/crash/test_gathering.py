"""On a slow disk, producers that wait for their records share commits: without a moment between two
of them, they fall into two groups, of which each waits for the other's commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from .build import engine_environment, recorded, run_module

PRODUCERS, RECORDS = 8, 10


@pytest.mark.alone
def test_who_was_just_answered_joins_the_next_commit(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    environment = recorded(
        tmp_path / "trace",
        root,
        engine_environment(),
        CRASH_SKIP_SYNC="1",
        CRASH_SYNC_MICROSECONDS="160000",
    )
    done = run_module("crash.gathering", root, PRODUCERS, RECORDS, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    # The first one comes alone; one more for a producer that a busy machine kept away.
    assert RECORDS <= int(done.stdout) <= RECORDS + RECORDS // 2
