"""Writing that is begun before a commit (`write.behind.bytes`): only where the commit is far."""

from __future__ import annotations

from pathlib import Path

from .build import engine_environment, recorded, run_module
from .trace import read_entries

COMMITS = 12


def test_what_a_commit_syncs_is_not_begun_again(tmp_path: Path) -> None:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    environment = recorded(trace, root, engine_environment())
    done = run_module("crash.begun_early", root, COMMITS, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    kinds = [each.operation for each in read_entries(trace)]
    close, far = kinds[: kinds.index("note")], kinds[kinds.index("note") :]
    assert close.count("sync") >= COMMITS
    assert "sync_range" not in close
    assert "sync_range" in far
