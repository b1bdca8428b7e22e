"""What a share fetch reads of a log, and what of it is for the group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.share.acquisition import Acquired
from appliance.share.reading import Job, read, read_all
from tests.support.damaged import SETTINGS, Damaged, build
from tests.support.logs import batch, end_txn, one_log, opened, produced, values


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


def job(log: Log, offset: int = 0, **facts: object) -> Job:
    return Job(log, offset, 1 << 20, 500, False)._replace(**facts)


def transactions(log: Log) -> None:
    """0-1 aborted, 3-4 committed, 6 plain, 7 not ended."""
    log.append(produced(0, 2, txn=True))
    end_txn(log, "abort")
    log.append(produced(2, 2, txn=True))
    end_txn(log, "commit")
    log.append(batch("e"))
    log.append(produced(4, txn=True))
    log.flush()


def test_markers_are_for_nobody(log: Log) -> None:
    transactions(log)
    found = read(job(log))
    assert found.extents == [
        (0, 1, True), (2, 2, False), (3, 4, True), (5, 5, False), (6, 6, True), (7, 7, True)
    ]  # fmt: skip


def test_of_committed_records_the_aborted_are_left_out(log: Log) -> None:
    transactions(log)
    found = read(job(log, is_committed=True))
    assert found.extents == [
        (0, 1, False), (2, 2, False), (3, 4, True), (5, 5, False), (6, 6, True)
    ]  # fmt: skip
    assert read(job(log, 3, is_committed=True)).extents[0] == (3, 4, True)


def test_no_more_is_read_than_was_asked_for(log: Log) -> None:
    for i in range(100):
        log.append(batch(*[f"{i:02}-{j}" + 1000 * "x" for j in range(10)]))
    log.flush()
    size = len(read(job(log, 990)).data)
    assert len(read(job(log, records_max=1)).extents) == (64 << 10) // size
    assert len(read(job(log)).extents) >= 50
    assert len(read(job(log)).extents) < 100
    assert len(read(job(log, bytes_max=3 * size + 1)).extents) == 3
    assert len(read(job(log, bytes_max=1)).extents) == 1, "one comes whole"
    assert read(job(log, 990)).extents == [(990, 999, True)]
    assert read(job(log, 1000)).data == b""


def test_batches_without_anything_acquired_are_cut_out(log: Log) -> None:
    for text in "abcde":
        log.append(batch(text, text))
    log.flush()
    found = read(job(log))
    assert values(found.slice([Acquired(2, 2, 1), Acquired(7, 9, 1)])) == ["b", "b", *"ddee"]
    assert found.slice([Acquired(0, 9, 1)]) is found.data
    assert found.slice([]) == b""


def test_one_log_that_fails_does_not_keep_from_others(log: Log) -> None:
    log.append(batch("a"))
    log.flush()
    failed, good = read_all([job(log, 5), job(log)])
    assert "cannot read at offset 5" in str(failed)
    assert not isinstance(good, Exception)
    assert good.extents == [(0, 0, True)]


def test_a_hole_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    damaged = Damaged(path, build(path))
    damaged.remove(12)
    with opened(path, **SETTINGS) as log_dir:
        log = log_dir.log("t", 0)
        before = read(job(log, 6))
        assert before.extents[-1].last == 11
        assert not before.is_hole
        hole = read(job(log, 14))
        assert (hole.extents, hole.data, hole.is_hole) == ([(14, 17, False)], b"", True)
