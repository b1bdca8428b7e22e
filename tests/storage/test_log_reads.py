"""Reading one log: which batches, up to where, and slices that stay valid."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import OffsetOutOfRange
from appliance.record import _batch
from tests.support.batch_model import stamped
from tests.support.logs import (
    LONG,
    bases,
    batch,
    end_txn,
    everything,
    log_config,
    one_log,
    opened,
    produced,
    split,
    values,
)

# Reading


def test_a_batch_comes_back_stamped_and_otherwise_as_it_was(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a", "b"), leader_epoch=3)
        appended = log.append(batch("c", codec="lz4"), leader_epoch=3)
        assert appended == (2, 2, -1, False)
        wanted = stamped(batch("c", codec="lz4"), 2, 3)
        assert log.read(2, up_to="end") == wanted
        assert values(log.read(0, up_to="end")) == ["a", "b", "c"]


def test_reading_starts_with_the_whole_batch_that_holds_the_offset(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for i in range(4):
            log.append(batch(*[f"{i}.{j}" for j in range(5)]))
        found = {offset: bases(log.read(offset, up_to="end")) for offset in (0, 4, 5, 7, 9, 19)}
    whole = [0, 5, 10, 15]
    assert found == {0: whole, 4: whole, 5: whole[1:], 7: whole[1:], 9: whole[1:], 19: [15]}


@pytest.mark.parametrize("max_bytes", [0, 1, 60, 61])
def test_the_first_batch_is_whole_however_small_the_limit(max_bytes: int, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a" * 500))
        log.append(batch("b"))
        assert values(log.read(0, max_bytes, "end")) == ["a" * 500]


def test_only_whole_batches_are_read_below_the_limit(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for name in "abc":
            log.append(batch(name))
        size = log.size // 3
        counts = [len(bases(log.read(0, size * 2 + more, "end"))) for more in (-1, 0, 1, size)]
        assert counts == [1, 2, 2, 3]


def test_a_read_stops_at_the_end_of_a_segment_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for i in range(6):
            log.append(batch(str(i)))
            if i % 2:
                log.roll()
        assert bases(log.read(0, up_to="end")) == [0, 1]
        assert bases(log.read(2, up_to="end")) == [2, 3]
        assert values(everything(log)) == list("012345")


def test_every_offset_is_found_through_a_dense_and_a_sparse_index(tmp_path: Path) -> None:
    for interval in (0, 500, 1 << 20):
        with one_log(tmp_path / str(interval), index_interval_bytes=interval) as log:
            for i in range(200):
                log.append(batch(*[f"{i}.{j}" for j in range(1 + i % 4)]))
            ends = [info.last_offset for info in _batch.headers(log.read(0, 1 << 20, "end"))]
            first = 0
            for end in ends:
                for offset in range(first, end + 1):
                    assert bases(log.read(offset, 1, "end")) == [first]
                first = end + 1


def test_reading_at_the_end_is_empty(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        assert log.read(0) == b""
        log.append_durable(batch("a"))
        assert log.read(1) == log.read(1, up_to="end") == log.read(1, up_to="stable") == b""


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [(-1, "offset -1"), (3, "offset 3"), (16, "offset 16"), (LONG, f"offset {LONG}")],
)
def test_out_of_range_is_refused_with_the_numbers(offset: int, wanted: str, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for _ in range(3):
            log.append_durable(batch(*"abcde"))
        log.delete_before(4)
        for read in (log.read, log.slice):
            with pytest.raises(OffsetOutOfRange) as error:
                read(offset)
            assert all(each in str(error.value) for each in (wanted, "start 4", "end 15", "t-0"))


# Limits


def test_consumers_see_what_is_durable_and_replicas_all(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a"))
        log.append(batch("b"))
        limits = (log.durable_offset, log.high_watermark, log.last_stable_offset)
        assert (*limits, log.log_end_offset) == (1, 1, 1, 2)
        assert (log.read(1), log.read(1, up_to="stable")) == (b"", b"")
        assert values(log.read(0)) == ["a"]
        assert values(log.read(1, up_to="end")) == ["b"]
        log.flush()
        assert values(log.read(0)) == values(log.read(0, up_to="stable")) == ["a", "b"]


def test_with_visibility_appended_consumers_see_what_is_written(tmp_path: Path) -> None:
    with one_log(tmp_path, visibility="appended") as log:
        log.append(batch("a"))
        assert (log.durable_offset, log.high_watermark, log.last_stable_offset) == (0, 1, 1)
        assert values(log.read(0)) == ["a"]


def test_visibility_can_be_changed_while_the_log_is_open(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        assert log.read(0) == b""
        log.configure(log_config(visibility="appended"))
        assert values(log.read(0)) == ["a"]


def test_a_transaction_is_hidden_from_stable_reads_until_it_ends(tmp_path: Path) -> None:
    with one_log(tmp_path, visibility="appended") as log:
        log.append(batch("a"))
        log.append(produced(0, txn=True))
        log.append(batch("b"))
        assert (log.last_stable_offset, log.high_watermark) == (1, 3)
        assert values(log.read(0, up_to="stable")) == ["a"]
        assert log.read(2, up_to="stable") == b""
        end_txn(log, "commit")
        assert log.last_stable_offset == 4
        assert values(log.read(0, up_to="stable")) == ["a", "7.0.0", "b"]


def test_a_batch_that_straddles_the_limit_is_not_shown(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append_durable(batch("a", "b"))
        log.append(batch("c", "d", "e"))
        assert bases(log.read(0)) == [0]
        assert log.slice(0).size == len(batch("a", "b"))


# Slices


def content(found: Any) -> bytes:
    return os.pread(found.fd, found.size, found.position)


def test_a_slice_is_the_bytes_that_a_read_returns(tmp_path: Path) -> None:
    with one_log(tmp_path, index_interval_bytes=0) as log:
        for i in range(10):
            log.append(batch(str(i)))
        for offset in range(10):
            assert content(log.slice(offset, up_to="end")) == log.read(offset, up_to="end")
        empty = log.slice(10, up_to="end")
        assert (empty.size, empty.fd) == (0, -1)


def test_a_slice_stays_valid_while_its_segment_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        log.roll()
        log.append_durable(batch("b"))
        log_dir.checkpoint()
        held, wanted = log.slice(0), log.read(0)
        log.delete_before(1)
        assert not Path(log.segments()[0].path).with_name(f"{0:020d}.log").exists()
        assert content(held) == wanted
        log_dir.delete("t", 0)
        assert content(held) == wanted


@pytest.mark.parametrize("offset", [0, 3, 4])
def test_a_slice_stays_valid_while_the_log_is_truncated(offset: int, tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for name in "abcdef":
            log.append_durable(batch(name))
            if name == "c":
                log.roll()
        held = [(log.slice(at), log.read(at)) for at in range(6)]
        log.truncate(offset)
        for _ in range(6):
            log.append_durable(batch("z" * 50))
        assert [content(found) == wanted for found, wanted in held] == [True] * 6


def test_a_slice_stays_valid_after_its_log_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        held, wanted = log.slice(0), log.read(0)
    del log, log_dir
    assert content(held) == wanted


def test_a_reader_opens_again_the_files_that_were_let_go(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(index_interval_bytes=0))
        for i in range(6):
            log.append_durable(batch(str(i)))
            log.roll()
        log_dir.checkpoint()
        open_before = len(os.listdir("/proc/self/fd"))
        log.rest(0)
        assert len(os.listdir("/proc/self/fd")) <= open_before - 5
        assert values(everything(log)) == list("012345")
        assert split(log.read(3)) == [log.read(3)]
