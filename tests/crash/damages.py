"""Kinds of damage, with the expected reports of the start, the ledger, readers and `verify`.

Each damages a copy of one directory, `tests/support/damaged.py`: t-0 with offsets 0 to 20, one per
batch, all acknowledged, in segments 0, 6, 12 and 18, the recovery point at 15; the broker killed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.damaged import BASES, END, POINT, Damaged
from tests.support.watermarks import as_after_a_power_cut, note

Change = Callable[[Damaged], object]

# Bytes of a batch's header that must not mislead recovery.
FIELDS = {"base offset": 7, "length": 11, "magic": 16, "CRC": 17, "records": 66}


@dataclass(frozen=True)
class Case:
    name: str
    damage: Change
    lost: tuple[tuple[int, int], ...] = ()  # range in the start's report and the ledger
    left: bool = False  # the rest was set aside
    cold: tuple[int, ...] = ()  # only readers and `verify` read these bytes
    end: int = END  # of the log after the start
    start: int = 0
    verdict: str = ""  # part of the start's last sentence
    says: tuple[str, ...] = ()  # other parts of the report
    tail: bool = False  # `verify` before the start reports a torn end
    verify: int | None = None  # its exit code before the start, if not derived
    reopens: bool = True  # unchanged after another start
    kept: tuple[int, ...] | None = field(default=None)

    @property
    def served(self) -> tuple[int, ...]:
        if self.kept is not None:
            return self.kept
        gone = {i for first, last in self.lost for i in range(first, last + 1)} | {*self.cold}
        return tuple(i for i in range(self.start, min(self.end, END)) if i not in gone)


def cases() -> Iterator[Case]:
    yield Case("nothing", lambda d: None, verdict="No acknowledged record was lost: all that was")
    yield from flipped()
    yield from missing()
    yield from replaced()
    yield from never_acknowledged()
    yield from unknown()


def flipped() -> Iterator[Case]:
    for name, byte in FIELDS.items():
        for offset in (15, 16, 17, 18, 19, 20):
            yield Case(
                f"{name} flipped at {offset}, behind the recovery point",
                lambda d, offset=offset, byte=byte: d.flip(offset, byte),
                lost=((offset, offset),), left=True,
            )  # fmt: skip
        for offset in (0, 5, 6, 8, 11, 12, 13):
            yield Case(
                f"{name} flipped at {offset}, before it",
                lambda d, offset=offset, byte=byte: d.flip(offset, byte),
                cold=(offset,),
            )  # fmt: skip
    yield Case("two batches flipped", lambda d: (d.flip(16), d.flip(19)),
               lost=((16, 16), (19, 19)), left=True)  # fmt: skip
    yield Case("neighbours flipped", lambda d: (d.flip(18), d.flip(19)), lost=((18, 19),),
               left=True)  # fmt: skip
    yield Case("all of the active segment flipped", lambda d: [d.flip(i) for i in (18, 19, 20)],
               lost=((18, 20),), left=True)  # fmt: skip


def missing() -> Iterator[Case]:
    for base, end in zip(BASES, (*BASES[1:], END), strict=True):
        yield Case(f"segment {base} is missing", lambda d, base=base: d.remove(base),
                   lost=((base, end - 1),), start=6 if base == 0 else 0)  # fmt: skip
    yield Case("two segments are missing", lambda d: d.remove(6, 18), lost=((6, 11), (18, 20)))
    yield Case("every segment is missing", lambda d: d.remove(*BASES), lost=((0, END - 1),),
               start=END)  # fmt: skip
    yield Case("the directory is empty", lambda d: empty(d.folder), lost=((0, END - 1),),
               start=END)  # fmt: skip
    for offset in (12, 14, 15, 16, 18, 20):
        end = 17 if offset < 18 else 20
        yield Case(f"the file ends before {offset}", lambda d, offset=offset: d.cut(offset),
                   lost=((offset, end),))  # fmt: skip
        yield Case(f"the file ends within {offset}", lambda d, offset=offset: d.cut(offset, 40),
                   lost=((offset, end),), left=True)  # fmt: skip
    for offset in (8, 11):
        yield Case(f"a sealed file ends before {offset}", lambda d, offset=offset: d.cut(offset),
                   cold=tuple(range(offset, 12)))  # fmt: skip


def replaced() -> Iterator[Case]:
    yield Case("zeros in the active segment", lambda d: zero(d, 18, 19), lost=((19, 19),),
               left=True)  # fmt: skip
    yield Case("the active segment all zeros", lambda d: zero(d, 18, 18, 20), lost=((18, 20),),
               left=True)  # fmt: skip
    yield Case("zeros behind the recovery point", lambda d: zero(d, 12, 15, 17), lost=((15, 17),),
               left=True)  # fmt: skip
    yield Case("zeros in a sealed segment", lambda d: zero(d, 6, 8), cold=(8,))
    yield Case("an older copy of the active segment",
               lambda d: d.cut(19), lost=((19, 20),))  # fmt: skip
    yield Case("another segment's bytes in the active one",
               lambda d: shutil.copy(d.segment(6), d.segment(18)), lost=((18, 20),), left=True,
               )  # fmt: skip
    yield Case("an older copy of the directory", older, lost=((POINT, END - 1),))


def never_acknowledged() -> Iterator[Case]:
    """After the noted durable offset damage is a torn end, and not a loss."""

    def to(offset: int, *then: Change) -> Change:
        return lambda d: (note(d.path, "t-0", offset), [each(d) for each in then])

    yield Case("a torn end", to(20, lambda d: d.cut(20, 30)), end=20, tail=True,
               verdict="No acknowledged record was lost")  # fmt: skip
    yield Case("a flipped end", to(20, lambda d: d.flip(20)), end=20, verify=10,
               verdict="No acknowledged record was lost")  # fmt: skip
    yield Case("a whole batch behind a torn one", to(19, lambda d: d.flip(19)), end=19, verify=10,
               verdict="No acknowledged record was lost", says=("aside",))  # fmt: skip
    yield Case("zeros behind the end", lambda d: d.add(18, bytes(5000)), tail=True,
               verdict="No acknowledged record was lost", says=("Cut 4.9 KiB",))  # fmt: skip
    yield Case("acknowledged up to 19, torn from 18 on", to(19, lambda d: d.cut(18, 3)),
               lost=((18, 18),), left=True, end=19)  # fmt: skip


def unknown() -> Iterator[Case]:
    """Recovery must not claim what it cannot know."""
    yield Case("a power cut, whole", lambda d: as_after_a_power_cut(d.path),
               verdict="No record that was noted as acknowledged was lost.")  # fmt: skip
    yield Case("no watermarks, whole", unmarked, verify=10,
               verdict="What was acknowledged behind them was not noted")  # fmt: skip
    yield Case("no watermarks, a torn end", lambda d: (unmarked(d), d.cut(20, 30)), end=20,
               tail=True, verify=10, verdict="Whether an acknowledged record was lost is not known",
               says=("whether these were is not known",))  # fmt: skip
    yield Case("no watermarks, whole batches behind damage", lambda d: (unmarked(d), d.flip(19)),
               lost=((19, 19),), left=True, says=("may have been acknowledged",))  # fmt: skip
    yield Case("the watermarks are zeros", lambda d: blank(d.path / "watermarks"), verify=10,
               verdict="What was acknowledged behind them was not noted")  # fmt: skip
    yield Case("no journal", lambda d: drop(d, "checkpoint.0", "checkpoint.1"), verify=10,
               verdict="is not known", says=("journal is gone or damaged",))  # fmt: skip
    yield Case("both journal files are zeros",
               lambda d: [blank(d.path / name) for name in ("checkpoint.0", "checkpoint.1")],
               verify=10, verdict="is not known", says=("journal is gone or damaged",))  # fmt: skip
    yield Case("no journal, an active segment that is missing",
               lambda d: (drop(d, "checkpoint.0", "checkpoint.1"), d.remove(18)),
               lost=((18, 20),), says=("journal is gone or damaged",))  # fmt: skip
    yield Case("neither journal nor watermarks",
               lambda d: drop(d, "checkpoint.0", "checkpoint.1", "watermarks"), verify=0,
               verdict="What was acknowledged behind them was not noted")  # fmt: skip
    yield Case("the newest journal file is zeros", lambda d: blank(newest(d.path)), verify=10,
               verdict="is not known", says=("newest part of the checkpoint journal",))  # fmt: skip


# The damage


def zero(d: Damaged, base: int, first: int, last: int | None = None) -> None:
    begin, end = d.spans[first][0], d.spans[first if last is None else last][1]
    d.write(d.segment(base), begin, bytes(end - begin))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def older(d: Damaged) -> None:
    """The file at the time of the recovery point."""
    d.cut(POINT)
    d.remove(18)


def unmarked(d: Damaged) -> None:
    drop(d, "watermarks")


def drop(d: Damaged, *names: str) -> None:
    for name in names:
        (d.path / name).unlink()


def blank(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def newest(path: Path) -> Path:
    """The current journal file, with the higher generation."""
    files = [path / "checkpoint.0", path / "checkpoint.1"]
    return max(files, key=lambda each: each.read_bytes()[8:16])
