"""Idempotent and transactional producers: what is a duplicate, a gap, fenced, open, aborted."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import (
    ApplianceError,
    BatchInvalid,
    ProducerEpochOld,
    SequenceOutOfOrder,
    TransactionCoordinatorFenced,
    TransactionStateInvalid,
)
from appliance.record import _batch
from appliance.storage._log_view import ProducerInfo
from tests.support.batch_model import crc32c
from tests.support.logs import (
    DAY_MS,
    NOW,
    batch,
    end_txn,
    log_config,
    marker,
    one_log,
    opened,
    produced,
    reopened,
    values,
)

LAST = (1 << 31) - 1  # the largest sequence; 0 follows
HOW = pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    with opened(tmp_path) as each:
        each.create("t", 0, log_config())
        yield each


def producer(log: Log, pid: int = 7) -> ProducerInfo:
    (found,) = [each for each in log.producers() if each.producer_id == pid]
    return found


def refused(log: Log, data: bytes, error: type[ApplianceError], origin: str = "client") -> None:
    """And nothing is written, nothing changes."""
    before = (log.log_end_offset, sorted(log.producers()))
    with pytest.raises(error):
        log.append(data, origin=origin)
    assert before == (log.log_end_offset, sorted(log.producers()))


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


# Snapshot files


def snapshot(path: Path) -> list[tuple[int, ...]]:
    """Kafka's layout, read by hand."""
    data = path.read_bytes()
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, crc, len(data)) == (1, crc32c(data[6:]), 10 + 46 * count)
    return sorted(struct.unpack_from(">qhiqiqiq", data, 10 + 46 * i) for i in range(count))


def test_a_roll_leaves_a_snapshot_in_kafkas_layout(log: Log) -> None:
    log.append(produced(0, 3, pid=1, epoch=2))
    log.append(produced(8, 2, pid=2, txn=True))
    end_txn(log, "commit", pid=3, coordinator_epoch=6)
    log.roll()
    path = Path(log.segments()[1].path).with_suffix(".snapshot")
    assert path.name == f"{6:020d}.snapshot"
    assert snapshot(path) == [
        (1, 2, 2, 2, 2, NOW, -1, -1),
        (2, 0, 9, 4, 1, NOW, -1, 3),
        (3, 0, -1, -1, 0, NOW, 6, -1),
    ]


def test_a_log_without_producers_writes_no_snapshots(log: Log) -> None:
    log.append(batch("a"))
    log.roll()
    assert list(Path(log.segments()[0].path).parent.glob("*.snapshot")) == []


