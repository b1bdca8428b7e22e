"""A segment whose file has no name any more is written anew from the descriptor left, while others
append to it, and at the second try when the first cannot be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from appliance._log import Log
from appliance.repair._scrub import SegmentScan
from tests.repair.test_scrub import scrubbed
from tests.support.logs import batch, log_config, one_log, opened, segment_bases, until, values

ROUNDS = 30  # one in three of them met a writer between the copy and the swap


def taken_away(path: Path, log: Log) -> SegmentScan:
    """The active segment's file, unseen by the log that has it open."""
    base = segment_bases(log)[-1]
    scan = SegmentScan(log, base)
    while scan.step(1 << 20):
        pass
    name(path, base).unlink()
    return scan


def name(path: Path, base: int) -> Path:
    return path / "t-0" / f"{base:020d}.log"


def read_all(log: Log) -> list[str]:
    found: list[str] = []
    while len(found) < log.log_end_offset:
        found += values(log.read(len(found)))
    return found


def test_an_empty_active_segment_is_restored_under_a_writer_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    for each in range(ROUNDS):
        path = tmp_path / f"{each}"
        with opened(path) as log_dir:
            log = log_dir.create("t", 0, log_config())
            log.append_durable(batch("first"))
            log.roll()
            log.flush()
            scan = taken_away(path, log)
            told = ["first"]
            with written_beside(log, told):
                assert [found.what for found in scan.settle()] == ["restored"]
                wait_for(told, len(told) + 3)
            assert read_all(log)[: len(told)] == told
            log_dir.abandon()
        with one_log(path) as log:
            assert read_all(log)[: len(told)] == told


def wait_for(told: list[str], count: int) -> None:
    until(lambda: len(told) >= count)


@contextmanager
def written_beside(log: Log, told: list[str]) -> Iterator[None]:
    """`told` gets what was acknowledged."""
    is_over = False

    def write() -> None:
        while not is_over:
            log.append_durable(batch(f"{len(told)}"))
            told.append(f"{len(told)}")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield
        finally:
            is_over = True
            writing.result()


def test_a_length_that_claims_megabytes_costs_no_memory(tmp_path: Path) -> None:
    with one_log(tmp_path, max_message_bytes=8 << 20) as log:
        for _ in range(96):
            log.append(batch(bytes(1 << 16)))
        log.flush()
        with name(tmp_path, 0).open("r+b") as file:
            file.seek(9)
            (byte,) = file.read(1)
            file.seek(9)
            file.write(bytes([byte ^ 0x40]))  # four megabytes more
        scan = SegmentScan(log, 0)
        while scan.step(1 << 20):
            pass
        assert [(each.what, each.end_offset) for each in scan.settle()] == [("damaged", 1)]
        assert scan.held_bytes < 2 << 20


def test_a_search_behind_damage_can_be_stopped_and_keeps_to_its_rate(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        for _ in range(128):
            log.append(batch(bytes(1 << 16)))
        log.flush()
        size = name(tmp_path, 0).stat().st_size
        first, last = size // 128, size // 128 * 120
        with name(tmp_path, 0).open("r+b") as file:
            file.seek(first)
            file.write(b"\x02" * (last - first))
        scan = SegmentScan(log, 0)
        read = [0]
        while scan.step(1 << 19):
            read.append(scan.read_bytes)
        assert max(b - a for a, b in itertools.pairwise(read)) <= 2 << 20
        assert len(read) > 5
        assert [(each.what, each.first_offset, each.end_offset) for each in scan.settle()] == [
            ("damaged", 1, 120)
        ]


def test_what_cannot_be_restored_now_is_kept_open_until_it_can(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("first"))
        log.roll()
        log.append_durable(batch("second"))
        scan = SegmentScan(log, 0)
        while scan.step(1 << 20):
            pass
        name(tmp_path, 0).unlink()
        name(tmp_path, 0).mkdir()  # neither kept beside nor replaced
        assert [each.what for each in scan.settle()] == ["failed"]
        assert list((tmp_path / "t-0").glob("*.cleaned")) == []
        log.rest(0)
        assert read_all(log) == ["first", "second"]
        name(tmp_path, 0).rmdir()
        assert [each.what for each in scrubbed(log)] == ["restored"]
        log_dir.abandon()
    with one_log(tmp_path) as log:
        assert read_all(log) == ["first", "second"]
