"""One manifest of a target is damaged: all others are of use."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.backup.errors import ObjectDamaged
from appliance.backup.retention import prune
from appliance.backup.target import Target
from tests.support.backup_targets import (
    backup_of,
    copy_of,
    id_of,
    piece_of,
    segment_of,
    target_in,
)
from tests.support.backups import Backups
from tests.support.shell import Shell

WHY = "the manifest is damaged: its checksum is another"


@pytest.fixture
def target(backups: Backups) -> Target:
    """Of three backups, with a record each; the last is damaged."""
    made = target_in(backups.target)
    for number in (1, 2, 3):
        backup_of(made, number, copy_of(segment_of(piece_of(made, [10 * number]))))
    damage(made, 3)
    return made


def damage(target: Target, number: int) -> None:
    path = Path(target.where) / "manifests" / f"{id_of(number)}.json"
    path.write_bytes(path.read_bytes().replace(b'"records"', b'"RECORDS"', 1)[:-2] + b"x\n")


def test_list_tells_of_it_in_its_row(target: Target, backups: Backups) -> None:
    target.note_test(id_of(1), {"took_s": 1})
    target.note_test(id_of(2), {"took_s": 1})
    (Path(target.where) / "tests" / f"{id_of(2)}.json").write_bytes(b"gone")
    found = backups.list()
    assert [each["backup"] for each in found] == target.ids()
    assert [WHY in each["fault"] for each in found] == [False, False, True]
    assert [each["is_whole"] for each in found] == [True, True, False]
    assert [each["tested"] is None for each in found] == [False, True, True]
    told = Shell("").run("backup list", "--target", backups.target)
    assert (told.exit_code, "DAMAGED" in told.output, WHY in told.output) == (0, True, True)


def test_the_newest_that_can_be_read_is_restored_with_a_word(target: Target) -> None:
    told: list[str] = []
    assert target.newest(tell=told.append).id == id_of(2)
    assert [WHY in each for each in told] == [True]
    result = Shell("").run("backup restore --test", "--target", target.where)
    assert (result.exit_code, WHY in result.output) == (1, True), "the newest is what counts"
    for number in (1, 2):
        damage(target, number)
    with pytest.raises(ObjectDamaged, match=id_of(3)):
        target.newest()


def test_retention_passes_it_and_leaves_what_it_may_name(
    target: Target, backups: Backups
) -> None:
    backup_of(target, 4)
    files = backups.files()
    found = prune(target, 1)
    assert found.removed == [id_of(1), id_of(2)]
    assert [WHY in each for each in found.unreadable] == [True]
    assert (target.ids(), backups.files()) == ([id_of(3), id_of(4)], files)
    (Path(target.where) / "manifests" / f"{id_of(3)}.json").unlink()
    assert prune(target, 1).unreadable == []
    assert len(backups.files()) == 1, "the catalog"
