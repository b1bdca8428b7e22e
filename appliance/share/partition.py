"""One share partition: which records of one partition a share group has done, has, or is to get.

No clock and no I/O: time is passed in, and `partitions.py` writes what changes to disk.

    log          ... 40 | 41  42  43  44  45  46  47 | 48 ...
                          ^ start_offset, the SPSO     ^ end_offset, one past the SPEO
    below start  done, for good
    runs         41-42 Acquired, 43-45 Acknowledged, 46-47 Available
    from end on  nobody was given anything of it yet

An acknowledgement counts once it is on disk. Until then its records stay acquired and are marked
with the `Change` that they wait for: their locks do not time out, and nobody can acknowledge them
twice. `settle` makes it count, `undo` takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from appliance.protocol import ErrorCode
from appliance.share.acquisition import Acquired, Acquisition, Asked, Extent, Limits, pieces
from appliance.share.runs import NEVER_MS, Change, Run, Runs, StateBatch, clipped, compact, joined
from appliance.share.states import AFTER, FINAL, AcknowledgeType, RecordState, ShareRefused

# One batch may have millions of records, and each a state of its own: that is time on the event
# loop, and a record of the state that has to fit into a batch. As many locks as a group may ever be
# given leave room for a few large batches beside them.
RUNS_MAX = 20_000
COUNT_MAX = 2**31 - 1


class Acknowledgement(NamedTuple):
    first: int
    last: int
    types: Sequence[int]  # one for all, or one for each


class SharePartition(Runs):
    def __init__(self, start_offset: int) -> None:
        super().__init__(start_offset)
        self._unstored: list[tuple[int, int]] = []

    def copy(self) -> SharePartition:
        own = SharePartition(self.start_offset)
        own.runs = [each.cut(each.first, each.last) for each in self.runs]
        own._unstored = [*self._unstored]
        return own

    @property
    def in_flight_count(self) -> int:
        """Records from the first that is not done to the last that was given out."""
        return self.end_offset - self.start_offset

    @property
    def delivery_complete_count(self) -> int:
        """Records that are done although one before them is not. Offsets without a record count,
        and there may be more of them than the field has room for."""
        count = sum(each.last - each.first + 1 for each in self.runs if each.is_settled_final)
        return min(count, COUNT_MAX)

    def next_fetch_offset(self) -> int:
        """The first record that nobody has."""
        return next((each.first for each in self.runs if each.is_free), self.end_offset)

    def may_acquire(self, record_locks_max: int) -> bool:
        offset = self.next_fetch_offset()
        return offset < self.end_offset or self.in_flight_count < record_locks_max

    def next_due_ms(self) -> int:
        return min((each.due_ms for each in self.runs if each.change is None), default=NEVER_MS)

    # Acquiring

    def acquire(
        self, asked: Asked, offset: int, extents: Sequence[Extent], limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Of what was read from `offset` on. Where the log has no record for this group, which
        compaction and transactions do, nothing will be delivered: that is archived at once."""
        if not extents:
            return []
        last, end_offset = extents[-1].last, self.end_offset
        room = limits.record_locks - self.in_flight_count
        if room <= 0:
            last = min(last, end_offset - 1)
        acquisition = Acquisition(asked, limits, now_ms, asked.records_max)
        for piece in pieces(max(offset, self.start_offset), last, extents):
            if piece.last >= end_offset:
                acquisition.limit_new(room)
            if not (
                self._take_new(piece, acquisition)
                if piece.first == self.end_offset
                else self._take_again(piece, acquisition)
            ):
                break
        self.merge()
        self.advance()
        return acquisition.acquired

    def _take_new(self, piece: Extent, acquisition: Acquisition) -> bool:
        """Of a batch that nobody was given anything of, which most are; whether there may be more
        in this acquisition."""
        if not piece.is_deliverable:
            self.append(Run(piece.first, piece.last, RecordState.ARCHIVED))
            self._unstored.append((piece.first, piece.last))
            return acquisition.has_room
        if not acquisition.has_room:
            return False
        run = Run(piece.first, piece.last)
        run.last, _ = acquisition.bound(run, run.first, run.last)
        if run.last >= run.first:
            acquisition.take(run, is_batch_start=True)
            self.append(run)
        return acquisition.has_room

    def _take_again(self, piece: Extent, acquisition: Acquisition) -> bool:
        """Of a batch of which somebody was given something before; whether there may be more."""
        self.extend(piece.last)
        if not piece.is_deliverable:
            self._archive(piece)
            return acquisition.has_room
        first = piece.first
        while first <= piece.last and acquisition.has_room:
            run = self.run_at(first)
            last = min(run.last, piece.last)
            if run.is_free:
                last, goes_on = acquisition.bound(run, first, last)
                if last < first:
                    break
                own = self.isolate(first, last)
                acquisition.take(own, is_batch_start=first == piece.first)
                if not goes_on:
                    break
            first = last + 1
        self._give_back_unread(first)
        return acquisition.has_room

    def _give_back_unread(self, offset: int) -> None:
        """What was never given to anybody is no state to keep."""
        while self.runs and self.runs[-1].first >= offset and self._is_untouched(self.runs[-1]):
            self.runs.pop()
        if self.runs and self.runs[-1].last >= offset and self._is_untouched(self.runs[-1]):
            self.runs[-1] = self.runs[-1].cut(self.runs[-1].first, offset - 1)

    @staticmethod
    def _is_untouched(run: Run) -> bool:
        return run.is_free and run.delivery_count == 0

    def _archive(self, piece: Extent) -> None:
        for run in self.isolated(piece.first, piece.last):
            if run.is_free:
                run.become(RecordState.ARCHIVED)
                self._unstored.append((run.first, run.last))

    # Acknowledging

    def acknowledge(
        self, member_id: str, given: Iterable[Acknowledgement], limits: Limits, now_ms: int
    ) -> Change | None:
        """All of it or, with an error, nothing. None: nothing of it has to be written."""
        parts = [part for each in given for part in self._parts(each)]
        self._check_pieces(len(parts))
        for part in parts:
            self._check(member_id, part, limits)
        self.cut_all(each for first, last, _ in parts for each in (first, last + 1))
        change = Change()
        for first, last, kind in parts:
            for run in self.over(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.due_ms = now_ms + limits.lock_ms
                else:
                    self._mark(run, AFTER[kind], change, limits)
        self.merge()
        return change if change.ranges else None

    def _parts(self, given: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """Runs of one type. What is below the start is done, whatever is said of it now."""
        if given.last < self.start_offset:
            return
        if given.last >= self.end_offset:
            code = ErrorCode.INVALID_REQUEST if self.runs else ErrorCode.INVALID_RECORD_STATE
            raise ShareRefused(
                code, f"got offsets {given.first} to {given.last}, wanted acquired ones, of which "
                f"the last before {self.end_offset} is the last"
            )
        begin = 0
        types = given.types
        count = len(types)
        for i in range(1, count + 1):
            if i < count and types[i] == types[begin]:
                continue
            first = given.first + begin
            last = given.last if i == count else given.first + i - 1
            if last >= self.start_offset:
                yield max(first, self.start_offset), last, AcknowledgeType(types[begin])
            begin = i

    def _check_pieces(self, count: int) -> None:
        total = len(self.runs) + 2 * count
        if total > RUNS_MAX:
            raise ShareRefused(
                ErrorCode.INVALID_REQUEST,
                f"got acknowledgements in {count} pieces, with which there would be {total} of "
                f"this share partition, wanted at most {RUNS_MAX}",
            )

    def _check(
        self, member_id: str, part: tuple[int, int, AcknowledgeType], limits: Limits
    ) -> None:
        first, last, kind = part
        if kind is AcknowledgeType.RENEW and not limits.may_renew:
            raise ShareRefused(
                ErrorCode.INVALID_RECORD_STATE,
                "locks cannot be renewed in this group (share.renew.acknowledge.enable)",
            )
        for run in self.over(first, last):
            if run.state is RecordState.ACQUIRED and run.change is None:
                if run.member_id == member_id:
                    continue
                fault = f"with member {run.member_id}"
            else:
                fault = run.state.name.lower() if run.change is None else "being acknowledged"
            raise ShareRefused(
                ErrorCode.INVALID_RECORD_STATE,
                f"offsets {max(first, run.first)} to {min(last, run.last)} are {fault}; wanted "
                f"acquired by member {member_id}",
            )

    def _mark(self, run: Run, target: RecordState, change: Change, limits: Limits) -> None:
        is_spent = run.delivery_count >= limits.delivery_count
        if target is RecordState.AVAILABLE and is_spent:
            target = RecordState.ARCHIVED
        run.target, run.change = target, change
        change.ranges.append((run.first, run.last))
        self._unstored.append((run.first, run.last))

    def settle(self, change: Change) -> None:
        """It is on disk."""
        for run in self._of(change):
            assert run.target is not None
            run.become(run.target)
        self.merge()
        self.advance()

    def undo(self, change: Change) -> None:
        """It cannot be written: the records are acquired as before, and may time out."""
        for run in self._of(change):
            run.target = run.change = None
        self.merge()

    def _of(self, change: Change) -> Iterator[Run]:
        for first, last in change.ranges:
            for run in self.over(first, last):
                if run.change is change:
                    yield run

    # Locks

    def release(self, member_id: str, delivery_count_max: int) -> bool:
        """The member is gone: what it had is anybody's."""
        return self._let_go(
            [run for run in self.runs if run.member_id == member_id], delivery_count_max
        )

    def expire(self, now_ms: int, delivery_count_max: int) -> bool:
        """Whether a lock has timed out."""
        return self._let_go([run for run in self.runs if run.due_ms <= now_ms], delivery_count_max)

    def _let_go(self, runs: Iterable[Run], delivery_count_max: int) -> bool:
        count = 0
        for run in runs:
            if run.state is RecordState.ACQUIRED and run.change is None:
                run.let_go(delivery_count_max)
                self._unstored.append((run.first, run.last))
                count += 1
        if count:
            self.merge()
            self.advance()
        return count > 0

    def move_start(self, log_start_offset: int) -> bool:
        """The log begins later now. What is gone is done."""
        if log_start_offset <= self.start_offset:
            return False
        self.drop_below(log_start_offset)
        self._unstored.append((log_start_offset, log_start_offset))
        return True

    def restart_at(self, log_end_offset: int) -> bool:
        """The log ends sooner now, as one does that was damaged and set aside: what comes next has
        offsets that the group believes to be done."""
        if log_end_offset >= self.end_offset:
            return False
        self.start_offset, self.runs = log_end_offset, []
        self._unstored.append((log_end_offset, log_end_offset))
        return True

    # What is on disk

    @property
    def has_unstored(self) -> bool:
        return bool(self._unstored)

    def take_unstored(self) -> list[StateBatch]:
        """What changed since it was last asked for, as it is to be on disk."""
        ranges, self._unstored = self._unstored, []
        batches = []
        for first, last in joined(ranges):
            batches += [clipped(run.stored(), first, last) for run in self.over(first, last)]
        return compact(batches)

    def put_back(self, batches: Iterable[StateBatch]) -> None:
        """They could not be written."""
        self._unstored += [(each.first, each.last) for each in batches]

    def take_whole(self) -> list[StateBatch]:
        """Everything that is not as if it had never been delivered."""
        self._unstored = []
        stored = [run.stored() for run in self.runs]
        return compact(
            each for each in stored if each.delivery_count or each.state in FINAL
        )

    def restore(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """A record of the log on top of those before it."""
        for first, last, state, delivery_count in batches:
            if last < first or last < self.start_offset:
                continue
            first = max(first, self.start_offset)
            self.extend(last)
            for run in self.isolated(first, last):
                run.become(state)
                run.delivery_count = delivery_count
        if start_offset > self.start_offset:
            self.drop_below(start_offset)
        self.merge()
        self.advance()
