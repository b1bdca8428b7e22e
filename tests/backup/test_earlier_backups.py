"""What a backup takes from earlier ones because the broker has lost it, and which of them stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.backup.kept_records import keep_all
from appliance.backup.manifest import PartitionCopy, Piece
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


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return target_in(tmp_path / "target")


def whole(target: Target) -> PartitionCopy:
    return copy_of(segment_of(piece_of(target, [0, 10]), piece_of(target, [20, 30, 40])))


def with_holes(target: Target, *bases: int) -> PartitionCopy:
    left = [piece_of(target, [each]) for each in range(0, 50, 10) if each not in bases]
    holes = tuple((each, each + 10) for each in bases)
    return copy_of(segment_of(*left, base=0, end=50), holes=holes)


def kept(target: Target, lacks: PartitionCopy) -> PartitionCopy:
    backups = [target.manifest(each) for each in reversed(target.ids())]
    (found,) = keep_all(target, [lacks], backups)
    return found


def file_of(target: Target, piece: Piece) -> Path:
    return Path(target.where) / "objects" / piece.name[:2] / piece.name


def starts(copied: PartitionCopy) -> list[int]:
    return [each.start for each in copied.pieces]


def test_the_newest_backup_that_has_the_partition_is_asked(target: Target) -> None:
    """It was not served when the one before was made."""
    backup_of(target, 1, whole(target))
    backup_of(target, 2, missing=("clicks-0 is not served: its log is broken",))
    found = kept(target, with_holes(target, 10, 30))
    assert (found.holes, starts(found)) == ((), [0, 10, 20, 30, 40])


def test_one_damaged_file_of_the_target_leaves_other_holes_filled(target: Target) -> None:
    """And its own is filled from an earlier backup, now or when the file is whole again."""
    earlier = whole(target)
    backup_of(target, 1, earlier)
    damaged = file_of(target, [*earlier.pieces][1])
    content = damaged.read_bytes()
    damaged.write_bytes(b"gone")
    lacks = copy_of(
        segment_of(piece_of(target, [20]), piece_of(target, [40]), base=0, end=50),
        holes=((0, 20), (30, 40)),
    )
    found = kept(target, lacks)
    assert (found.holes, starts(found)) == (((0, 20), (30, 40)), [20, 40]), "both are beside it"
    lacks = with_holes(target, 0, 30)
    found = kept(target, lacks)
    assert (found.holes, starts(found)) == (((30, 40),), [0, 10, 20, 40])
    backup_of(target, 2, found)
    damaged.write_bytes(content)
    found = kept(target, lacks)
    assert (found.holes, starts(found)) == ((), [0, 10, 20, 30, 40])


def test_a_topic_that_was_made_anew_gets_nothing_of_the_former(target: Target) -> None:
    backup_of(target, 1, whole(target))
    lacks = with_holes(target, 10)
    anew = copy_of(*lacks.segments, holes=lacks.holes, topic_id="another")
    assert kept(target, anew).holes == ((10, 20),)


def test_the_last_backup_of_what_is_damaged_in_all_newer_ones_stays(target: Target) -> None:
    backup_of(target, 1, whole(target))
    backup_of(target, 2, whole(target))
    for number in (3, 4):
        backup_of(target, number, with_holes(target, 10))
    found = prune(target, 3)
    assert (found.removed, found.held) == ([id_of(1)], []), "one that stays has it"
    found = prune(target, 1)
    assert (found.removed, found.held) == ([id_of(3)], [id_of(2)])
    assert target.ids() == [id_of(2), id_of(4)]
    for each in target.manifest(id_of(2)).blobs:
        target.get(each)
    backup_of(target, 5, whole(target))
    found = prune(target, 1)
    assert (found.removed, found.held) == ([id_of(2), id_of(4)], [])


def test_several_stay_if_none_has_all_that_newer_ones_lack(target: Target) -> None:
    backup_of(target, 1, with_holes(target, 10))
    backup_of(target, 2, with_holes(target, 30))
    backup_of(target, 3, with_holes(target, 10, 30))
    assert prune(target, 1).held == [id_of(1), id_of(2)]
    backup_of(target, 4, with_holes(target, 10))
    assert prune(target, 1).removed == [id_of(1), id_of(3)], "2 has what 4 lacks"
    backup_of(target, 5)
    assert prune(target, 1).removed == [id_of(2), id_of(4)], "the topic was deleted"
    assert target.ids() == [id_of(5)]
