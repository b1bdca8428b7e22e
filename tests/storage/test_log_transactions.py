"""Transactions in one log: what is stable, open, aborted, and which markers are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import (
    ApplianceError,
    BatchInvalid,
    ProducerEpochOld,
    TransactionCoordinatorFenced,
    TransactionStateInvalid,
)
from appliance.record import _batch
from tests.support.logs import (
    batch,
    end_txn,
    marker,
    one_log,
    opened,
    produced,
    reopened,
    values,
)
from tests.support.producers import refused

HOW = pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])


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


def test_an_aborted_transaction_survives_a_clean_stop_without_room_and_then_a_kill(
    log_dir: LogDir,
) -> None:
    """A full disk took no recovery point at the stop; the start after it makes one."""
    log = log_dir.log("t", 0)
    log.append_durable(batch("x"))
    log_dir.checkpoint()
    log.append(produced(0, txn=True))
    end_txn(log, "abort")
    log.append(produced(1, txn=True))
    log.roll()
    end_txn(log, "abort")
    log.flush()
    log_dir._close(log_dir.logs().values(), cleanly=True)
    with opened(log_dir.path) as again:
        assert again.log("t", 0).aborted_transactions(0, 9) == [(7, 1, 2), (7, 3, 4)]
        again.abandon()
    with opened(log_dir.path) as again:
        assert again.log("t", 0).aborted_transactions(0, 9) == [(7, 1, 2), (7, 3, 4)]


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
