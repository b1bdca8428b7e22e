"""Readers against everything that changes a log: they may be refused, but never get wrong bytes.

Also run under the address and thread sanitizers: `python tests/sanitizers.py`. THREADS_S
is how long each test lets the threads run.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, OffsetOutOfRange, TimedOut
from appliance.record import _batch
from tests.support.logs import NOW, STORAGE, batch, log_config, marker, opened, produced, split

RUN_S = float(os.environ.get("THREADS_S", "1.5"))
PATIENCE_S = 30.0
SETTINGS: dict[str, Any] = {"segment_bytes": 3000, "index_interval_bytes": 200}


class Crew:
    """Threads that each repeat their work until the time is over or one of them fails; on a busy
    machine for longer, until each has come to its turn and what is wanted is so."""

    def __init__(self, wanted: Callable[[], bool] = lambda: True) -> None:
        self.wanted = wanted
        self.end = time.monotonic() + RUN_S
        self.failures: list[BaseException] = []
        self.rounds: dict[str, int] = {}

    def run(self, *works: Callable[[random.Random], object]) -> None:
        threads = [
            threading.Thread(target=self.repeat, args=(f"{i} {work.__name__}", work))
            for i, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a thread hangs"
        if self.failures:
            raise self.failures[0]
        # A worker that never came to its turn has tested nothing.
        assert min(self.rounds.values()) > 0, self.rounds

    def repeat(self, name: str, work: Callable[[random.Random], object]) -> None:
        chance = random.Random(name)
        self.rounds[name] = 0
        while self.goes_on(name) and not self.failures:
            try:
                work(chance)
            except BaseException as error:  # noqa: BLE001 - to be raised on the test's own thread
                self.failures.append(error)
            self.rounds[name] += 1

    def goes_on(self, name: str) -> bool:
        now = time.monotonic()
        is_done = self.rounds[name] > 0 and self.wanted()
        return now < self.end or (now < self.end + PATIENCE_S and not is_done)


def value_of(number: int) -> str:
    return f"{number:08d}" * (1 + number % 7)


class Appender:
    """Numbers its batches by the offset they will have: content and place must agree."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.next = log.log_end_offset

    def append(self, chance: random.Random) -> None:
        count = chance.choice([1, 1, 2, 5])
        values = [value_of(self.next + i) for i in range(count)]
        codec = chance.choice([0, 0, 0, 3])
        appended = self.log.append(batch(*values, timestamp=NOW + self.next, step=1, codec=codec))
        assert appended.base_offset == self.next
        self.next += count
        if chance.random() < 0.05:
            self.log.ask_commit()


def check_batches(data: bytes, offset: int, limit: int) -> None:
    """Whole, good, in order, at their place, and below what the reader may see."""
    batches = split(data)
    assert sum(map(len, batches)) == len(data)
    heads = _batch.headers(data)
    assert heads[0].base_offset <= offset <= heads[0].last_offset
    assert heads[-1].last_offset < limit
    for before, after in itertools.pairwise(heads):
        assert after.base_offset == before.last_offset + 1
    for record in _batch.records(data):
        assert (record.value or b"").decode() == value_of(record.offset)
        assert record.timestamp == NOW + record.offset


def reader(log: Log, up_to: str = "visible") -> Callable[[random.Random], None]:
    def read(chance: random.Random) -> None:
        start, end = log.log_start_offset, log.log_end_offset
        offset = chance.randint(start, max(start, end - 1))
        try:
            data = log.read(offset, chance.choice([1, 500, 5000]), up_to)
        except OffsetOutOfRange:
            return
        # The limit only grows here, so the one read afterwards is no smaller.
        if data:
            check_batches(data, offset, log.log_end_offset)
            if up_to == "visible":
                check_batches(data, offset, log.high_watermark)

    return read


def slicer(log: Log) -> Callable[[random.Random], None]:
    """Holds a slice for a while, as a socket does that is slow to take it."""
    held: list[tuple[Any, bytes, int]] = []

    def take(chance: random.Random) -> None:
        start, end = log.log_start_offset, log.log_end_offset
        offset = chance.randint(start, max(start, end - 1))
        try:
            found = log.slice(offset, 4000)
        except OffsetOutOfRange:
            return
        if not found.size:
            return
        data = os.pread(found.fd, found.size, found.position)
        assert len(data) == found.size
        assert struct.unpack_from(">q", data)[0] <= offset
        held.append((found, data, offset))
        if len(held) > 20:
            old, was, _ = held.pop(chance.randrange(len(held)))
            assert os.pread(old.fd, old.size, old.position) == was

    return take


def time_searcher(log: Log) -> Callable[[random.Random], None]:
    def search(chance: random.Random) -> None:
        start = log.log_start_offset
        end = max(start + 1, log.high_watermark)
        wanted = chance.randrange(start, end)
        try:
            found = log.offset_for_timestamp(NOW + wanted)
        except OffsetOutOfRange:
            return
        if found is not None:
            assert found[0] >= wanted
            assert found[1] == NOW + found[0]

    return search


def looker(log: Log) -> Callable[[random.Random], None]:
    """All that a console or a metric asks for."""

    def look(chance: random.Random) -> None:
        # In this order each is no larger than the next.
        offsets = (log.last_stable_offset, log.high_watermark, log.log_end_offset)
        assert list(offsets) == sorted(offsets)
        assert log.failed is None
        segments = log.segments()
        bases = [each.base_offset for each in segments]
        assert bases == sorted(set(bases))
        assert log.size >= 0
        assert log.holes() == []
        assert log.unflushed_age_ms < 60_000
        log.producers()
        log.aborted_transactions(0, 1 << 60)
        log.end_offset_for_epoch(0)

    return look


