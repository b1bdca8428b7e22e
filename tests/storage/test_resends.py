"""A batch sent again before the end marker of its transaction is a duplicate; after it, it is not.

A client that aborts counts on from the last answer that it got. So a batch with the numbers of one
that was written and whose answer was lost can be a new one of the next transaction, byte for byte
as long as the other. What an end marker stands behind is answered to nobody as written, and the
log knows so in every way that its state comes back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, SequenceOutOfOrder, TransactionStateInvalid
from tests.support.batch_model import crc32c
from tests.support.logs import (
    DAY_MS,
    NOW,
    copied,
    end_txn,
    everything,
    log_config,
    one_log,
    opened,
    produced,
    reopened,
    values,
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    with opened(tmp_path / "data") as each:
        each.create("t", 0, log_config())
        yield each


@pytest.fixture
def log(log_dir: LogDir) -> Log:
    return log_dir.log("t", 0)


def refused(log: Log, data: bytes, error: type[ApplianceError] = SequenceOutOfOrder) -> None:
    """And nothing is written, nothing changes."""
    before = (log.log_end_offset, sorted(log.producers()))
    with pytest.raises(error):
        log.append(data)
    assert before == (log.log_end_offset, sorted(log.producers()))


# Ways in which a log comes back. Each is given a directory that was left uncleanly.


def by_the_journal(path: Path) -> None:
    """Its checkpoint stands behind everything, so nothing is read."""
    with opened(path) as each:
        each.checkpoint()


def by_a_scan(path: Path) -> None:
    """No checkpoint says anything: all state comes from the records."""
    for each in path.glob("checkpoint.*"):
        each.unlink()


def by_a_journal_of_an_older_version(path: Path) -> None:
    """It did not tell how many batches have an end marker behind them: its field for the epoch was
    as wide as both are now."""
    by_the_journal(path)
    for each in path.glob("checkpoint.*"):
        each.write_bytes(without_ended(each.read_bytes()))


def by_kafkas_snapshot(path: Path) -> None:
    """A Kafka left the directory: the segment before the last is gone, its snapshot speaks."""
    with opened(path) as each:
        log = each.log("t", 0)
        log.roll()
        first = log.segments()[0].path
    Path(first).unlink()
    by_a_scan(path)


RETURNS = pytest.mark.parametrize(
    "comes_back", [by_the_journal, by_a_scan, by_a_journal_of_an_older_version, by_kafkas_snapshot]
)
Return = Callable[[Path], None]


def without_ended(data: bytes) -> bytes:
    """A file of the journal as an older version wrote it; docs/log-format.md has the picture."""
    changed, at = bytearray(data), 0
    while at + 25 <= len(changed):
        size, _, generation = struct.unpack_from(">IIq", changed, at)
        if not size or not generation:
            break
        if changed[at + 24] == 2:  # a partition
            forget_ended(changed, at + 25)
        end = at + 24 + size
        struct.pack_into(">I", changed, at + 4, crc32c(bytes(changed[at + 8 : end])))
        at = (end + 7) // 8 * 8
    return bytes(changed)


def forget_ended(changed: bytearray, at: int) -> None:
    at += 2 + struct.unpack_from(">H", changed, at)[0] + 13 * 8
    _, epochs, holes, bases = struct.unpack_from(">4i", changed, at)
    assert holes & 0xFF == 0, "none here, whatever a version says of their size beside it"
    at += 16 + 12 * epochs + 8 * bases
    (count,) = struct.unpack_from(">i", changed, at)
    at += 4
    for _ in range(count):
        told, epoch, batches = struct.unpack_from(">hhi", changed, at + 36)
        assert told > 0
        struct.pack_into(">i", changed, at + 36, epoch)
        at += 44 + 24 * batches


def come_back(log_dir: LogDir, comes_back: Return) -> Path:
    log_dir.log("t", 0).flush()
    log_dir.abandon()
    path = copied(log_dir.path, log_dir.path.with_name("back"))
    comes_back(path)
    return path


# In one life


def test_a_resend_before_the_marker_is_a_duplicate(log: Log) -> None:
    log.append(produced(0, 3, txn=True))
    log.append(produced(3, 3, txn=True))
    assert log.append(produced(3, 3, txn=True)) == (3, 5, -1, True)
    assert log.append(produced(0, 3, txn=True)) == (0, 2, -1, True)


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_what_an_end_marker_stands_behind_is_sent_again_in_vain(kind: str, log: Log) -> None:
    for i in range(3):
        log.append(produced(2 * i, 2, txn=True))
    end_txn(log, kind)
    for i in range(3):
        refused(log, produced(2 * i, 2, txn=True))
    log.append(produced(6, 2, txn=True))
    refused(log, produced(4, 2, txn=True))
    assert log.append(produced(6, 2, txn=True)) == (7, 8, -1, True)


def test_numbers_used_again_after_an_abort_are_refused_however_long_the_batch(log: Log) -> None:
    log.append(produced(0, 3, txn=True))
    end_txn(log, "abort")
    for count in (1, 2, 3, 4):
        refused(log, produced(0, count, txn=True))


def test_batches_that_age_out_take_their_end_with_them(log: Log) -> None:
    """Of the five remembered, ever fewer are ended as new ones come."""
    for i in range(4):
        log.append(produced(i, txn=True))
    end_txn(log, "commit")
    for i in range(4, 12):
        log.append(produced(i, txn=True))
        for newer in range(max(4, i - 4), i + 1):
            assert log.append(produced(newer, txn=True)).duplicate, (i, newer)
        for older in range(4):
            refused(log, produced(older, txn=True))


def test_a_new_epoch_begins_with_nothing_ended(log: Log) -> None:
    log.append(produced(0, 2, txn=True))
    end_txn(log, "abort", epoch=1)
    log.append(produced(0, 2, epoch=1, txn=True))
    assert log.append(produced(0, 2, epoch=1, txn=True)).duplicate
    end_txn(log, "commit", epoch=1)
    refused(log, produced(0, 2, epoch=1, txn=True))
    log.append(produced(0, 2, epoch=2, txn=True))
    assert log.append(produced(0, 2, epoch=2, txn=True)).duplicate


def test_a_marker_of_another_producer_ends_nothing_here(log: Log) -> None:
    log.append(produced(0, 2, pid=1))
    log.append(produced(0, 2, pid=2, txn=True))
    end_txn(log, "commit", pid=2)
    assert log.append(produced(0, 2, pid=1)).duplicate
    refused(log, produced(0, 2, pid=2, txn=True))


def test_plain_batches_after_a_transaction_are_known_again(log: Log) -> None:
    log.append(produced(0, txn=True))
    end_txn(log, "commit")
    log.append(produced(1))
    assert log.append(produced(1)).duplicate
    refused(log, produced(0))


def test_a_truncation_takes_a_marker_back(log: Log) -> None:
    log.append(produced(0, txn=True))
    log.append(produced(1, txn=True))
    end_txn(log, "commit")
    log.truncate(2)
    assert log.append(produced(1, txn=True)).duplicate
    log.append(produced(2, txn=True))


# Over a restart


@RETURNS
def test_an_ended_transaction_is_still_ended_after_a_restart(
    comes_back: Return, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    for i in range(3):
        log.append(produced(2 * i, 2, txn=True))
    end_txn(log, "abort")
    with one_log(come_back(log_dir, comes_back)) as log:
        for i in range(3):
            refused(log, produced(2 * i, 2, txn=True))
        assert not log.append(produced(6, txn=True)).duplicate


@RETURNS
def test_the_open_transaction_is_still_open_after_a_restart(
    comes_back: Return, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    log.append(produced(0, 2, txn=True))
    end_txn(log, "commit")
    second = log.append(produced(2, 2, txn=True))
    with one_log(come_back(log_dir, comes_back)) as log:
        refused(log, produced(0, 2, txn=True))
        assert log.append(produced(2, 2, txn=True)) == second._replace(duplicate=True)
        refused(log, produced(4), TransactionStateInvalid)
        log.append(produced(4, txn=True))


@RETURNS
def test_a_producer_without_transactions_is_known_again_after_a_restart(
    comes_back: Return, log_dir: LogDir
) -> None:
    first = log_dir.log("t", 0).append(produced(0, 2))
    with one_log(come_back(log_dir, comes_back)) as log:
        assert log.append(produced(0, 2)) == first._replace(duplicate=True)
        refused(log, produced(1, 1))


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
def test_plain_batches_after_a_transaction_are_known_again_after_a_restart(
    cleanly: bool, log_dir: LogDir
) -> None:
    log = log_dir.log("t", 0)
    log.append(produced(0, txn=True))
    end_txn(log, "commit")
    log.append_durable(produced(1))
    log_dir.checkpoint()
    again = reopened(log_dir, cleanly)
    assert again.log("t", 0).append(produced(1)).duplicate
    refused(again.log("t", 0), produced(0))
    again.close()


def test_the_marker_may_come_after_the_checkpoint(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    log.append_durable(produced(0, 2, txn=True))
    log_dir.checkpoint()
    end_txn(log, "abort")
    log.flush()
    again = reopened(log_dir, cleanly=False)
    refused(again.log("t", 0), produced(0, 2, txn=True))
    again.close()


def test_ended_is_still_ended_where_compaction_took_the_records(tmp_path: Path) -> None:
    """The last batch of a producer stays as a header, and its marker with it."""
    compacting = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    with opened(tmp_path, **compacting) as log_dir:
        log = log_dir.create("t", 0, log_config(**compacting))
        for i in range(3):
            log.append(produced(i, txn=True))
        end_txn(log, "abort")
        for i in range(3):
            log.append(produced(i, pid=8))
            log.roll()
            log.flush()
            log_dir.checkpoint()
            log.compact(NOW + DAY_MS * (2 * i + 2))
        assert "7.0.2" not in values(everything(log))
    by_a_scan(tmp_path)
    with one_log(tmp_path, **compacting) as log:
        refused(log, produced(2, txn=True))
        assert not log.append(produced(3, txn=True)).duplicate
