"""A failed sync: no acknowledgement, no second sync, no trust in bytes only in the page cache. One
that succeeds on a file system that takes no writes any more: the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .build import engine_environment, recorded, run_module, scratch


def problems_after_a_failed_sync(engine: Path | None = None, **environment: str) -> list[str]:
    return _problems("crash.failing_sync", engine, environment)


def problems_after_a_doubtful_sync(engine: Path | None = None, **environment: str) -> list[str]:
    return _problems("crash.doubtful_sync", engine, environment)


def problems_after_a_failed_sync_of_the_watermarks() -> list[str]:
    return _problems("crash.failing_notes", None, {"CRASH_SYNC_MICROSECONDS": "150000"})


def _problems(story: str, engine: Path | None, environment: Mapping[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="sync-", dir=scratch()) as directory:
        root, trace = Path(directory) / "root", Path(directory) / "trace"
        root.mkdir()
        watched = recorded(trace, root, engine_environment(engine, **environment), CRASH_CACHE="1")
        done = run_module(story, root, trace, environment=watched)
    assert done.returncode == 0, f"the process did not stay up: {done.stderr[-4000:]}"
    problems: list[str] = json.loads(done.stdout.splitlines()[-1])
    return problems


def test_a_failed_sync_is_never_acknowledged_tried_again_or_forgotten() -> None:
    assert problems_after_a_failed_sync() == []


def test_a_sync_is_not_believed_where_no_write_is_taken_any_more() -> None:
    assert problems_after_a_doubtful_sync() == []


def test_a_failed_sync_of_the_watermarks_ends_them_for_all() -> None:
    assert problems_after_a_failed_sync_of_the_watermarks() == []
