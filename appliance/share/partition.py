"""One share partition: which records of one partition a share group has done, has, or is to get.

No clock and no I/O: time is passed in, and `partitions.py` writes what changes to disk.

    log          ... 40 | 41  42  43  44  45  46  47 | 48 ...
                          ^ start_offset, the SPSO     ^ end_offset, one past the SPEO
    below start  done, for good
    runs         41-42 Acknowledged, 43-45 Acquired, 46-47 Available: what is the same side by side
                 is one run, so a batch costs what a record costs; they leave no gap between them
    from end on  nobody was given anything of it yet

An acknowledgement counts once it is on disk. Until then its records stay acquired and are marked
with the `Change` that they wait for: their locks do not time out, and nobody can acknowledge them
twice. `settle` makes it count, `undo` takes it back.

A record that keeps failing is kept from dragging down those beside it: from half of the limit on
fewer and fewer are delivered together, and a record's last delivery is of it alone, as in Kafka.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance.share.states import AFTER, FINAL, AcknowledgeType, RecordState, ShareRefused
from appliance.wire import ErrorCode

NEVER_MS = 2**63 - 1
NOBODY = ""
# One batch may have millions of records, and each a state of its own: that is time on the event
# loop, and a record of the state that has to fit into a batch. As many locks as a group may ever be
# given leave room for a few large batches beside them.
RUNS_MAX = 20_000
THROTTLE_MIN = 2  # deliveries that every record gets without being slowed down


class Extent(NamedTuple):
    """Where a batch stands in the log, and whether it has records for this group."""

    first: int
    last: int
    is_deliverable: bool = True


class Acquired(NamedTuple):
    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    first: int
    last: int
    types: Sequence[int]  # one for all, or one for each


class StateBatch(NamedTuple):
    """A run as it is kept on disk."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


@dataclass(frozen=True)
class Limits:
    """Of the group, as they are now."""

    delivery_count: int = 5
    record_locks: int = 2000
    lock_ms: int = 30_000
    may_renew: bool = True


@dataclass(frozen=True)
class Asked:
    """What a member wants to acquire."""

    member_id: str
    records_max: int
    batch_size: int  # records in a range of the answer, if they can be cut so
    is_strict: bool = False  # records_max may not be exceeded, as it may be to end with a batch


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


