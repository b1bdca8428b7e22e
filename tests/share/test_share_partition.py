from __future__ import annotations

import pytest

from appliance.protocol import ErrorCode
from appliance.share.acquisition import Acquired, Asked, Extent, Limits
from appliance.share.partition import Acknowledgement, SharePartition
from appliance.share.runs import NEVER_MS, Change, StateBatch
from appliance.share.states import AcknowledgeType, RecordState, ShareRefused

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
REJECT, RENEW, GAP = AcknowledgeType.REJECT, AcknowledgeType.RENEW, AcknowledgeType.GAP
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

LOCK_MS = 30_000
LIMITS = Limits()
TENS = [Extent(first, first + 9) for first in range(0, 100, 10)]


def fetch(
    own: SharePartition,
    most: int = 500,
    *,
    member: str = "a",
    batch_size: int = 500,
    is_strict: bool = False,
    now_ms: int = 0,
    log: list[Extent] = TENS,
    limits: Limits = LIMITS,
) -> list[Acquired]:
    offset = own.next_fetch_offset()
    found = [each for each in log if each.last >= offset]
    asked = Asked(member, most, batch_size, is_strict)
    return own.acquire(asked, offset, found, limits, now_ms)


def mark(
    own: SharePartition,
    first: int,
    last: int,
    *types: int,
    member: str = "a",
    limits: Limits = LIMITS,
    now_ms: int = 0,
) -> Change | None:
    return own.acknowledge(member, [Acknowledgement(first, last, types)], limits, now_ms)


def done(own: SharePartition, first: int, last: int, *types: int, member: str = "a") -> None:
    change = mark(own, first, last, *types, member=member)
    assert change is not None
    own.settle(change)


def states(own: SharePartition) -> list[tuple[int, int, RecordState, int]]:
    return [(each.first, each.last, each.state, each.delivery_count) for each in own.runs]


# Acquiring


def test_a_fetch_acquires_whole_batches() -> None:
    own = SharePartition(0)
    assert fetch(own, 15) == [(0, 19, 1)]
    assert (own.start_offset, own.end_offset) == (0, 20)
    assert fetch(own, 15, member="b") == [(20, 39, 1)]


def test_a_strict_fetch_acquires_what_was_asked_for() -> None:
    own = SharePartition(0)
    assert fetch(own, 15, is_strict=True) == [(0, 14, 1)]
    assert own.end_offset == 15, "nobody has heard of the rest of the batch"
    assert fetch(own, 1, is_strict=True, member="b") == [(15, 15, 1)]


def test_ranges_are_cut_at_batches_once_they_are_large_enough() -> None:
    assert fetch(SharePartition(0), 50, batch_size=15) == [(0, 19, 1), (20, 39, 1), (40, 49, 1)]


def test_a_fetch_may_begin_within_a_batch() -> None:
    assert fetch(SharePartition(25), 3) == [(25, 29, 1)]


def test_nothing_is_acquired_twice() -> None:
    own = SharePartition(0)
    assert fetch(own) == [(0, 99, 1)]
    assert own.next_fetch_offset() == 100
    assert fetch(own, member="b") == []


def test_locks_are_limited() -> None:
    own, limits = SharePartition(0), Limits(record_locks=15)
    assert fetch(own, limits=limits) == [(0, 19, 1)]
    assert not own.may_acquire(15)
    assert fetch(own, limits=limits) == []
    done(own, 3, 5, RELEASE)
    assert own.may_acquire(15)
    assert fetch(own, limits=limits) == [(3, 5, 2)], "those are in flight already"


def test_what_is_in_flight_leaves_less_for_new_ones() -> None:
    own, limits = SharePartition(0), Limits(record_locks=25)
    fetch(own, 10, limits=limits)
    done(own, 1, 5, RELEASE)
    assert fetch(own, limits=limits, is_strict=True) == [(1, 5, 2), (10, 24, 1)]


def test_where_the_log_has_no_record_nothing_is_delivered() -> None:
    log = [Extent(3, 5), Extent(6, 6, False), Extent(9, 9)]
    own = SharePartition(0)
    assert fetch(own, log=log) == [(3, 5, 1), (9, 9, 1)]
    assert (own.start_offset, own.end_offset) == (3, 10)
    assert states(own) == [(3, 5, ACQUIRED, 1), (6, 8, ARCHIVED, 0), (9, 9, ACQUIRED, 1)]


def test_a_log_without_records_moves_the_start() -> None:
    own = SharePartition(0)
    assert fetch(own, log=[Extent(4, 7, False)]) == []
    assert (own.start_offset, own.end_offset, own.runs) == (8, 8, [])
    assert own.has_unstored


def test_what_compaction_took_meanwhile_is_archived() -> None:
    own = SharePartition(0)
    fetch(own, 20)
    done(own, 0, 19, RELEASE)
    assert fetch(own, log=[Extent(5, 9), Extent(20, 29)]) == [(5, 9, 2), (20, 29, 1)]
    assert own.start_offset == 5


# Acknowledging


