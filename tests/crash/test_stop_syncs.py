"""A clean stop waits for few syncs, however many logs it stops: with two seconds per sync, five
logs with a rolled segment each took half a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from .build import engine_environment, recorded, run_module
from .trace import Entry, read_entries

# The first log, the others, their recovery points with indexes, the journal, its mark; and one more
# if the first commit did not include all of them.
WAITS_MAX = 8


def waits(entries: list[Entry]) -> int:
    """The number of syncs that waited for one another: the longest chain without an overlap."""
    count, until = 0, -1
    for entry in sorted(entries, key=lambda each: each.end):
        if entry.start > until:
            count, until = count + 1, entry.end
    return count


@pytest.mark.parametrize(("logs", "rolls"), [(1, 1), (5, 1), (20, 3)])
def test_a_clean_stop_waits_for_a_few_syncs(logs: int, rolls: int, tmp_path: Path) -> None:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    environment = recorded(
        trace, root, engine_environment(), CRASH_SKIP_SYNC="1", CRASH_SYNC_MICROSECONDS="150000"
    )
    done = run_module("crash.stop", root, logs, rolls, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    entries = read_entries(trace)
    stop = next(each.start for each in entries if b"stop" in each.data)
    syncs = [each for each in entries
             if each.operation in ("sync", "sync_all") and each.start > stop]
    assert 0 < waits(syncs) <= WAITS_MAX, "\n".join(map(str, syncs))
