"""The table of damages at the head of `_recovery.pyx`, a row each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.errors import OffsetInHole
from tests.support.batch_model import stamped
from tests.support.damaged import (
    BASES,
    END,
    EPOCH,
    SETTINGS,
    Damaged,
    Wanted,
    check,
    served,
    up_to,
    without,
)
from tests.support.logs import NOW, copied, opened, produced, values
from tests.support.watermarks import note

ALL = up_to(END)
Damage = Callable[[Damaged], object]


def stale(offset: int, epoch: int = EPOCH) -> bytes:
    """A whole batch with a good CRC that an earlier use of the blocks left behind."""
    return stamped(produced(offset), offset, epoch)


def torn_with_a_hole(d: Damaged) -> None:
    """The second half of the last batch reached the disk, the first did not."""
    first, end = d.spans[20]
    d.write(d.segment(18), first, bytes((end - first) // 2))


TAIL: list[tuple[str, Damage, Wanted]] = [
    ("nothing", lambda d: None, ALL),
    ("last batch cut in half", lambda d: d.cut(20, 35), up_to(20, is_cut=True)),
    ("last batch a byte short", lambda d: d.cut(21 - 1, len(d.batches[20]) - 1),
     up_to(20, is_cut=True)),
    ("last batch only a byte", lambda d: d.cut(20, 1), up_to(20, is_cut=True)),
    ("last batch without its begin", torn_with_a_hole, up_to(20, is_cut=True)),
    ("last batch flipped", lambda d: d.flip(20), up_to(20, is_cut=True)),
    ("zeros behind the end", lambda d: d.add(18, bytes(5000)), up_to(END, is_cut=True)),
    ("zeros beyond a megabyte", lambda d: d.add(18, bytes(3 << 20)), up_to(END, is_cut=True)),
    ("garbage behind the end", lambda d: d.add(18, os.urandom(5000)), up_to(END, is_cut=True)),
    ("stale batch, offset too high", lambda d: d.add(18, stale(30)), up_to(END, is_cut=True)),
    ("stale batch, offset repeated", lambda d: d.add(18, stale(20)), up_to(END, is_cut=True)),
    ("stale batch, offset from before", lambda d: d.add(18, stale(3)), up_to(END, is_cut=True)),
    ("stale batch of an older epoch at the right offset",
     lambda d: d.add(18, stale(END, EPOCH - 1)), up_to(END, is_cut=True)),
    ("whole batch behind a flipped one", lambda d: d.flip(19), up_to(19, is_cut=True, aside=1)),
    ("segment behind a flipped batch", lambda d: d.flip(17), up_to(17, is_cut=True, aside=1)),
    ("batch and segment behind a flipped one", lambda d: d.flip(15),
     up_to(15, is_cut=True, aside=2)),
    ("segment behind a missing batch", lambda d: d.cut(17), up_to(17, aside=1)),
    ("empty segment behind a flipped batch", lambda d: (d.flip(17), d.cut(18)),
     up_to(17, is_cut=True)),
    ("last segment empty", lambda d: d.cut(18), up_to(18)),
    ("last segment missing", lambda d: d.remove(18), up_to(18)),
    ("last segment all zeros", lambda d: d.write(d.segment(18), 0, bytes(3 * len(d.batches[18]))),
     up_to(18, is_cut=True)),
]  # fmt: skip

BELOW: list[tuple[str, Damage, Wanted]] = [
    ("recovery segment missing", lambda d: d.remove(12), without(12, 17)),
    ("recovery segment empty", lambda d: d.cut(12), without(12, 17)),
    ("recovery segment short, a batch torn", lambda d: d.cut(13, 40), without(13, 17)),
    ("recovery segment short by whole batches", lambda d: d.cut(14), without(14, 17)),
    ("recovery segment and all behind it missing", lambda d: d.remove(12, 18),
     without(12, 20)),
    ("recovery segment short, nothing behind it", lambda d: (d.cut(13, 40), d.remove(18)),
     without(13, 20)),
    ("every segment missing", lambda d: d.remove(*BASES), without(0, 20)),
    ("first segment missing", lambda d: d.remove(0), without(0, 5)),
    ("middle segment missing", lambda d: d.remove(6), without(6, 11)),
]  # fmt: skip


def rows(table: list[tuple[str, Damage, Wanted]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("damage", "wanted"), [row[1:] for row in table], ids=[row[0] for row in table]
    )


@rows(TAIL)
def test_the_tail_is_cut_and_nothing_durable_with_it(
    damage: Damage, wanted: Wanted, unfinished: Damaged
) -> None:
    damage(unfinished)
    check(unfinished, wanted)


@rows(BELOW)
def test_durable_records_that_are_gone_are_reported_and_the_rest_is_served(
    damage: Damage, wanted: Wanted, damaged: Damaged
) -> None:
    damage(damaged)
    check(damaged, wanted)


def test_the_tail_may_be_torn_at_every_byte(unclean: Damaged, tmp_path: Path) -> None:
    last = unclean.batches[20]
    for size in range(len(last)):
        damaged = Damaged(copied(unclean.path, tmp_path / str(size)), unclean.batches)
        damaged.cut(20, size)
        note(damaged.path, "t-0", 20)
        with opened(damaged.path, **SETTINGS) as log_dir:
            assert served(log_dir.log("t", 0), damaged) == list(range(20)), size
            assert log_dir.log("t", 0).log_end_offset == 20
            assert log_dir.report.cut_bytes == size
            assert damaged.aside == []
        shutil.rmtree(damaged.path)


def test_what_stood_behind_the_cut_is_kept_whole(unfinished: Damaged) -> None:
    damaged = unfinished
    damaged.flip(15)
    rest = damaged.segment(12).read_bytes()[damaged.spans[15][0] :]
    behind = damaged.segment(18).read_bytes()
    with opened(damaged.path, **SETTINGS) as log_dir:
        log_dir.report.text()
    found = [(damaged.folder / name).read_bytes() for name in damaged.aside]
    assert sorted(found) == sorted([rest, behind])


def test_a_hole_is_told_and_passed(damaged: Damaged) -> None:
    damaged.remove(12)
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.holes() == [(12, 18)]
        for offset in (12, 15, 17):
            with pytest.raises(OffsetInHole, match=f"offset {offset}"):
                log.read(offset)
        # What is before the hole ends there; what is behind it begins again.
        assert values(log.read(6)) == [f"7.0.{i}" for i in range(6, 12)]
        assert values(log.read(18)) == [f"7.0.{i}" for i in range(18, 21)]


def test_what_is_before_a_lost_recovery_segment_is_not_deleted_as_empty(damaged: Damaged) -> None:
    damaged.remove(6, 12, 18)
    with opened(damaged.path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        assert log.segments()[0].end_offset >= 6
        log_dir.checkpoint()
        assert (log.retain(NOW), served(log, damaged)) == (0, list(range(6)))