def test_snapshots_go_with_their_segments(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    for i in range(4):
        log.append_durable(produced(i))
        log.roll()
    log_dir.checkpoint()
    log.delete_before(3)
    names = sorted(path.name for path in (log_dir.path / "t-0").glob("*.snapshot"))
    assert names == [f"{base:020d}.snapshot" for base in (3, 4)]


def test_a_truncated_log_takes_its_state_from_the_snapshot_and_the_rest(log: Log) -> None:
    log.append(produced(0, 2, pid=1))
    log.append(produced(0, pid=2, txn=True))
    log.roll()
    log.append(produced(2, pid=1))
    log.append(produced(3, pid=1))
    end_txn(log, "commit", pid=2)
    log.truncate(4)
    found = [each[:5] for each in sorted(log.producers())]
    assert found == [(1, 0, 2, 3, -1), (2, 0, 0, 2, 2)]
    refused(log, produced(4, pid=1), SequenceOutOfOrder)
    assert log.append(produced(2, pid=1)) == (3, 3, -1, True)
    assert log.append(produced(3, pid=1)) == (4, 4, -1, False)
    refused(log, produced(1, pid=2), TransactionStateInvalid)


@pytest.mark.parametrize("damage", ["gone", "flipped", "cut", "empty"])
def test_a_lost_snapshot_loses_no_state_at_a_reopen(damage: str, log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    for i in range(3):
        log.append_durable(produced(i))
        log.roll()
    again = reopened(log_dir, cleanly=False)
    again.abandon()
    for path in (log_dir.path / "t-0").glob("*.snapshot"):
        data = path.read_bytes()
        changed = {"flipped": data[:-1] + b"\7", "cut": data[:-1], "empty": b""}
        path.unlink() if damage == "gone" else path.write_bytes(changed[damage])
    with one_log(log_dir.path) as log:
        assert log.append(produced(2)).duplicate
        refused(log, produced(4), SequenceOutOfOrder)


# Transactions


def test_the_stable_offset_waits_for_the_oldest_open_transaction(log: Log) -> None:
    log.append(produced(0, pid=1, txn=True))
    log.append(produced(0, pid=2, txn=True))
    log.append(batch("x"))
    log.flush()
    assert log.last_stable_offset == 0
    end_txn(log, "commit", pid=1)
    log.flush()
    assert log.last_stable_offset == 1
    end_txn(log, "abort", pid=2)
    log.flush()
    assert log.last_stable_offset == log.high_watermark == 5


def test_the_stable_offset_moves_only_when_the_marker_is_visible(log: Log) -> None:
    log.append(produced(0, txn=True))
    log.append(batch("x"))
    log.flush()
    end_txn(log, "commit")
    assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (0, 2, 3)
    assert log.read(0, up_to="stable") == b""
    log.flush()
    assert (log.last_stable_offset, log.high_watermark) == (3, 3)


def test_a_transaction_after_an_invisible_marker_does_not_hide_it(log: Log) -> None:
    log.append(produced(0, txn=True))
    log.flush()
    end_txn(log, "commit")
    log.append(produced(1, txn=True))
    assert log.last_stable_offset == 0
    log.flush()
    assert log.last_stable_offset == 2


def test_only_aborted_transactions_are_listed_and_only_where_they_touch(log: Log) -> None:
    log.append(batch("x"))  # 0
    log.append(produced(0, 2, pid=1, txn=True))  # 1, 2
    log.append(produced(0, 2, pid=2, txn=True))  # 3, 4
    end_txn(log, "commit", pid=1)  # 5
    end_txn(log, "abort", pid=2)  # 6
    log.append(produced(2, pid=2, txn=True))  # 7
    end_txn(log, "abort", pid=2)  # 8
    log.append(batch("y"))  # 9
    first, second = (2, 3, 6), (2, 7, 8)
    wanted = {
        (0, 10): [first, second],
        (0, 3): [],
        (0, 4): [first],
        (4, 5): [first],
        (6, 7): [first],
        (6, 8): [first, second],
        (7, 8): [second],
        (8, 9): [second],
        (9, 10): [],
    }
    assert {span: log.aborted_transactions(*span) for span in wanted} == wanted


def test_interleaved_aborts_are_all_found_from_anywhere(log: Log) -> None:
    """Ends come in another order than starts; the search must not stop early."""
    spans = []
    for i in range(6):
        spans.append((i, log.append(produced(0, pid=i, txn=True)).base_offset))
    wanted = []
    for i in (3, 0, 5, 1, 4, 2):
        wanted.append((i, spans[i][1], end_txn(log, "abort", pid=i)))
    for low in range(log.log_end_offset):
        for high in range(low + 1, log.log_end_offset + 1):
            touching = [each for each in wanted if each[1] < high and each[2] >= low]
            assert set(log.aborted_transactions(low, high)) >= set(touching), (low, high)


def test_a_plain_batch_inside_an_open_transaction_is_refused(log: Log) -> None:
    log.append(produced(0, txn=True))
    refused(log, produced(1), TransactionStateInvalid)
    log.append(produced(1, txn=True))
    end_txn(log, "commit")
    log.append(produced(2))


def test_a_marker_of_an_older_epoch_is_fenced(log: Log) -> None:
    log.append(produced(0, epoch=2, txn=True))
    refused(log, marker("abort", epoch=1), ProducerEpochOld, "coordinator")
    end_txn(log, "abort", epoch=2)
    refused(log, marker("commit", epoch=1), ProducerEpochOld, "coordinator")


def test_a_marker_of_an_older_coordinator_is_fenced(log: Log) -> None:
    log.append(produced(0, txn=True))
    end_txn(log, "commit", coordinator_epoch=5)
    log.append(produced(1, txn=True))
    refused(log, marker("abort", coordinator_epoch=4), TransactionCoordinatorFenced, "coordinator")
    end_txn(log, "commit", coordinator_epoch=5)


def test_a_marker_with_a_new_epoch_fences_the_producer_and_ends_its_transaction(log: Log) -> None:
    """What the coordinator writes when a transactional id starts anew, or timed out."""
    log.append(produced(0, epoch=0, txn=True))
    end_txn(log, "abort", epoch=1)
    log.flush()
    assert log.aborted_transactions(0, 9) == [(7, 0, 1)]
    refused(log, produced(1, epoch=0, txn=True), ProducerEpochOld)
    log.append(produced(0, epoch=1, txn=True))


def test_a_marker_for_a_producer_that_wrote_nothing_here_ends_nothing(log: Log) -> None:
    log.append(produced(0, pid=1, txn=True))
    end_txn(log, "abort", pid=2)
    log.flush()
    assert (log.aborted_transactions(0, 9), log.last_stable_offset) == ([], 0)


def test_a_second_marker_ends_nothing_more(log: Log) -> None:
    log.append(produced(0, txn=True))
    end_txn(log, "abort")
    end_txn(log, "commit")
    end_txn(log, "abort")
    log.flush()
    assert log.aborted_transactions(0, 9) == [(7, 0, 1)]
    assert log.last_stable_offset == 4


def test_markers_are_no_records_and_take_one_offset(log: Log) -> None:
    log.append(produced(0, 2, txn=True))
    assert end_txn(log, "commit") == 2
    data = log.read(0, up_to="end")
    assert values(data) == ["7.0.0", "7.0.1"]
    info = _batch.headers(data)[1]
    assert (info.is_control, info.is_transactional, info.last_offset) == (True, True, 2)
    assert log.append(produced(2)).base_offset == 3


def test_a_client_cannot_write_a_marker(log: Log) -> None:
    log.append(produced(0, txn=True))
    refused(log, marker("commit"), ApplianceError)


def test_a_damaged_marker_is_refused_from_the_coordinator_too(log: Log) -> None:
    data = bytearray(marker("commit"))
    data[-1] ^= 1
    refused(log, bytes(data), ApplianceError, "coordinator")
    refused(log, marker("commit") + b"x", ApplianceError, "coordinator")


@HOW
def test_aborted_transactions_survive_rolls_and_reopens(cleanly: bool, log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    wanted = []
    for i in range(8):
        first = log.append(produced(i, txn=True)).base_offset
        if i % 3 == 1:
            log.roll()
        wanted.append((7, first, end_txn(log, "abort")))
        if i % 3 == 0:
            log.flush()
            log_dir.checkpoint()
    log.flush()
    again = reopened(log_dir, cleanly)
    assert again.log("t", 0).aborted_transactions(0, 99) == wanted
    again.close()


def test_an_aborted_transaction_that_was_truncated_away_does_not_come_back(
    log_dir: LogDir,
) -> None:
    log = log_dir.log("t", 0)
    log.append(batch("x"))
    log.append(produced(0, txn=True))
    end_txn(log, "abort")
    log.flush()
    log_dir.checkpoint()
    log.truncate(1)
    assert log.aborted_transactions(0, 9) == []
    log.append(produced(0, epoch=1, txn=True))
    end_txn(log, "commit", epoch=1)
    again = reopened(log_dir, cleanly=True)
    assert again.log("t", 0).aborted_transactions(0, 9) == []
    again.close()


def test_an_aborted_transaction_that_a_power_cut_took_does_not_come_back(log_dir: LogDir) -> None:
    """Its entry reached the transaction index, its marker never reached the log."""
    log = log_dir.log("t", 0)
    log.append_durable(batch("x"))
    log_dir.checkpoint()
    kept = {path: path.read_bytes() for path in log_dir.path.glob("checkpoint.*")}
    size, path = log.size, Path(log.segments()[0].path)
    log.append(produced(0, txn=True))
    end_txn(log, "abort")
    log.flush()
    log_dir.checkpoint()
    log_dir.abandon()
    for name, data in kept.items():
        name.write_bytes(data)
    path.write_bytes(path.read_bytes()[:size])
    with one_log(log_dir.path) as log:
        log.append(produced(0, epoch=1, txn=True))
        end_txn(log, "commit", epoch=1)
        assert log.aborted_transactions(0, 9) == []
    with one_log(log_dir.path) as log:
        assert log.aborted_transactions(0, 9) == []


def test_the_coordinators_batches_need_no_sequence(log: Log) -> None:
    """Offsets in a transaction belong to its producer, which did not count them."""
    own = batch("a", producer_id=7, producer_epoch=0, transactional=True)
    refused(log, own, BatchInvalid)
    for _ in range(7):
        log.append(own, origin="coordinator")
    (producer,) = log.producers()
    assert (producer.txn_first_offset, log.last_stable_offset) == (0, 0)
    end_txn(log, "commit")
    log.append(own, origin="coordinator")
    end_txn(log, "abort")
    newer = batch("a", producer_id=7, producer_epoch=1, transactional=True)
    log.append(newer, origin="coordinator")
    refused(log, own, ProducerEpochOld, "coordinator")
    end_txn(log, "abort", epoch=1)
    log.append(produced(0, pid=7, epoch=1))
    assert log.log_end_offset == 13
