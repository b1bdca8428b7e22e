"""Idempotent producers: what is a duplicate, a gap, fenced, remembered, forgotten."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import (
    ProducerEpochOld,
    SequenceOutOfOrder,
    TransactionCoordinatorFenced,
    TransactionStateInvalid,
)
from tests.support.logs import DAY_MS, NOW, batch, end_txn, marker, one_log, produced, reopened
from tests.support.producers import producer, refused

LAST = (1 << 31) - 1  # the largest sequence; 0 follows
HOW = pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])


# Sequences


def test_the_five_last_batches_are_answered_with_their_first_offset(log: Log) -> None:
    log.append(batch("before"))
    first = [log.append(produced(3 * i, 3)) for i in range(7)]
    for i in (6, 2, 3, 4, 5, 6, 2):
        again = log.append(produced(3 * i, 3))
        assert again == first[i]._replace(duplicate=True), i
    assert log.log_end_offset == 22
    log.append(produced(21, 3))
    refused(log, produced(6, 3), SequenceOutOfOrder)


def test_what_is_older_than_the_batches_remembered_is_refused_as_a_gap_is(log: Log) -> None:
    """A client takes the answer to a duplicate as success, and here nobody knows what was there."""
    for i in range(8):
        log.append(produced(i))
    for sequence in (0, 2, 9, 1 << 30, (1 << 30) + 8, LAST):
        refused(log, produced(sequence), SequenceOutOfOrder)


@pytest.mark.parametrize(("first", "count"), [(1, 3), (2, 2), (1, 1), (0, 1), (0, 2), (0, 4)])
@HOW
def test_a_duplicate_is_the_same_batch_from_its_first_record_to_its_last(
    cleanly: bool, first: int, count: int, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    log.append_durable(produced(0, 3))
    refused(log, produced(first, count), SequenceOutOfOrder)
    again = reopened(log_dir, cleanly)
    refused(again.log("t", 0), produced(first, count), SequenceOutOfOrder)
    again.close()


def test_an_exact_resend_is_a_duplicate_only_among_the_last_five_batches(log: Log) -> None:
    log.append(produced(0, 3))
    for i in range(4):
        log.append(produced(3 + i))
    assert log.append(produced(0, 3)) == (0, 2, -1, True)
    log.append(produced(7))
    refused(log, produced(0, 3), SequenceOutOfOrder)


def test_what_wraps_is_no_duplicate_of_what_only_ends_as_it_does(log: Log) -> None:
    log.append(produced(LAST, 3))
    for first, count in ((LAST, 2), (0, 2), (1, 1), (LAST - 1, 4)):
        refused(log, produced(first, count), SequenceOutOfOrder)
    assert log.append(produced(LAST, 3)) == (0, 2, -1, True)


def test_a_gap_is_refused_and_the_missing_batch_is_then_taken(log: Log) -> None:
    log.append(produced(0, 2))
    refused(log, produced(3), SequenceOutOfOrder)
    log.append(produced(2))
    log.append(produced(3))
    assert producer(log) == (7, 0, 3, 3, -1, NOW, -1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_sequences_wrap_to_zero(log: Log, count: int) -> None:
    log.append(produced(LAST - 5, 4))
    # This batch ends at, or runs over, the largest sequence.
    second = log.append(produced(LAST - 1, count))
    following = (LAST - 1 + count) % (LAST + 1)
    third = log.append(produced(following, 2))
    assert log.append(produced(LAST - 1, count)) == second._replace(duplicate=True)
    assert log.append(produced(following, 2)) == third._replace(duplicate=True)
    assert producer(log).last_sequence == (following + 1) % (LAST + 1)
    refused(log, produced((following + 3) % (LAST + 1)), SequenceOutOfOrder)


def test_sequences_wrap_exactly_behind_the_largest(log: Log) -> None:
    log.append(produced(LAST))
    refused(log, produced(1), SequenceOutOfOrder)
    log.append(produced(0))
    assert producer(log).last_sequence == 0


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert log.append(produced(41, pid=9)).base_offset == 0
    log.append(produced(42, pid=9))
    refused(log, produced(44, pid=9), SequenceOutOfOrder)


def test_producers_do_not_know_of_each_other(log: Log) -> None:
    for i in range(3):
        for pid in (1, 2, 3):
            assert not log.append(produced(i, pid=pid)).duplicate
    assert [producer(log, pid).last_offset for pid in (1, 2, 3)] == [6, 7, 8]


def test_batches_without_a_producer_are_never_duplicates(log: Log) -> None:
    assert [log.append(batch("a")).duplicate for _ in range(3)] == [False] * 3
    assert log.producers() == []


# Epochs


def test_an_older_epoch_is_fenced(log: Log) -> None:
    log.append(produced(0, epoch=3))
    refused(log, produced(0, epoch=2), ProducerEpochOld)
    refused(log, produced(1, epoch=2), ProducerEpochOld)
    log.append(produced(1, epoch=3))


def test_a_new_epoch_starts_at_zero(log: Log) -> None:
    log.append(produced(0, epoch=3))
    refused(log, produced(1, epoch=4), SequenceOutOfOrder)
    log.append(produced(0, epoch=4))
    assert (producer(log).epoch, producer(log).last_sequence) == (4, 0)
    refused(log, produced(1, epoch=3), ProducerEpochOld)


def test_a_new_epoch_forgets_the_batches_of_the_old_one(log: Log) -> None:
    first = log.append(produced(0, epoch=0))
    second = log.append(produced(0, epoch=1))
    assert (second.duplicate, second.base_offset) == (False, first.base_offset + 1)


def test_the_largest_epoch_is_taken(log: Log) -> None:
    log.append(produced(0, epoch=32767))
    refused(log, produced(0, epoch=32766), ProducerEpochOld)


# Remembering and forgetting


def remembers_all_five(log: Log) -> None:
    for i in range(1, 6):
        assert log.append(produced(2 * i, 2)) == (2 * i, 2 * i + 1, -1, True)
    refused(log, produced(0, 2), SequenceOutOfOrder)
    refused(log, produced(13), SequenceOutOfOrder)
    assert log.append(produced(12)).base_offset == 12


@HOW
@pytest.mark.parametrize("checkpoints", [0, 3, 6], ids=["all read again", "some read", "none read"])
def test_all_five_are_remembered_over_a_reopen(
    checkpoints: int, cleanly: bool, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    for i in range(6):
        log.append_durable(produced(2 * i, 2))
        if i + 1 == checkpoints:
            log_dir.checkpoint()
    again = reopened(log_dir, cleanly)
    remembers_all_five(again.log("t", 0))
    again.close()


def test_an_unverified_batch_goes_on_with_a_transaction_and_begins_none(log: Log) -> None:
    refused(log, produced(0, txn=True), TransactionStateInvalid, "unverified")
    log.append(produced(0, txn=True))
    log.append(produced(1, txn=True), origin="unverified")
    # Another epoch is another producer, and what a client sent twice is in the log already.
    refused(log, produced(0, epoch=1, txn=True), TransactionStateInvalid, "unverified")
    end_txn(log, "commit")
    refused(log, produced(2, txn=True), TransactionStateInvalid, "unverified")
    refused(log, produced(1, txn=True), SequenceOutOfOrder, "unverified")
    log.append(produced(2), origin="unverified")
    assert producer(log).txn_first_offset == -1


def test_an_epoch_that_ended_is_told_before_anything_else(log: Log) -> None:
    log.append(produced(0, txn=True))
    end_txn(log, "abort", epoch=1)
    refused(log, produced(1, txn=True), ProducerEpochOld, "unverified")


@HOW
def test_state_and_open_transactions_survive_a_reopen(cleanly: bool, log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.append(produced(5, 2, pid=1, epoch=3))
    log.append_durable(produced(0, 2, pid=2, txn=True))
    log_dir.checkpoint()
    log.append(produced(0, 1, pid=3, txn=True))
    end_txn(log, "abort", pid=3, coordinator_epoch=9)
    log.append_durable(produced(7, 1, pid=1, epoch=3))
    before = (sorted(log.producers()), log.last_stable_offset, log.aborted_transactions(0, 99))
    again = reopened(log_dir, cleanly)
    log = again.log("t", 0)
    after = (sorted(log.producers()), log.last_stable_offset, log.aborted_transactions(0, 99))
    assert before == after
    assert after[1:] == (2, [(3, 4, 5)])
    refused(log, marker("abort", 3, 0, 8), TransactionCoordinatorFenced, "coordinator")
    refused(log, produced(2, 1, pid=2), TransactionStateInvalid)
    end_txn(log, "commit", pid=2)
    log.flush()
    assert log.last_stable_offset == log.log_end_offset
    again.close()


def test_what_was_not_durable_is_forgotten_with_its_records(log_dir: LogDir) -> None:
    """The state must follow the log: here the tail is cut as a power cut would."""
    log = log_dir.log("t", 0)
    log.append_durable(produced(0))
    kept = log.size
    log_dir.checkpoint()
    log.append(produced(1))
    path = Path(log.segments()[0].path)
    log_dir.abandon()
    with path.open("r+b") as file:
        file.truncate(kept)
    with one_log(log_dir.path) as log:
        refused(log, produced(2), SequenceOutOfOrder)
        assert log.append(produced(1)) == (1, 1, -1, False)


def test_an_idle_producer_is_forgotten_after_its_time(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    now = int(time.time() * 1000)
    log.append(produced(0, pid=1), now_ms=now - 2 * DAY_MS)
    log.append_durable(produced(0, pid=2), now_ms=now)
    log_dir.checkpoint()
    assert [each.producer_id for each in log.producers()] == [2]
    # It may go on with any sequence: refusing would strand it.
    assert not log.append(produced(77, pid=1)).duplicate


def test_a_producer_with_an_open_transaction_is_not_forgotten(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    long_ago = int(time.time() * 1000) - 20 * DAY_MS
    log.append_durable(produced(0, pid=1, txn=True), now_ms=long_ago)
    log_dir.checkpoint()
    assert producer(log, 1).txn_first_offset == 0
    log.append_durable(marker("abort", pid=1), origin="coordinator", now_ms=long_ago)
    log_dir.checkpoint()
    assert log.producers() == []


def test_expiry_counts_from_the_append_not_from_the_records_time(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.append_durable(produced(0, timestamp=5))
    log_dir.checkpoint()
    assert producer(log).last_timestamp == 5


def test_expiry_goes_on_where_it_was_after_a_clean_stop(tmp_path: Path) -> None:
    three_days = {"producer_id_expiration_ms": 3 * DAY_MS}
    with one_log(tmp_path, **three_days) as log:
        log.append(produced(0), now_ms=int(time.time() * 1000) - 2 * DAY_MS)
    with one_log(tmp_path, **three_days) as log:
        assert len(log.producers()) == 1
    with one_log(tmp_path) as log:
        assert log.producers() == []
