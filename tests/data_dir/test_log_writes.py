"""Many callers write to logs: each is told what became of its own, no sooner than it counts."""

from __future__ import annotations

import asyncio
import resource
import select
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from appliance._log import Log
from appliance.data_dir import log_writes
from appliance.data_dir._control_plane_writes import LogWriter
from appliance.data_dir._durable_waits import DurableWaits
from appliance.data_dir.log_writes import Batch, LogWrites, Written
from appliance.errors import (
    ApplianceError,
    BatchTorn,
    FilesExhausted,
    LeaderEpochOld,
    LogClosed,
    LogFailed,
    NotLeader,
    OffsetOutOfRange,
    TimedOut,
)
from tests.support.logs import (
    batch,
    break_file,
    end_txn,
    marker,
    one_log,
    opened,
    produced,
    until,
    values,
)
from tests.support.replicated_log import LIFE, leading

Result = TypeVar("Result")
DEADLINE_S = 40.0
LONG_S = 3 * DEADLINE_S  # of a wait: one that is told by its end alone is too late


def on_loop(job: Callable[[LogWrites], Coroutine[Any, Any, Result]]) -> Result:
    async def run() -> Result:
        writes = LogWrites()
        try:
            return await asyncio.wait_for(job(writes), DEADLINE_S)
        finally:
            await writes.close()

    return asyncio.run(run())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


async def written(writes: LogWrites, log: Log, data: bytes, **given: str) -> Written:
    (found,) = await writes.append([Batch(log, data, **given)])
    return found


def test_each_is_told_of_its_own_batches(log: Log) -> None:
    async def job(writes: LogWrites) -> None:
        asked = [
            writes.append([Batch(log, batch(f"{each}.a")), Batch(log, batch(f"{each}.b"))])
            for each in range(50)
        ]
        found = await asyncio.gather(*asked)
        for number, (first, second) in enumerate(found):
            assert (first.error, second.error) == (None, None)
            assert values(log.read(first.base_offset, 100, "end"))[0] == f"{number}.a"
            assert second.base_offset == second.last_offset == first.base_offset + 1
        await writes.durable(log, found[-1][1], LONG_S)
        assert log.durable_offset == 100

    on_loop(job)


def test_one_that_is_refused_keeps_none_of_the_others(log: Log) -> None:
    async def job(writes: LogWrites) -> None:
        good = batch("a")
        found = await writes.append([Batch(log, good[:-1]), Batch(log, b""), Batch(log, good)])
        assert [type(each.error) for each in found] == [BatchTorn, BatchTorn, type(None)]
        assert [each.base_offset for each in found] == [-1, -1, 0]

    on_loop(job)