def upkeep(log_dir: LogDir, log: Log) -> Callable[[random.Random], None]:
    def keep(chance: random.Random) -> None:
        chance.choice(
            [
                log_dir.checkpoint,
                log_dir.engine.poll,
                log.flush,
                lambda: log.rest(0),
                lambda: log.configure(log_config(**SETTINGS)),
            ]
        )()

    return keep


def test_readers_get_right_bytes_while_a_log_grows_and_rolls(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        crew = Crew(lambda: len(log.segments()) > 3)
        crew.run(
            Appender(log).append,
            reader(log),
            reader(log, "end"),
            slicer(log),
            time_searcher(log),
            looker(log),
            upkeep(log_dir, log),
        )
        assert len(log.segments()) > 3


def test_readers_get_right_bytes_while_retention_deletes(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        config = log_config(**SETTINGS, retention_bytes=9000)
        log = log_dir.create("t", 0, config)

        def retain(chance: random.Random) -> None:
            log_dir.checkpoint()
            log.retain(NOW)
            if chance.random() < 0.2:
                log.delete_before(chance.randint(log.log_start_offset, log.high_watermark))
            log.rest(0)

        crew = Crew(lambda: log.log_start_offset > 0)
        crew.run(Appender(log).append, reader(log), reader(log), slicer(log), looker(log), retain)
        assert log.log_start_offset > 0


def test_idle_files_can_be_let_go_at_any_moment(tmp_path: Path) -> None:
    """Segments are sealed, synced, checkpointed and closed by different threads."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        appender = Appender(log)

        def append(chance: random.Random) -> None:
            for _ in range(20):
                appender.append(chance)

        def rest(chance: random.Random) -> None:
            log.rest(0)

        def checkpoint(chance: random.Random) -> None:
            log.ask_commit()
            log_dir.checkpoint()

        Crew().run(append, rest, rest, checkpoint, reader(log, "end"))
        log.flush()
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert log_dir.log("t", 0).log_end_offset == appender.next


def test_readers_get_right_bytes_while_a_log_is_truncated(tmp_path: Path) -> None:
    """One thread appends and truncates; every life of an offset has the same content here."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS, visibility="appended"))
        appender = Appender(log)

        def write(chance: random.Random) -> None:
            for _ in range(chance.randrange(1, 60)):
                appender.append(chance)
            log.truncate(max(0, log.log_end_offset - chance.randrange(0, 80)))
            appender.next = log.log_end_offset

        def read(chance: random.Random) -> None:
            offset = chance.randint(0, max(0, log.log_end_offset - 1))
            try:
                data = log.read(offset, 3000, "end")
            except OffsetOutOfRange:
                return
            if data:
                check_batches(data, offset, 1 << 60)

        crew = Crew()
        crew.run(write, read, read, slicer(log), upkeep(log_dir, log))


def test_many_writers_share_a_log_and_its_commits(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", i, log_config(**SETTINGS)) for i in range(3)]
        sequences = [[0] * len(logs) for _ in range(4)]

        def writer(pid: int) -> Callable[[random.Random], None]:
            def write(chance: random.Random) -> None:
                at = chance.randrange(len(logs))
                data = produced(sequences[pid][at], pid=pid)
                appended = logs[at].append_durable(data)
                assert logs[at].durable_offset > appended.last_offset
                assert logs[at].append(data).duplicate
                sequences[pid][at] += 1

            return write

        Crew().run(*[writer(pid) for pid in range(4)], upkeep(log_dir, logs[0]))
        for at, log in enumerate(logs):
            assert log.log_end_offset == sum(each[at] for each in sequences)


def test_committed_readers_never_see_an_open_or_aborted_end(tmp_path: Path) -> None:
    """Transactions begin and end; what a stable read shows has its marker below the watermark."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config(**SETTINGS))
        sequence = 0

        def transact(chance: random.Random) -> None:
            nonlocal sequence
            for _ in range(chance.randrange(1, 4)):
                log.append(produced(sequence, txn=True))
                sequence += 1
            log.append(marker(chance.choice(["commit", "abort"])), origin="coordinator")
            if chance.random() < 0.3:
                log.flush()

        def read(chance: random.Random) -> None:
            stable = log.last_stable_offset
            if stable == 0:
                return
            # A transaction that is visible to committed readers ends with its marker, visible too.
            data = log.read(stable - 1, 1, "stable")
            assert _batch.headers(data)[0].is_control
            for pid, first, last in log.aborted_transactions(0, stable):
                assert (pid, first < last) == (7, True)

        crew = Crew()
        crew.run(transact, read, read, looker(log), upkeep(log_dir, log))


def test_logs_are_created_and_deleted_beside_busy_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        busy = log_dir.create("busy", 0, log_config(**SETTINGS))
        appender = Appender(busy)

        def churn(chance: random.Random) -> None:
            log = log_dir.create("t", 0, log_config())
            log.append_durable(batch("a"))
            held = log.slice(0)
            log_dir.delete("t", 0)
            assert os.pread(held.fd, held.size, held.position) != b""
            with pytest.raises(ApplianceError):
                log.append(batch("b"))

        def wait(chance: random.Random) -> None:
            try:
                busy.await_durable(busy.log_end_offset + chance.randrange(5), 0.01)
            except TimedOut:
                return

        Crew().run(appender.append, reader(busy), churn, wait, upkeep(log_dir, busy))
        assert sorted(log_dir.logs()) == [("busy", 0)]


def test_two_threads_cannot_open_one_directory(tmp_path: Path) -> None:
    winners: list[LogDir] = []
    barrier = threading.Barrier(4)

    def attempt() -> None:
        barrier.wait(20)
        try:
            winners.append(LogDir.open(tmp_path, STORAGE))
        except ApplianceError:
            return

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(winners) == 1
    winners[0].close()