class SharePartition:
    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.runs: list[Run] = []
        self._unstored: list[tuple[int, int]] = []

    @property
    def end_offset(self) -> int:
        return self.runs[-1].last + 1 if self.runs else self.start_offset

    @property
    def in_flight_count(self) -> int:
        """Records from the first that is not done to the last that was given out."""
        return self.end_offset - self.start_offset

    @property
    def delivery_complete_count(self) -> int:
        """Records that are done although one before them is not."""
        return sum(each.last - each.first + 1 for each in self.runs if each.is_settled_final)

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
        self, asked: Asked, offset: int, found: Sequence[Extent], limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Of what was read from `offset` on. Where the log has no record for this group, which
        compaction and transactions do, nothing will be delivered: that is archived at once."""
        if not found:
            return []
        last, end_offset = found[-1].last, self.end_offset
        room = limits.record_locks - self.in_flight_count
        if room <= 0:
            last = min(last, end_offset - 1)
        turn = _Turn(asked, limits, now_ms, asked.records_max)
        for piece in _pieces(max(offset, self.start_offset), last, found):
            if piece.last >= end_offset:
                turn.limit_new(room)
            if not (
                self._take_new(piece, turn)
                if piece.first == self.end_offset
                else self._take_again(piece, turn)
            ):
                break
        self._merge()
        self._advance()
        return turn.acquired

    def _take_new(self, piece: Extent, turn: _Turn) -> bool:
        """Of a batch that nobody was given anything of, which most are; whether there may be more
        in this turn."""
        if not piece.is_deliverable:
            self._append(Run(piece.first, piece.last, RecordState.ARCHIVED))
            self._unstored.append((piece.first, piece.last))
            return turn.has_room
        if not turn.has_room:
            return False
        run = Run(piece.first, piece.last)
        run.last, _ = turn.bound(run, run.first, run.last)
        if run.last >= run.first:
            turn.take(run, is_batch_start=True)
            self._append(run)
        return turn.has_room

    def _append(self, run: Run) -> None:
        if self.runs and self.runs[-1].is_like(run):
            self.runs[-1].last = run.last
        else:
            self.runs.append(run)

    def _take_again(self, piece: Extent, turn: _Turn) -> bool:
        """Of a batch of which somebody was given something before; whether there may be more."""
        self._extend(piece.last)
        if not piece.is_deliverable:
            self._archive(piece)
            return turn.has_room
        first = piece.first
        while first <= piece.last and turn.has_room:
            run = self._run_at(first)
            last = min(run.last, piece.last)
            if run.is_free:
                last, goes_on = turn.bound(run, first, last)
                if last < first:
                    break
                own = self._isolate(first, last)
                turn.take(own, is_batch_start=first == piece.first)
                if not goes_on:
                    break
            first = last + 1
        self._give_back_unread(first)
        return turn.has_room

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
        for run in self._isolated(piece.first, piece.last):
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
        self._cut_all(each for first, last, _ in parts for each in (first, last + 1))
        change = Change()
        for first, last, kind in parts:
            for run in self._over(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.due_ms = now_ms + limits.lock_ms
                else:
                    self._mark(run, AFTER[kind], change, limits)
        self._merge()
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
        pieces = len(self.runs) + 2 * count
        if pieces > RUNS_MAX:
            raise ShareRefused(
                ErrorCode.INVALID_REQUEST,
                f"got acknowledgements in {count} pieces, with which there would be {pieces} of "
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
        for run in self._over(first, last):
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
        self._merge()
        self._advance()

    def undo(self, change: Change) -> None:
        """It cannot be written: the records are acquired as before, and may time out."""
        for run in self._of(change):
            run.target = run.change = None
        self._merge()

    def _of(self, change: Change) -> Iterator[Run]:
        for first, last in change.ranges:
            for run in self._over(first, last):
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
            self._merge()
            self._advance()
        return count > 0

    def move_start(self, log_start_offset: int) -> bool:
        """The log begins later now. What is gone is done."""
        if log_start_offset <= self.start_offset:
            return False
        self._drop_below(log_start_offset)
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
        found = []
        for first, last in _joined(ranges):
            found += [_clipped(run.stored(), first, last) for run in self._over(first, last)]
        return _compact(found)

    def put_back(self, batches: Iterable[StateBatch]) -> None:
        """They could not be written."""
        self._unstored += [(each.first, each.last) for each in batches]

    def take_whole(self) -> list[StateBatch]:
        """Everything that is not as if it had never been delivered."""
        self._unstored = []
        stored = [run.stored() for run in self.runs]
        return _compact(
            each for each in stored if each.delivery_count or each.state in FINAL
        )

    def restore(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """A record of the log on top of those before it."""
        for first, last, state, delivery_count in batches:
            if last < first or last < self.start_offset:
                continue
            first = max(first, self.start_offset)
            self._extend(last)
            for run in self._isolated(first, last):
                run.become(state)
                run.delivery_count = delivery_count
        if start_offset > self.start_offset:
            self._drop_below(start_offset)
        self._merge()
        self._advance()

    # Runs

    def _extend(self, last: int) -> None:
        if last >= self.end_offset:
            self.runs.append(Run(self.end_offset, last))

    def _index_of(self, offset: int) -> int:
        return bisect_right(self.runs, offset, key=_first) - 1

    def _run_at(self, offset: int) -> Run:
        return self.runs[self._index_of(offset)]

    def _over(self, first: int, last: int) -> list[Run]:
        """Runs that have something of the range."""
        found = []
        for i in range(max(0, self._index_of(first)), len(self.runs)):
            run = self.runs[i]
            if run.first > last:
                break
            if run.last >= first:
                found.append(run)
        return found

    def _isolated(self, first: int, last: int) -> list[Run]:
        """Runs that are the range, cut out of those that reach beyond it."""
        self._cut_at(first)
        self._cut_at(last + 1)
        return self._over(first, last)

    def _isolate(self, first: int, last: int) -> Run:
        (run,) = self._isolated(first, last)
        return run

    def _cut_at(self, offset: int) -> None:
        i = self._index_of(offset)
        if i < 0 or not self.runs[i].first < offset <= self.runs[i].last:
            return
        run = self.runs[i]
        self.runs[i : i + 1] = [run.cut(run.first, offset - 1), run.cut(offset, run.last)]

    def _cut_all(self, offsets: Iterable[int]) -> None:
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

    def _merge(self) -> None:
        merged: list[Run] = []
        for run in self.runs:
            if merged and merged[-1].is_like(run):
                merged[-1].last = run.last
            else:
                merged.append(run)
        self.runs = merged

    def _advance(self) -> None:
        """The start moves past what is done."""
        i = 0
        while i < len(self.runs) and self.runs[i].is_settled_final:
            i += 1
        if i:
            self.start_offset = self.runs[i - 1].last + 1
            del self.runs[:i]

    def _drop_below(self, offset: int) -> None:
        self._cut_at(offset)
        self.runs = [run for run in self.runs if run.first >= offset]
        self.start_offset = offset
        self._advance()


@dataclass
class _Turn:
    """One member's turn to acquire."""

    asked: Asked
    limits: Limits
    now_ms: int
    records_max: int
    acquired: list[Acquired] = field(default_factory=list)
    count: int = 0
    is_over: bool = False
    is_limited: bool = False

    @property
    def has_room(self) -> bool:
        return not self.is_over and self.count < self.records_max

    def limit_new(self, room: int) -> None:
        """From here on records come that count as more in flight; those before did already."""
        if not self.is_limited:
            self.is_limited = True
            self.records_max = min(self.records_max, self.count + room)

    def bound(self, run: Run, first: int, last: int) -> tuple[int, bool]:
        """How far the free records from `first` to `last` are delivered together, and whether
        others may go with them."""
        most = last - first + 1
        if self.asked.is_strict:
            most = min(most, self.records_max - self.count)
        slow = self._slowed(run, last - first + 1)
        if slow is None:
            return first + most - 1, True
        if self.count:
            self.is_over = True
            return first - 1, False
        self.is_over = True
        return first + min(most, slow) - 1, False

    def _slowed(self, run: Run, length: int) -> int | None:
        """How many records are delivered at once of those that failed this often."""
        limit = self.limits.delivery_count
        begin = max(THROTTLE_MIN, -(-limit // 2))
        if run.delivery_count < begin or limit <= THROTTLE_MIN:
            return None
        if run.delivery_count >= limit - 1:
            return 1
        return max(1, length >> (run.delivery_count - begin + 1))

    def take(self, run: Run, is_batch_start: bool) -> None:
        run.state, run.member_id = RecordState.ACQUIRED, self.asked.member_id
        run.delivery_count += 1
        run.due_ms = self.now_ms + self.limits.lock_ms
        self.count += run.last - run.first + 1
        before = self.acquired[-1] if self.acquired else None
        if (
            before is not None
            and before.last + 1 == run.first
            and before.delivery_count == run.delivery_count
            and not (is_batch_start and self._is_full(before))
        ):
            self.acquired[-1] = before._replace(last=run.last)
        else:
            self.acquired.append(Acquired(run.first, run.last, run.delivery_count))

    def _is_full(self, acquired: Acquired) -> bool:
        size = acquired.last - acquired.first + 1
        return not self.asked.is_strict and size >= self.asked.batch_size


def _first(run: Run) -> int:
    return run.first


def _pieces(offset: int, last: int, found: Iterable[Extent]) -> Iterator[Extent]:
    """Every offset from `offset` to `last`, in the order of the log: batches, and what is between
    them."""
    for each in found:
        if each.last < offset:
            continue
        if offset > last:
            return
        if each.first > offset:
            yield Extent(offset, min(each.first - 1, last), False)
            offset = each.first
        if offset <= last:
            yield Extent(offset, min(each.last, last), each.is_deliverable)
        offset = each.last + 1


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, and none over another."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _clipped(batch: StateBatch, first: int, last: int) -> StateBatch:
    return batch._replace(first=max(batch.first, first), last=min(batch.last, last))


def _compact(batches: Iterable[StateBatch]) -> list[StateBatch]:
    found: list[StateBatch] = []
    for each in batches:
        if found and found[-1].last + 1 == each.first and found[-1][2:] == each[2:]:
            found[-1] = found[-1]._replace(last=each.last)
        else:
            found.append(each)
    return found
