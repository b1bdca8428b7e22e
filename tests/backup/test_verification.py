"""What verify says of files that cannot be read, and what it removes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.backup.directory_store import DirectoryStore
from appliance.backup.errors import KeyWrong, TargetFailed
from appliance.backup.target import Target
from appliance.backup.verification import verify
from tests.support.backup_targets import backup_of, copy_of, piece_of, segment_of, target_in
from tests.support.backups import Backups


@pytest.fixture
def target(backups: Backups) -> Target:
    made = target_in(backups.target)
    backup_of(made, 1, copy_of(segment_of(piece_of(made, [0, 10]))))
    return made


def failing(monkeypatch: pytest.MonkeyPatch, folder: str, error: Exception) -> None:
    read = DirectoryStore.get

    def get(store: DirectoryStore, name: str) -> bytes:
        if name.startswith(folder):
            raise error
        return read(store, name)

    monkeypatch.setattr(DirectoryStore, "get", get)


@pytest.mark.parametrize("error", [TargetFailed("503 Slow Down"), KeyWrong("no key")], ids=repr)
def test_a_file_that_cannot_be_read_is_not_damaged_and_is_never_removed(
    error: Any, target: Target, backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backups.files()
    with monkeypatch.context() as patch:
        failing(patch, "objects", error)
        code, found = backups.verify("--remove-damaged")
    told = {each["what"] for each in found["unreadable"]}
    assert (code, found["damaged"], told) == (1, [], {str(error)})
    assert backups.files() == before
    assert backups.verify()[0] == 0


def test_a_manifest_that_cannot_be_read_hides_nothing_of_the_others(
    target: Target, backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup_of(target, 2)
    failing(monkeypatch, f"manifests/{target.ids()[1]}", TargetFailed("a timeout"))
    code, found = backups.verify()
    assert (code, found["backups"], found["objects"]) == (1, 1, 2)
    assert [each["path"] for each in found["unreadable"]] == [f"manifests/{target.ids()[1]}.json"]


def test_what_is_whole_when_it_is_read_once_more_stays(target: Target, tmp_path: Path) -> None:
    paths = [str(each.relative_to(target.where)) for each in Path(target.where).rglob("*/??/*")]
    assert len(paths) == 2
    assert target.remove_damaged(paths) == []
    (Path(target.where) / paths[0]).write_bytes(b"gone")
    assert target.remove_damaged(paths) == paths[:1]
    found = verify(target, target.ids())
    assert ([each.path for each in found.damaged], found.unreadable) == (paths[:1], [])
