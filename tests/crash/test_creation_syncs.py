"""How many syncs a request costs that makes or deletes many topics, and what becomes of one whose
sync fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .build import engine_environment, recorded, run_module
from .trace import Entry, read_entries

TOPICS = 24


def lived(tmp_path: Path, topics: int, sync: str, error: str = "") -> tuple[list[Entry], list[str]]:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    environment = recorded(trace, root, engine_environment(), CRASH_SKIP_SYNC="1")
    done = run_module("crash.creation", root, topics, sync, error, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return read_entries(trace), done.stdout.splitlines()[-1].split("|")


def syncs(entries: list[Entry], begin: bytes, end: bytes) -> Counter[str]:
    """What was synced between two notes, but for the watermarks: that is a timer's."""
    marks = [next(each.start for each in entries if note in each.data) for note in (begin, end)]
    found = Counter(
        "file system" if each.operation == "sync_all" else Path(each.path).name
        for each in entries
        if each.operation in ("sync", "sync_all") and marks[0] < each.start < marks[1]
    )
    del found["watermarks"]
    return Counter({name.rstrip("01"): count for name, count in found.items()})


@pytest.mark.parametrize("topics", [TOPICS, 4 * TOPICS])
def test_many_topics_cost_what_one_does(topics: int, tmp_path: Path) -> None:
    entries, (failed, left, *_) = lived(tmp_path, topics, "filesystem")
    assert (failed, left) == ("0", str(2 * topics))
    few = {"file system": 1, "checkpoint.": 1, "catalog.db-wal": 1}
    assert syncs(entries, b'"do": "create"', b'"did": "create"') == few
    assert syncs(entries, b'"did": "create"', b'"did": "extend"') == few
    gone = {"root": 1, "deleted": 1, "checkpoint.": 1, "catalog.db-wal": 2}
    assert syncs(entries, b'"do": "delete"', b'"did": "delete"') == gone


def test_file_by_file_only_the_new_directories_are_synced_each(tmp_path: Path) -> None:
    entries, (failed, left, *_) = lived(tmp_path, TOPICS, "files")
    assert (failed, left) == ("0", str(2 * TOPICS))
    found = syncs(entries, b'"do": "create"', b'"did": "create"')
    once = {"root": 1, "checkpoint.": 1, "catalog.db-wal": 1}
    assert found == once | {f"t{number}-": 1 for number in range(TOPICS)}


def test_a_failed_sync_of_the_file_system_makes_none(tmp_path: Path) -> None:
    _, (failed, left, *why) = lived(tmp_path, TOPICS, "filesystem", "syncfs")
    # None is made, so none can have more.
    assert (failed, left) == (str(2 * TOPICS), "0")
    assert any("the file system cannot be synced" in each for each in why)
