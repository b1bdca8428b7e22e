"""What one member acquires by one fetch: how much it may have, and how that is cut into ranges.

A record that keeps failing is kept from dragging down those beside it: from half of the limit on
fewer and fewer are delivered together, and a record's last delivery is of it alone, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance.share.runs import Run
from appliance.share.states import RecordState

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


@dataclass
class Acquisition:
    """What one member acquires by one fetch."""

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


def pieces(offset: int, last: int, extents: Iterable[Extent]) -> Iterator[Extent]:
    """Every offset from `offset` to `last`, in the order of the log: batches, and what is between
    them."""
    for each in extents:
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
