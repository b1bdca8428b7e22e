"""Which names of a target in a directory are on disk before a manifest counts on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.backup import directory_store
from appliance.backup.retention import prune
from tests.support.backup_targets import backup_of, copy_of, piece_of, segment_of, target_in


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Directories that were synced, and files that were removed, one after the other."""
    found: list[Path] = []
    unlink = Path.unlink

    def unlinked(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        found.append(path)

    monkeypatch.setattr(directory_store, "sync_name", found.append)
    monkeypatch.setattr(Path, "unlink", unlinked)
    return found


def test_what_a_killed_run_left_is_synced_by_the_run_that_finds_it(
    tmp_path: Path, done: list[Path]
) -> None:
    killed = target_in(tmp_path / "target")
    piece = piece_of(killed, [0])
    folder = tmp_path / "target" / "objects"
    target = target_in(tmp_path / "target")
    target.look()
    again = piece_of(target, [0])
    assert (again, target.written_bytes, done) == (piece, 0, [])
    backup_of(target, 1, copy_of(segment_of(again)))
    assert {folder / piece.name[:2], folder, folder.parent} <= {*done}


def test_a_new_directory_has_its_name_on_disk(tmp_path: Path, done: list[Path]) -> None:
    backup_of(target_in(tmp_path / "new" / "target"), 1)
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "target"} <= {*done}


def test_a_manifest_is_gone_for_good_before_what_it_names(
    tmp_path: Path, done: list[Path]
) -> None:
    target = target_in(tmp_path / "target")
    backup_of(target, 1, copy_of(segment_of(piece_of(target, [0]))))
    backup_of(target, 2)
    done.clear()
    prune(target, 1)
    assert [each.name for each in done[:2]] == ["20260101T000000.001Z.json", "manifests"]
    assert done[-1].parent.parent.name == "objects"
