"""Share partitions in service: their locks time out, whatever becomes of what was being written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from appliance._log import Log
from appliance.config import ShareGroupsConfig
from appliance.process import event_log
from appliance.process.detached_tasks import LoggedTasks
from appliance.protocol import ErrorCode
from appliance.share.acquisition import Asked, Extent
from appliance.share.fetch_waits import EntryWaits
from appliance.share.partition import Acknowledgement, SharePartition
from appliance.share.served_partition import Entry, limits_of
from appliance.share.served_partitions import Entries
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.states import AcknowledgeType, RecordState, ShareRefused
from tests.support.logs import batch, one_log, opened, until

KEY = SharePartitionKey("g", UUID(int=7), 0)
CONFIG = ShareGroupsConfig(record_lock_duration_ms=1000)


class OneTopic:
    def __init__(self, log: Log) -> None:
        self._topic: Any = SimpleNamespace(logs=[log], log=lambda partition: log)

    def topic_of_id(self, topic_id: UUID) -> Any:
        return self._topic

    def share_group_config(self, group_id: str) -> ShareGroupsConfig:
        return CONFIG


class SlowStore:
    """A write waits until the test says so, and then fails."""

    def __init__(self) -> None:
        self.own = Stored(SharePartition(0))
        self.begun, self.may_fail = asyncio.Event(), asyncio.Event()

    def find(self, key: SharePartitionKey) -> Stored | None:
        return self.own

    async def store(self, key: SharePartitionKey, own: Stored) -> None:
        batches = own.partition.take_unstored()
        self.begun.set()
        await self.may_fail.wait()
        own.partition.put_back(batches)
        raise ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the disk is full")

    snapshot = store


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


async def acknowledged(entries: Entries, entry: Entry, now_ms: int) -> asyncio.Future[None]:
    """What a member acquired, on its way to the disk."""
    own, limits = entry.stored.partition, limits_of(CONFIG)
    own.acquire(Asked("m", 10, 10), 0, [Extent(0, 9)], limits, now_ms)
    entries.changed(entry, CONFIG)
    given = [Acknowledgement(0, 9, [AcknowledgeType.ACCEPT])]
    change = own.acknowledge("m", given, limits, now_ms)
    assert change is not None
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    entry.changes.append((change, told))
    entries.changed(entry, CONFIG)
    return told


def test_locks_time_out_after_an_acknowledgement_that_failed_late(log: Log) -> None:
    """After the lock's time: its timer rang while the acknowledgement was being written."""

    async def run() -> None:
        now_ms = 0
        store, tasks = SlowStore(), LoggedTasks(event_log.named("share"), "a share partition")
        entries = Entries(OneTopic(log), store, lambda: now_ms, tasks)
        entry = entries.in_service(KEY)
        told = await acknowledged(entries, entry, now_ms)
        await store.begun.wait()
        now_ms = 2 * CONFIG.record_lock_duration_ms
        entries._expire(entry)  # the timer rings
        store.may_fail.set()
        with pytest.raises(ShareRefused):
            await told
        assert store.own.partition.runs[0].state is RecordState.ACQUIRED
        assert entry.timer is not None
        assert entry.timer.when() <= asyncio.get_running_loop().time()
        entries._expire(entry)
        assert store.own.partition.runs[0].state is RecordState.AVAILABLE
        entries.stop()
        await tasks.settled()

    asyncio.run(run())


def test_who_waits_asks_for_a_commit_only_where_one_helps(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log, other = (log_dir.create("t", each) for each in range(2))
        log.lead(5, 1, [2], [2], 2)
        waits = EntryWaits(lambda group_id: CONFIG)
        entry = Entry(KEY, Stored(SharePartition(0)), log, asyncio.Lock())
        before = log_dir.counters()["logs_committed"]
        log.append(batch("a"))
        waits.watch(entry, CONFIG)
        until(lambda: log_dir.counters()["logs_committed"] == before + 1)
        assert log.high_watermark == 0, "the follower has yet to fetch it"
        waits.watch(entry, CONFIG)
        other.append_durable(batch("b"))  # by the commit of whatever was asked for before
        until(lambda: log_dir.counters()["logs_committed"] > before + 1)
        assert log_dir.counters()["logs_committed"] == before + 2
        waits.unwatch(entry)


def test_nothing_is_kept_of_a_group_of_which_nothing_is_in_service(log: Log) -> None:
    async def run() -> None:
        tasks = LoggedTasks(event_log.named("share"), "a share partition")
        entries = Entries(OneTopic(log), SlowStore(), lambda: 0, tasks)
        entries.in_service(KEY)
        entries.drop(KEY)
        entries.drop(KEY)
        assert not entries._entries

    asyncio.run(run())