def test_who_is_refused_is_told_what_the_kernel_said(log: Log) -> None:
    """It said so to another thread."""

    async def job(writes: LogWrites) -> None:
        assert (await written(writes, log, batch("a"))).error is None
        log.flush()
        log.rest(0)  # its file is opened again, if the process may open one more
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            found = await written(writes, log, batch("b"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert isinstance(found.error, FilesExhausted)
        assert str(found.error).endswith(": open t-0: EMFILE Too many open files")
        assert (await written(writes, log, batch("c"))).error is None

    on_loop(job)


def test_no_batches_take_no_turn(log: Log) -> None:
    assert on_loop(lambda writes: writes.append([])) == []


def test_what_it_may_do_is_by_its_origin(log: Log) -> None:
    """A client cannot end a transaction, and begins none before the coordinator knows of it."""

    async def job(writes: LogWrites) -> None:
        first = produced(0, txn=True)
        assert (await written(writes, log, first, origin="unverified")).error is not None
        assert (await written(writes, log, first, origin="client")).error is None
        assert (await written(writes, log, marker("commit"), origin="client")).error is not None
        assert (await written(writes, log, marker("commit"))).error is None
        assert log.log_end_offset == 2

    on_loop(job)


def test_a_batch_of_an_election_that_is_over_is_refused(tmp_path: Path) -> None:
    async def job(writes: LogWrites) -> None:
        stale, good = await writes.append([Batch(log, batch("a"), 4), Batch(log, batch("b"), 5)])
        assert isinstance(stale.error, LeaderEpochOld)
        assert (good.error, good.election) == (None, 5)

    with leading(tmp_path) as log:
        on_loop(job)


def test_who_waits_is_told_once_it_is_on_disk(log: Log) -> None:
    async def job(writes: LogWrites) -> None:
        for _ in range(200):
            await writes.durable(log, await written(writes, log, batch("a")), LONG_S)
            assert log.durable_offset == log.log_end_offset

    on_loop(job)


def test_a_thousand_wait_and_no_thread_does(log: Log) -> None:
    async def one(writes: LogWrites) -> None:
        await writes.durable(log, await written(writes, log, batch("a")), LONG_S)

    async def job(writes: LogWrites) -> set[threading.Thread]:
        waiting = asyncio.gather(*[one(writes) for _ in range(1000)])
        await asyncio.sleep(0)
        threads = {*threading.enumerate()}
        await waiting
        assert log.durable_offset == 1000
        return threads

    before = {*threading.enumerate()}  # those of an earlier test may end meanwhile
    assert on_loop(job) <= before, "those of the writer and the committer are not Python's"


def test_a_record_counts_once_all_in_sync_have_it(tmp_path: Path) -> None:
    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        log.flush()
        waiting = asyncio.ensure_future(writes.durable(log, found, LONG_S))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        log.fetched_by(2, LIFE, 5, 1)
        await waiting

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(job)


def test_who_waits_through_an_election_is_told_that_it_lost(tmp_path: Path) -> None:
    """Also when this broker leads again: what counts then may be another record."""

    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        waiting = asyncio.ensure_future(writes.durable(log, found, LONG_S))
        await asyncio.sleep(0.05)
        log.follow(6, 2)
        log.lead(7, 1, [2], [2], 1)
        with pytest.raises(NotLeader):
            await waiting
        with pytest.raises(NotLeader):
            await writes.durable(log, found, LONG_S)

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(job)


def test_a_leader_that_rests_and_leads_on_in_the_same_election_keeps_who_waits(
    tmp_path: Path,
) -> None:
    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        log.flush()
        waiting = asyncio.ensure_future(writes.durable(log, found, LONG_S))
        await asyncio.sleep(0.05)
        log.follow(5, -1)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        log.lead(5, 1, [2], [2], 1)
        log.fetched_by(2, LIFE, 5, 1)
        await waiting

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(job)


class HeldWriter(LogWriter):
    """What is to be written below a directory of this name comes to its turn when it is let go."""

    held: ClassVar[list[Callable[[], None]]] = []
    below = ""

    def begin(self, batches: Any, timeout_s: float | None) -> None:
        begin = partial(super().begin, batches, timeout_s)
        if self.below and f"/{self.below}/" in batches[0][0].directory:
            self.held.append(begin)
        else:
            begin()


def test_a_disk_that_hangs_keeps_those_of_others_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writes, "LogWriter", HeldWriter)
    monkeypatch.setattr(HeldWriter, "below", "one")

    async def job(writes: LogWrites) -> None:
        asked = [Batch(two, batch("a")), Batch(one, batch("b"))]
        both = asyncio.ensure_future(writes.append(asked))
        await asyncio.sleep(0)
        found = await written(writes, two, batch("c"))
        assert (found.base_offset, both.done()) == (1, False)
        HeldWriter.held.pop()()
        assert [each.base_offset for each in await both] == [0, 0]
        assert (one.log_end_offset, two.log_end_offset) == (1, 2)

    with one_log(tmp_path / "one") as one, one_log(tmp_path / "two") as two:
        on_loop(job)


def test_a_round_that_cannot_begin_is_told_and_the_next_one_begins(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(batches: Any, timeout_s: float | None) -> None:
        raise MemoryError("no room")

    async def job(writes: LogWrites) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(HeldWriter, "begin", lambda self, *given: fail(*given))
            asked = [written(writes, log, batch("a")), written(writes, log, batch("b"))]
            told = await asyncio.gather(*asked)
        assert [str(each.error) for each in told] == ["MemoryError", "MemoryError"]
        assert (await written(writes, log, batch("c"))).base_offset == 0

    monkeypatch.setattr(log_writes, "LogWriter", HeldWriter)
    on_loop(job)


def test_nobody_waits_for_a_broker_that_has_stopped(tmp_path: Path) -> None:
    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        waiting = asyncio.ensure_future(writes.durable(log, found, LONG_S))
        await asyncio.sleep(0.05)
        await writes.close()
        late = await written(writes, log, batch("b"))
        assert isinstance(late.error, LogClosed)
        for each in (waiting, writes.durable(log, found, 1)):
            with pytest.raises(LogClosed, match="the broker stops"):
                await each

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(job)


def test_what_nobody_waits_for_is_not_committed_at_once(log: Log) -> None:
    async def job(writes: LogWrites) -> None:
        await writes.append([Batch(log, batch("a"), is_awaited=False)])
        await asyncio.sleep(0.1)
        assert (log.log_end_offset, log.durable_offset) == (1, 0)
        await writes.append([Batch(log, batch("b"))])
        await asyncio.to_thread(until, lambda: log.durable_offset == 2)

    on_loop(job)


def test_a_time_that_is_over_is_told_with_what_is_missing(tmp_path: Path) -> None:
    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        why = r"offset 0 is not durable after 0\.\d+ s; .*all replicas"
        with pytest.raises(TimedOut, match=why):
            await writes.durable(log, found, 0.05)
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        await writes.durable(log, found, 0)  # it is over already, so it takes no time

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(job)


def test_who_is_gone_is_not_told(tmp_path: Path) -> None:
    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        waits = [asyncio.ensure_future(writes.durable(log, found, LONG_S)) for _ in range(3)]
        await asyncio.sleep(0.05)
        waits[1].cancel()
        await asyncio.sleep(0)
        assert writes.waiting == 2
        log.flush()
        log.fetched_by(2, LIFE, 5, 1)
        await asyncio.gather(waits[0], waits[2])
        assert writes.waiting == 0
        asked = asyncio.ensure_future(written(writes, log, batch("b")))
        await asyncio.sleep(0)
        asked.cancel()
        third = await written(writes, log, batch("c"))
        assert third.base_offset == 2, "the second was written all the same"

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(job)


def test_a_disk_that_fails_is_told_to_all_who_wait(tmp_path: Path) -> None:
    async def job(writes: LogWrites) -> list[ApplianceError | BaseException | None]:
        await writes.durable(log, await written(writes, log, batch("a")), LONG_S)
        break_file(log)
        found = await written(writes, log, batch("b"))
        waits = [writes.durable(log, found, LONG_S) for _ in range(3)]
        told = await asyncio.gather(*waits, return_exceptions=True)
        assert (await written(writes, log, batch("c"))).error is not None
        return [*told]

    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0)
        assert {type(each) for each in on_loop(job)} == {LogFailed}
        log_dir.abandon()


def test_an_index_that_cannot_be_stored_is_told_to_who_waits_for_a_follower(tmp_path: Path) -> None:
    """All is durable here, so no commit of its own would ever tell."""

    async def job(writes: LogWrites) -> None:
        found = await written(writes, log, batch("a"))
        log.append(produced(0, txn=True))
        end_txn(log, "abort")
        log.flush()
        waiting = asyncio.ensure_future(writes.durable(log, found, LONG_S))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        Path(log.segments()[-1].path).with_suffix(".txnindex").mkdir()
        await asyncio.to_thread(log_dir.checkpoint)
        with pytest.raises(LogFailed):
            await waiting

    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0)
        log.lead(5, 1, [2, 3], [2], 2)
        on_loop(job)
        log_dir.abandon()