def test_the_start_moves_past_what_is_done() -> None:
    own = SharePartition(0)
    fetch(own, 20)
    done(own, 5, 9, ACCEPT)
    assert own.start_offset == 0
    done(own, 0, 4, REJECT)
    assert own.start_offset == 10
    assert own.delivery_complete_count == 0


def test_an_acknowledgement_counts_once_it_is_on_disk() -> None:
    own = SharePartition(0)
    fetch(own, 10)
    change = mark(own, 0, 9, ACCEPT)
    assert change is not None
    assert own.start_offset == 0
    with pytest.raises(ShareRefused, match="being acknowledged") as refused:
        mark(own, 0, 9, ACCEPT)
    assert refused.value.kafka_code == ErrorCode.INVALID_RECORD_STATE
    assert not own.expire(LOCK_MS, 5), "a lock does not time out under it"
    own.settle(change)
    assert own.start_offset == 10


def test_one_that_cannot_be_written_is_taken_back() -> None:
    own = SharePartition(0)
    fetch(own, 10)
    change = mark(own, 0, 9, ACCEPT)
    assert change is not None
    own.undo(change)
    assert own.take_unstored() == [(0, 9, AVAILABLE, 0)]
    assert states(own) == [(0, 9, ACQUIRED, 1)]
    assert own.expire(LOCK_MS, 5)
    assert states(own) == [(0, 9, AVAILABLE, 1)]


def test_each_record_may_have_its_own_type() -> None:
    own = SharePartition(0)
    fetch(own, 10)
    done(own, 0, 9, ACCEPT, ACCEPT, RELEASE, REJECT, GAP, *[RELEASE] * 5)
    assert states(own) == [(2, 2, AVAILABLE, 1), (3, 4, ARCHIVED, 1), (5, 9, AVAILABLE, 1)]
    assert own.delivery_complete_count == 2
    assert fetch(own, member="b", log=TENS[:1]) == [(2, 2, 2), (5, 9, 2)]


def test_all_of_a_request_counts_or_nothing() -> None:
    own = SharePartition(0)
    fetch(own, 10)
    given = [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 10, [ACCEPT])]
    with pytest.raises(ShareRefused):
        own.acknowledge("a", given, Limits(), 0)
    assert states(own) == [(0, 9, ACQUIRED, 1)]
    assert not own.has_unstored


@pytest.mark.parametrize(
    ("first", "last", "member", "code", "text"),
    [
        (0, 4, "b", ErrorCode.INVALID_RECORD_STATE, "offsets 0 to 4 are with member a"),
        (10, 12, "a", ErrorCode.INVALID_REQUEST, "got offsets 10 to 12"),
        (5, 10, "a", ErrorCode.INVALID_REQUEST, "got offsets 5 to 10"),
        (2**63 - 2, 2**63 - 1, "a", ErrorCode.INVALID_REQUEST, "got offsets"),
        (3, 6, "a", ErrorCode.INVALID_RECORD_STATE, "offsets 5 to 6 are acknowledged"),
    ],
)
def test_what_a_member_does_not_have_it_cannot_acknowledge(
    first: int, last: int, member: str, code: ErrorCode, text: str
) -> None:
    own = SharePartition(0)
    fetch(own, 10)
    done(own, 5, 6, ACCEPT)
    with pytest.raises(ShareRefused, match=text) as refused:
        mark(own, first, last, ACCEPT, member=member)
    assert refused.value.kafka_code == code


def test_nothing_was_acquired() -> None:
    with pytest.raises(ShareRefused) as refused:
        mark(SharePartition(0), 0, 0, ACCEPT)
    assert refused.value.kafka_code == ErrorCode.INVALID_RECORD_STATE


def test_a_batch_of_a_million_records_does_not_become_a_million_runs() -> None:
    own, log = SharePartition(0), [Extent(0, 10**6 - 1)]
    assert fetch(own, log=log) == [(0, 10**6 - 1, 1)]
    with pytest.raises(ShareRefused, match="got acknowledgements in 10000 pieces") as refused:
        mark(own, 0, 9999, *[ACCEPT, RELEASE] * 5000)
    assert refused.value.kafka_code == ErrorCode.INVALID_REQUEST
    done(own, 0, 8999, *[ACCEPT, RELEASE] * 4500)
    assert len(own.runs) == 9000
    done(own, 9000, 10**6 - 1, ACCEPT)
    own.expire(LOCK_MS, 5)
    assert fetch(own, 10**6, log=log) == [(i, i, 2) for i in range(1, 9000, 2)]


def test_below_the_start_an_acknowledgement_says_nothing_new() -> None:
    own = SharePartition(0)
    fetch(own, 20)
    own.move_start(7)
    assert mark(own, 0, 6, ACCEPT) is None
    done(own, 0, 19, ACCEPT)
    assert own.start_offset == 20


