"""A share partition does the same as a dictionary with an entry per record, whatever is done to it
in whatever order, crashes included."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from appliance.share.acquisition import Asked, Extent, Limits
from appliance.share.partition import Acknowledgement, SharePartition
from appliance.share.runs import Change, StateBatch
from appliance.share.states import AFTER, AcknowledgeType, RecordState, ShareRefused

LOCK_MS = 100
LIMITS = Limits(delivery_count=4, record_locks=12, lock_ms=LOCK_MS)
FINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


@dataclass
class One:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    due_ms: int = 0


@dataclass
class Pending:
    change: Change
    targets: dict[int, RecordState]


@dataclass
class Model:
    """Drives a share partition, and keeps its own books."""

    log: list[Extent]
    own: SharePartition = field(default_factory=lambda: SharePartition(0))
    records: dict[int, One] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    disk: dict[int, StateBatch] = field(default_factory=dict)
    disk_start: int = 0
    log_start: int = 0
    now_ms: int = 0
    finished: set[int] = field(default_factory=set)  # acknowledged on disk

    def one(self, offset: int) -> One:
        return self.records.setdefault(offset, One())

    # Operations

    def fetch(self, member: str, most: int, is_strict: bool) -> None:
        offset = self.own.next_fetch_offset()
        found = [each for each in self.log if each.last >= max(offset, self.log_start)]
        in_flight = self.own.in_flight_count
        got = self.own.acquire(
            Asked(member, most, 3, is_strict), offset, found, LIMITS, self.now_ms
        )
        offsets = [i for each in got for i in range(each.first, each.last + 1)]
        assert offsets == sorted(set(offsets))
        assert not is_strict or len(offsets) <= most
        new = [i for i in offsets if i >= offset and self.one(i).count == 0]
        widest = max((each.last - each.first + 1 for each in self.log), default=0)
        assert not new or in_flight + len(new) <= LIMITS.record_locks + widest + in_flight
        for each in got:
            for i in range(each.first, each.last + 1):
                self.acquired(i, member, each.delivery_count)
        self.archive_what_is_no_record(found, offset)

    def acquired(self, offset: int, member: str, delivery_count: int) -> None:
        one = self.one(offset)
        assert any(each.first <= offset <= each.last and each.is_deliverable for each in self.log)
        assert one.state is RecordState.AVAILABLE, f"{offset} was {one}"
        assert offset not in self.finished
        assert delivery_count == one.count + 1 <= LIMITS.delivery_count
        one.state, one.count = RecordState.ACQUIRED, delivery_count
        one.member, one.due_ms = member, self.now_ms + LOCK_MS

    def archive_what_is_no_record(self, found: list[Extent], offset: int) -> None:
        end = min(self.own.end_offset, found[-1].last + 1) if found else 0
        for i in range(offset, end):
            is_record = any(each.first <= i <= each.last and each.is_deliverable for each in found)
            run = [each for each in self.own.runs if each.first <= i <= each.last]
            is_archived = i < self.own.start_offset or run[0].state is RecordState.ARCHIVED
            if not is_record and is_archived and self.one(i).state is RecordState.AVAILABLE:
                self.one(i).state = RecordState.ARCHIVED

    def acknowledge(self, member: str, first: int, kinds: list[AcknowledgeType]) -> None:
        last = first + len(kinds) - 1
        wanted = {first + i: kind for i, kind in enumerate(kinds)}
        above = {i: kind for i, kind in wanted.items() if i >= self.own.start_offset}
        is_legal = last < self.own.end_offset and all(
            self.one(i).state is RecordState.ACQUIRED
            and self.one(i).member == member
            and not any(i in each.targets for each in self.pending)
            for i in above
        )
        try:
            change = self.own.acknowledge(
                member, [Acknowledgement(first, last, kinds)], LIMITS, self.now_ms
            )
        except ShareRefused:
            assert not is_legal
            return
        assert is_legal or last < self.own.start_offset
        targets = {}
        for i, kind in above.items():
            if kind is AcknowledgeType.RENEW:
                self.one(i).due_ms = self.now_ms + LOCK_MS
            else:
                targets[i] = self.after(i, AFTER[kind])
        assert (change is not None) == bool(targets)
        if change is not None:
            self.pending.append(Pending(change, targets))

    def acknowledge_some(self, pick: int, skip: int, kinds: list[AcknowledgeType]) -> None:
        """By the member that has them, if the range stays within one run."""
        acquired = [each for each in self.own.runs if each.state is RecordState.ACQUIRED]
        if acquired:
            run = acquired[pick % len(acquired)]
            first = min(run.first + skip, run.last)
            self.acknowledge(run.member_id, first, kinds[: run.last - first + 1])

    def after(self, offset: int, target: RecordState) -> RecordState:
        is_spent = self.one(offset).count >= LIMITS.delivery_count
        return RecordState.ARCHIVED if is_spent and target not in FINAL else target

    def write(self, is_whole: bool, is_good: bool) -> None:
        start = self.own.start_offset
        batches = self.own.take_whole() if is_whole else self.own.take_unstored()
        if is_good:
            if is_whole:
                self.disk.clear()
            self.disk |= {i: each for each in batches for i in range(each.first, each.last + 1)}
            self.disk_start = max(self.disk_start, start)
        else:
            self.own.put_back(batches)
        for each in self.pending:
            if is_good:
                self.own.settle(each.change)
                for i, state in each.targets.items():
                    self.one(i).state = state
                    self.finished |= {i} if state in FINAL else set()
            else:
                self.own.undo(each.change)
        self.pending = []
        if is_good:
            self.check_disk()

    def check_disk(self) -> None:
        """Right after a write it has everything but acquisitions."""
        for i, one in self.records.items():
            if i < self.own.start_offset:
                continue
            is_acquired = one.state is RecordState.ACQUIRED
            state = RecordState.AVAILABLE if is_acquired else one.state
            wanted = (i, i, state, one.count - is_acquired)
            found = self.disk.get(i, StateBatch(i, i, RecordState.AVAILABLE, 0))
            assert (i, i, *found[2:]) == wanted

    def let_go(self, is_due: Any) -> None:
        for i, one in self.records.items():
            is_busy = any(i in each.targets for each in self.pending)
            if one.state is RecordState.ACQUIRED and not is_busy and is_due(one):
                one.state = self.after(i, RecordState.AVAILABLE)

    def release(self, member: str) -> None:
        self.own.release(member, LIMITS.delivery_count)
        self.let_go(lambda one: one.member == member)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.own.expire(self.now_ms, LIMITS.delivery_count)
        self.let_go(lambda one: one.due_ms <= self.now_ms)

    def delete_before(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)
        self.own.move_start(offset)

    def crash(self) -> None:
        self.own, self.records, self.pending = SharePartition(self.disk_start), {}, []
        self.own.restore(self.disk_start, [
            StateBatch(i, i, each.state, each.delivery_count)
            for i, each in sorted(self.disk.items())
        ])
        for i, each in self.disk.items():
            self.records[i] = One(each.state, each.delivery_count)
        self.own.move_start(self.log_start)

    # What must be so

    def check(self) -> None:
        runs = self.own.runs
        assert not runs or runs[0].first == self.own.start_offset
        assert not runs or runs[0].state not in FINAL
        for before, after in pairwise(runs):
            assert before.last + 1 == after.first
            assert not before.is_like(after)
        for run in runs:
            for i in range(run.first, run.last + 1):
                one = self.one(i)
                assert (run.state, run.delivery_count) == (one.state, one.count), (i, run, one)
                if run.state is RecordState.ACQUIRED:
                    assert (run.member_id, run.due_ms) == (one.member, one.due_ms)
        for i, one in self.records.items():
            if self.log_start <= i < self.own.start_offset:
                assert one.state in FINAL, f"{i} is below the start, but {one}"
            elif i >= self.own.end_offset:
                assert (one.state, one.count) == (RecordState.AVAILABLE, 0)

    def drain(self) -> None:
        """Everything that is left is delivered and done in the end."""
        end = self.log[-1].last + 1 if self.log else 0
        for _ in range(20 * end + 20):
            if self.own.start_offset >= end:
                return
            self.wait(LOCK_MS)
            self.fetch("last", 5, False)
            for run in list(self.own.runs):
                if run.member_id == "last":
                    kinds = [AcknowledgeType.ACCEPT] * (run.last - run.first + 1)
                    self.acknowledge("last", run.first, kinds)
            self.write(False, True)
            self.check()
        raise AssertionError(f"stuck at {self.own.start_offset} of {end}: {self.own.runs}")


@st.composite
def logs(draw: st.DrawFn) -> list[Extent]:
    found, offset = [], 0
    for gap, length, kind in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 5)),
                 min_size=1, max_size=8)
    ):
        first = offset + (gap if gap == 2 else 0)
        found.append(Extent(first, first + length - 1, kind > 0))
        offset = first + length
    return found


MEMBERS = st.sampled_from("ab")
KINDS = st.one_of(
    st.lists(st.sampled_from(AcknowledgeType), min_size=1, max_size=8),
    st.builds(lambda kind, count: [kind] * count, st.sampled_from(AcknowledgeType),
              st.integers(1, 8)),
)
STEPS = st.one_of(
    st.tuples(st.just("fetch"), MEMBERS, st.integers(1, 8), st.booleans()),
    st.tuples(st.just("fetch"), MEMBERS, st.integers(1, 8), st.booleans()),
    st.tuples(st.just("acknowledge"), MEMBERS, st.integers(0, 20), KINDS),
    st.tuples(st.just("acknowledge_some"), st.integers(0, 5), st.integers(0, 3), KINDS),
    st.tuples(st.just("acknowledge_some"), st.integers(0, 5), st.just(0), KINDS),
    st.tuples(st.just("write"), st.booleans(), st.integers(0, 2).map(bool)),
    st.tuples(st.just("release"), MEMBERS),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, LOCK_MS])),
    st.tuples(st.just("delete_before"), st.integers(0, 20)),
    st.tuples(st.just("crash")),
)  # fmt: skip


@given(logs(), st.lists(STEPS, min_size=5, max_size=40))
@examples(max_examples=500, deadline=None)
def test_it_does_as_the_model(log: list[Extent], steps: list[tuple[Any, ...]]) -> None:
    model = Model(log)
    for name, *given_ in steps:
        getattr(model, name)(*given_)
        model.check()
    model.drain()
