"""Offsets side by side, those of one state in one run: what a share partition keeps of its records.

    start_offset   runs, without a gap between them   end_offset
    41             41-42 | 43-45 | 46-47              48

So a batch costs what a record costs, until its records go different ways.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from appliance.share.states import FINAL, RecordState

NEVER_MS = 2**63 - 1
NOBODY = ""


class StateBatch(NamedTuple):
    """A run as it is kept on disk."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


@dataclass(eq=False, slots=True)
class Change:
    """Acknowledgements that become true together."""

    ranges: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    first: int
    last: int
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member_id: str = NOBODY
    due_ms: int = NEVER_MS  # when the lock times out
    target: RecordState | None = None  # what it will be once `change` is on disk
    change: Change | None = None

    def cut(self, first: int, last: int) -> Run:
        return Run(first, last, self.state, self.delivery_count, self.member_id, self.due_ms,
                   self.target, self.change)

    def is_like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.due_ms == other.due_ms
            and self.target is other.target
            and self.change is other.change
        )

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE

    @property
    def is_settled_final(self) -> bool:
        return self.state in FINAL

    def let_go(self, delivery_count_max: int) -> None:
        """Back to the others, unless it was delivered often enough."""
        is_spent = self.delivery_count >= delivery_count_max
        self.become(RecordState.ARCHIVED if is_spent else RecordState.AVAILABLE)

    def become(self, state: RecordState) -> None:
        self.state, self.member_id, self.due_ms = state, NOBODY, NEVER_MS
        self.target = self.change = None

    def stored(self) -> StateBatch:
        """A crash takes an acquisition back, and with it the delivery that it counted."""
        if self.target is not None:
            return StateBatch(self.first, self.last, self.target, self.delivery_count)
        if self.state is RecordState.ACQUIRED:
            state, count = RecordState.AVAILABLE, self.delivery_count - 1
            return StateBatch(self.first, self.last, state, count)
        return StateBatch(self.first, self.last, self.state, self.delivery_count)


class Runs:
    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.runs: list[Run] = []

    @property
    def end_offset(self) -> int:
        return self.runs[-1].last + 1 if self.runs else self.start_offset

    def extend(self, last: int) -> None:
        if last >= self.end_offset:
            self.runs.append(Run(self.end_offset, last))

    def index_of(self, offset: int) -> int:
        return bisect_right(self.runs, offset, key=attrgetter("first")) - 1

    def run_at(self, offset: int) -> Run:
        return self.runs[self.index_of(offset)]

    def over(self, first: int, last: int) -> list[Run]:
        """Runs that have something of the range."""
        cut = []
        for i in range(max(0, self.index_of(first)), len(self.runs)):
            run = self.runs[i]
            if run.first > last:
                break
            if run.last >= first:
                cut.append(run)
        return cut

    def isolated(self, first: int, last: int) -> list[Run]:
        """Runs that are the range, cut out of those that reach beyond it."""
        self.cut_at(first)
        self.cut_at(last + 1)
        return self.over(first, last)

    def isolate(self, first: int, last: int) -> Run:
        (run,) = self.isolated(first, last)
        return run

    def cut_at(self, offset: int) -> None:
        i = self.index_of(offset)
        if i < 0 or not self.runs[i].first < offset <= self.runs[i].last:
            return
        run = self.runs[i]
        self.runs[i : i + 1] = [run.cut(run.first, offset - 1), run.cut(offset, run.last)]

    def cut_all(self, offsets: Iterable[int]) -> None:
        """At many offsets, in their order, in one pass."""
        cut: list[Run] = []
        runs = iter(self.runs)
        run = next(runs, None)
        for offset in offsets:
            while run is not None and run.last < offset:
                cut.append(run)
                run = next(runs, None)
            if run is not None and run.first < offset:
                cut.append(run.cut(run.first, offset - 1))
                run = run.cut(offset, run.last)
        self.runs = [*cut, *([] if run is None else [run]), *runs]

    def merge(self) -> None:
        merged: list[Run] = []
        for run in self.runs:
            if merged and merged[-1].is_like(run):
                merged[-1].last = run.last
            else:
                merged.append(run)
        self.runs = merged

    def advance(self) -> None:
        """The start moves past what is done."""
        i = 0
        while i < len(self.runs) and self.runs[i].is_settled_final:
            i += 1
        if i:
            self.start_offset = self.runs[i - 1].last + 1
            del self.runs[:i]

    def drop_below(self, offset: int) -> None:
        self.cut_at(offset)
        self.runs = [run for run in self.runs if run.first >= offset]
        self.start_offset = offset
        self.advance()


    def append(self, run: Run) -> None:
        if self.runs and self.runs[-1].is_like(run):
            self.runs[-1].last = run.last
        else:
            self.runs.append(run)


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, and none over another."""
    whole: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if whole and first <= whole[-1][1] + 1:
            whole[-1] = (whole[-1][0], max(whole[-1][1], last))
        else:
            whole.append((first, last))
    return whole


def clipped(batch: StateBatch, first: int, last: int) -> StateBatch:
    return batch._replace(first=max(batch.first, first), last=min(batch.last, last))


def compact(batches: Iterable[StateBatch]) -> list[StateBatch]:
    compacted: list[StateBatch] = []
    for each in batches:
        if compacted and compacted[-1].last + 1 == each.first and compacted[-1][2:] == each[2:]:
            compacted[-1] = compacted[-1]._replace(last=each.last)
        else:
            compacted.append(each)
    return compacted