def test_the_end_of_a_log_is_told_to_who_waits(tmp_path: Path) -> None:
    async def job(writes: LogWrites, log: Log) -> None:
        found = await written(writes, log, batch("a"))
        log.flush()
        waiting = asyncio.ensure_future(writes.durable(log, found, LONG_S))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        log.close()
        with pytest.raises(LogClosed):
            await waiting

    with leading(tmp_path, in_sync=(2,)) as log:
        on_loop(lambda writes: job(writes, log))


def test_a_record_that_was_cut_is_not_taken_for_the_one_that_came_in_its_place(log: Log) -> None:
    waits = DurableWaits()
    log.append_durable(batch("a"))
    assert waits.add(7, log, 1, log.election)
    log.truncate(0)
    for value in "bc":
        log.append_durable(batch(value))
    assert is_told(waits.fd)
    ((number, error),) = waits.take()
    assert (number, type(error)) == (7, OffsetOutOfRange)
    assert len(waits) == 0


def is_told(fd: int) -> bool:
    poll = select.poll()  # select.select ends at descriptor 1023, and a test run may have more
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(20_000))


def test_one_round_at_a_time_and_what_cannot_be_written_is_told(log: Log) -> None:
    writer = LogWriter()
    try:
        assert writer.take() is None
        good = batch("v")
        writer.begin([(log, good, -1), (log, good[:-1], -1), (log, good, -1)], 10)
        with pytest.raises(ValueError, match="a round of 3 batches is in progress"):
            writer.begin([(log, good, -1)], 10)
        assert is_told(writer.fd)
        found = writer.take()
        assert found is not None
        assert [each.base_offset for each in found] == [0, -1, 1]
        assert [type(each.error) for each in found] == [type(None), BatchTorn, type(None)]
        assert log.durable_offset == 2
        assert writer.take() is None
    finally:
        writer.close()
