"""Partitions that are there but not open are opened while the broker runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.broker import Broker
from appliance.config import BrokerConfig
from appliance.data_dir import descriptor_budget
from appliance.data_dir.log_dir import LogBusy, LogDir, LogUnknown
from appliance.errors import FilesExhausted, LogFailed, StorageIoFailed
from appliance.native import _descriptors
from appliance.topics.reopening import RETRY_MAX_MS, RETRY_MIN_MS, Reopening
from tests.support.logs import STORAGE, batch, break_file, everything, log_config, opened, values

HEAD = f"{0:020d}"


@pytest.fixture
def mend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], object]]:
    """Until it is called logs get no file descriptor, so that none can be opened."""
    take = descriptor_budget.take
    yield take
    take()


def without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptor_budget, "take", lambda *shares: _descriptors.limit(0))


# A log


def test_what_the_kernel_said_of_which_file_is_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object]
) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("orders", 3, log_config()).append_durable(batch("a"))
        log_dir.abandon()
    without_descriptors(monkeypatch)
    with opened(tmp_path) as log_dir:
        assert log_dir.unopened == {
            ("orders", 3): "orders-3: the log cannot be opened: "
            "open orders-3: EMFILE Too many open files"
        }
        log_dir.abandon()


def test_a_log_that_could_not_be_opened_is_opened_when_its_reason_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object]
) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 0, log_config()).append_durable(batch("a"))
        log_dir.abandon()
    without_descriptors(monkeypatch)
    with opened(tmp_path) as log_dir:
        assert [*log_dir.unopened] == [("t", 0)]
        with pytest.raises(FilesExhausted, match="EMFILE"):
            log_dir.reopen("t", 0)
        assert [*log_dir.unopened] == [("t", 0)]
        mend()
        log = log_dir.reopen("t", 0, log_config())
        assert values(everything(log)) == ["a"]
        assert log.append_durable(batch("b")).base_offset == 1
        assert (log_dir.unopened, log_dir.log("t", 0)) == ({}, log)
    monkeypatch.undo()
    with opened(tmp_path) as log_dir:
        assert log_dir.report.was_clean
        assert values(everything(log_dir.log("t", 0))) == ["a", "b"]


def test_a_log_that_is_served_is_opened_again_with_all_it_has(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        old = log_dir.create("t", 0, log_config())
        old.append_durable(batch("a"))
        epoch = old.leader_epoch
        old.append(batch("b"))
        new = log_dir.reopen("t", 0, log_config())
        assert values(everything(new)) == ["a", "b"]
        assert new.leader_epoch > epoch  # clients may have seen what is gone
        assert old.retain(10**15) == 0  # nothing of the old one reaches the files or the journal
        new.append_durable(batch("c"))
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["a", "b", "c"]
        assert log_dir.report.losses == []


def test_a_log_whose_sync_failed_is_opened_again_on_an_operator_s_word(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        old = log_dir.create("t", 0, log_config())
        old.append_durable(batch("kept"))
        old.append(batch("unknown"))
        break_file(old)
        with pytest.raises(LogFailed):
            old.await_durable(1)
        assert old.failed_text == "StorageIoFailed EINVAL Invalid argument"
        new = log_dir.reopen("t", 0, log_config())
        assert new.failed is None
        assert values(everything(new)) == ["kept"]
        assert new.append_durable(batch("after")).base_offset == 1
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["kept", "after"]


def test_a_log_that_is_read_is_not_opened_again_under_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.data_dir.log_dir.READERS_S", 0.05)
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append_durable(batch("a"))
        held = log.slice(0)
        with pytest.raises(LogBusy, match=r"t-0 is still read after 0.05 s"):
            log_dir.reopen("t", 0)
        assert log_dir.log("t", 0) is log
        assert log.append_durable(batch("b")).base_offset == 1
        del held
        assert values(everything(log_dir.reopen("t", 0, log_config()))) == ["a", "b"]


def test_what_is_not_there_cannot_be_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir, pytest.raises(LogUnknown):
        log_dir.reopen("t", 0)


# A broker


def config(path: Path) -> BrokerConfig:
    return BrokerConfig(data_dir=path, storage=STORAGE)


def filled(path: Path) -> None:
    async def fill() -> None:
        broker = await asyncio.to_thread(Broker.open, config(path))
        topic = await broker.topics.create("orders", 2)
        for log in topic.logs:
            await asyncio.to_thread(log.append_durable, batch("a"))
        broker.log_dir.abandon()
        await broker.close()

    asyncio.run(fill())


def test_a_topic_is_served_again_when_what_kept_it_closed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object]
) -> None:
    filled(tmp_path)
    without_descriptors(monkeypatch)

    async def run() -> None:
        broker = await asyncio.to_thread(Broker.open, config(tmp_path))
        try:
            topic = broker.topics["orders"]
            assert "EMFILE" in topic.unserved[0]
            assert await broker.reopening.retry() == 0
            assert [*topic.unserved] == [0, 1]
            mend()
            assert await broker.reopening.retry() == 2
            assert (topic.unserved, [*broker.topics]) == ({}, ["orders"])
            assert [values(everything(log)) for log in topic.open_logs] == [["a"], ["a"]]
            assert not broker.reopening.is_wanted
        finally:
            await broker.close()

    asyncio.run(run())


def test_a_partition_of_a_served_topic_is_opened_again_in_its_place(tmp_path: Path) -> None:
    filled(tmp_path)

    async def run() -> None:
        broker = await asyncio.to_thread(Broker.open, config(tmp_path))
        try:
            before = broker.topics["orders"].logs
            await broker.reopening.reopen("orders", 1)
            after = broker.topics["orders"].logs
            assert after[0] is before[0]
            assert after[1] is broker.log_dir.log("orders", 1) is not before[1]
            assert values(everything(after[1])) == ["a"]
        finally:
            await broker.close()

    asyncio.run(run())


def test_attempts_come_seldom_while_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object]
) -> None:
    filled(tmp_path)
    without_descriptors(monkeypatch)
    waits: list[int] = []
    now_ms = 0

    async def stops_within(interval_ms: int) -> bool:
        nonlocal now_ms
        now_ms += interval_ms
        waits.extend([interval_ms] if interval_ms else [])
        return len(waits) == 10

    async def run() -> None:
        broker = await asyncio.to_thread(Broker.open, config(tmp_path))
        try:
            reopening = Reopening(broker.topics, broker.transactions, at_once, lambda: now_ms)
            await reopening.run(stops_within)
        finally:
            broker.log_dir.abandon()
            await broker.close()

    asyncio.run(run())
    assert waits[:3] == [RETRY_MIN_MS, 2 * RETRY_MIN_MS, 4 * RETRY_MIN_MS]
    assert waits[-1] == RETRY_MAX_MS


async def at_once(change: Coroutine[Any, Any, Any]) -> Any:
    return await change


def test_a_change_of_a_topic_waits_for_no_more_than_one_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object]
) -> None:
    filled(tmp_path)
    without_descriptors(monkeypatch)
    order: list[str] = []
    is_asked, opens = threading.Event(), LogDir.reopen

    def reopen(log_dir: LogDir, topic: str, partition: int, *given: Any) -> Any:
        assert is_asked.wait(30)
        order.append(f"{topic}-{partition}")
        return opens(log_dir, topic, partition, *given)

    async def change(broker: Broker) -> None:
        is_asked.set()
        await broker.topics.create("new", 1)
        order.append("new")

    async def run() -> None:
        broker = await asyncio.to_thread(Broker.open, config(tmp_path))
        mend()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(LogDir, "reopen", reopen)
                retry = asyncio.create_task(broker.reopening.retry())
                await asyncio.sleep(0.01)  # it has begun, and waits
                await asyncio.gather(retry, change(broker))
        finally:
            await broker.close()

    asyncio.run(run())
    assert sorted(order) == ["new", "orders-0", "orders-1"]
    assert order[-1] == "orders-1"


def test_a_stop_waits_for_no_more_than_one_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object]
) -> None:
    filled(tmp_path)
    without_descriptors(monkeypatch)
    now_ms = 0

    async def run() -> None:
        broker = await asyncio.to_thread(Broker.open, config(tmp_path))
        mend()

        async def stops_within(interval_ms: int) -> bool:
            nonlocal now_ms
            now_ms += interval_ms
            return len(broker.log_dir.unopened) < 2

        try:
            reopening = Reopening(broker.topics, broker.transactions, at_once, lambda: now_ms)
            await reopening.run(stops_within)
            assert [*broker.log_dir.unopened] == [("orders", 1)]
        finally:
            broker.log_dir.abandon()
            await broker.close()

    asyncio.run(run())


def test_why_a_partition_is_not_opened_is_told_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mend: Callable[[], object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    filled(tmp_path)
    without_descriptors(monkeypatch)

    async def run() -> None:
        broker = await asyncio.to_thread(Broker.open, config(tmp_path))
        notes = list(broker.log_dir.report.notes)
        caplog.clear()
        try:
            for _ in range(3):
                assert await broker.reopening.retry() == 0
            assert broker.log_dir.report.notes == notes
        finally:
            broker.log_dir.abandon()
            await broker.close()

    asyncio.run(run())
    assert len([each for each in caplog.messages if "still not opened" in each]) == 2


# What no topic owns


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "not open"])
def test_nothing_is_deleted_from_what_no_topic_owns_and_it_is_set_aside_when_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mend: Callable[[], object], is_open: bool
) -> None:
    filled(tmp_path)
    with opened(tmp_path) as log_dir:
        log = log_dir.create("ghost", 0, log_config())
        log.append_durable(batch("a"))
    if not is_open:
        without_descriptors(monkeypatch)

    def fails(*given: Any) -> Any:
        raise StorageIoFailed("no disk")

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LogDir, "set_aside", fails)
            broker = await asyncio.to_thread(Broker.open, config(tmp_path))
            try:
                mend()
                await broker.reopening.retry()
                assert (("ghost", 0) in broker.log_dir.logs()) == is_open
                broker.log_dir.retain(now_ms=10**14)
                assert [each.name for each in (tmp_path / "ghost-0").glob("*.log")] == [
                    f"{HEAD}.log"
                ]
                patch.undo()
                await broker.reopening.retry()
                assert not broker.log_dir.holds("ghost", 0)
                assert (tmp_path / "orphans" / "ghost-0" / f"{HEAD}.log").stat().st_size > 0
                assert not broker.reopening.is_wanted
            finally:
                await broker.close()

    asyncio.run(run())