def test_a_lock_is_renewed() -> None:
    own = SharePartition(0)
    fetch(own, 10)
    assert mark(own, 0, 4, RENEW, now_ms=20_000) is None
    assert own.expire(LOCK_MS, 5)
    assert states(own) == [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)]
    assert own.next_due_ms() == 20_000 + LOCK_MS
    with pytest.raises(ShareRefused, match=r"share\.renew\.acknowledge\.enable"):
        mark(own, 0, 4, RENEW, limits=Limits(may_renew=False))


# Time, and deliveries


def test_locks_time_out() -> None:
    own = SharePartition(0)
    fetch(own, 10, now_ms=5)
    assert not own.expire(4 + LOCK_MS, 5)
    assert own.expire(5 + LOCK_MS, 5)
    assert own.next_due_ms() == NEVER_MS
    assert fetch(own, 10, member="b") == [(0, 9, 2)]


def test_a_member_that_goes_gives_back_what_it_had() -> None:
    own = SharePartition(0)
    fetch(own, 10)
    fetch(own, 10, member="b")
    assert own.release("a", 5)
    assert not own.release("a", 5)
    assert fetch(own, 10, member="b") == [(0, 9, 2)]


def test_a_record_is_not_delivered_more_often_than_the_limit() -> None:
    own, limits = SharePartition(0), Limits(delivery_count=2)
    log = TENS[:1]
    for count in (1, 2):
        assert fetch(own, log=log, limits=limits) == [(0, 9, count)]
        change = mark(own, 0, 9, RELEASE, limits=limits)
        assert change is not None
        own.settle(change)
    assert own.start_offset == 10
    assert fetch(own, log=log, limits=limits) == []


def test_records_that_fail_are_delivered_apart() -> None:
    """With a limit of 5: together, together, together, in halves, each alone."""
    own, log = SharePartition(0), [Extent(0, 7)]
    for count in (1, 2, 3):
        assert fetch(own, log=log) == [(0, 7, count)]
        done(own, 0, 7, RELEASE)
    seen = []
    while own.start_offset < 8:
        ((first, last, count),) = fetch(own, log=log)
        seen.append((first, last, count))
        done(own, first, last, RELEASE)
    assert seen[:2] == [(0, 3, 4), (0, 0, 5)]
    assert {each for each in seen if each[2] == 5} == {(i, i, 5) for i in range(8)}


def test_a_record_that_failed_does_not_go_with_others() -> None:
    own = SharePartition(0)
    own.restore(0, [StateBatch(4, 4, AVAILABLE, 4)])
    assert fetch(own) == [(0, 3, 1)]
    assert fetch(own) == [(4, 4, 5)]
    assert fetch(own) == [(5, 99, 1)]


# The log begins later


def test_a_log_that_begins_later_moves_the_start() -> None:
    own = SharePartition(0)
    fetch(own, 20)
    done(own, 5, 14, ACCEPT)
    assert own.move_start(7)
    assert (own.start_offset, own.end_offset) == (15, 20)
    assert not own.move_start(3)
    assert own.move_start(50)
    assert (own.start_offset, own.end_offset) == (50, 50)


def test_what_is_being_acknowledged_below_a_moved_start_settles() -> None:
    own = SharePartition(0)
    fetch(own, 20)
    change = mark(own, 0, 19, ACCEPT)
    assert change is not None
    own.move_start(10)
    own.settle(change)
    assert own.start_offset == 20


# Disk


def test_what_is_stored_is_what_a_crash_leaves() -> None:
    own = SharePartition(0)
    fetch(own, 30)
    done(own, 10, 14, RELEASE)
    assert own.take_unstored() == [(10, 14, AVAILABLE, 1)]
    assert not own.has_unstored
    assert fetch(own, 1) == [(10, 14, 2)]
    mark(own, 20, 29, REJECT)
    assert own.take_unstored() == [(20, 29, ARCHIVED, 1)]
    assert own.take_whole() == [(10, 14, AVAILABLE, 1), (20, 29, ARCHIVED, 1)]


def test_what_could_not_be_written_is_written_with_the_next() -> None:
    own = SharePartition(0)
    fetch(own, 20)
    own.expire(LOCK_MS, 5)
    batches = own.take_unstored()
    assert batches == [(0, 19, AVAILABLE, 1)]
    own.put_back(batches)
    assert own.take_unstored() == batches


def test_what_was_stored_comes_back() -> None:
    own = SharePartition(5)
    own.restore(5, [StateBatch(10, 14, AVAILABLE, 1), StateBatch(20, 29, ARCHIVED, 1)])
    own.restore(5, [StateBatch(5, 7, ACKNOWLEDGED, 1), StateBatch(12, 12, ACKNOWLEDGED, 2)])
    assert own.start_offset == 8
    assert states(own) == [
        (8, 9, AVAILABLE, 0), (10, 11, AVAILABLE, 1), (12, 12, ACKNOWLEDGED, 2),
        (13, 14, AVAILABLE, 1), (15, 19, AVAILABLE, 0), (20, 29, ARCHIVED, 1),
    ]  # fmt: skip
    own.restore(30, [])
    assert (own.start_offset, own.runs) == (30, [])
