"""Compares two files of results, old and new, and lists regressions.

Instructions are compared directly: the same program takes the same number on any load. Rates and
times are compared as ratios to the peer of the same run. They count as worse only if the spreads of
both runs do not overlap, so that noise does not count.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from bench.results import Comparison, Run

INSTRUCTIONS_PERCENT = 3  # more is a change of the code; repeated runs differ by less than one
RATIO_PERCENT = 10


@dataclass
class Regression:
    what: str
    old: float
    new: float

    @property
    def percent(self) -> float:
        return (self.new / self.old - 1) * 100

    def as_row(self) -> dict[str, object]:
        return {**asdict(self), "percent": round(self.percent, 1)}


def regressions(old: Run, new: Run) -> list[Regression]:
    return [*more_instructions(old, new), *worse_ratios(old, new)]


def more_instructions(old: Run, new: Run) -> list[Regression]:
    both = [Regression(f"instructions of {path}", old.instructions[path], now)
            for path, now in new.instructions.items() if path in old.instructions]
    return [each for each in both if each.percent > INSTRUCTIONS_PERCENT]


def worse_ratios(old: Run, new: Run) -> list[Regression]:
    before = {(each.case, each.figure, each.peer): each for each in old.comparisons}
    worse = []
    for now in new.comparisons:
        then = before.get((now.case, now.figure, now.peer))
        if then and is_worse(then, now):
            worse.append(Regression(f"{now.case}, {now.figure}, beside {now.peer}", then.ratio,
                                    now.ratio))
    return worse


def is_worse(then: Comparison, now: Comparison) -> bool:
    if now.is_explaining:
        return False
    if now.is_more_better:
        return (now.ratio < then.ratio * (1 - RATIO_PERCENT / 100)
                and now.spread[1] < then.spread[0])
    return now.ratio > then.ratio * (1 + RATIO_PERCENT / 100) and now.spread[0] > then.spread[1]


def compared(old: Run, new: Run) -> int:
    """The number of figures in both files. A comparison without figures is an error."""
    figures = {(each.case, each.figure, each.peer) for each in old.comparisons}
    figures &= {(each.case, each.figure, each.peer) for each in new.comparisons}
    return len(figures) + len(old.instructions.keys() & new.instructions.keys())
