"""What became of share partitions: in memory, and written to `__share_group_state`; what nothing
depends on any more is deleted there.

A share partition is written for by one at a time (`served_partitions.py`), so a snapshot never
overtakes a change that it does not have.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

from appliance._log import Log
from appliance.config import ShareStateConfig
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.share.state_log import SharePartitionKey, Stored, replay, snapshot, tombstone, update
from appliance.share.states import ShareRefused
from appliance.topics.internal_topic import InternalTopic, Record, Write, partition_of
from appliance.topics.topic import Topic

logger = event_log.named("share_state")


class StatePlaces(Protocol):
    def share_state_logs(self) -> list[Log]:
        """None at all before the first use. Raises TopicUnavailable while they cannot be read."""
        ...

    async def make_share_state_topic(self) -> Sequence[Log | None]: ...

    @property
    def is_in_cluster(self) -> bool: ...

    def share_state_topic(self) -> Topic | None:
        """None before the first use."""
        ...


class StateStore:
    def __init__(
        self, config: ShareStateConfig, places: StatePlaces, wall_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._places = places
        self._wall_ms = wall_ms
        self._topic = InternalTopic(places.make_share_state_topic, config.write_timeout_ms)
        self._stored: dict[SharePartitionKey, Stored] = {}
        self._numbers = itertools.count()
        # Of writes under way: the partition of the topic, and below which offset they cannot be
        self._floors: dict[int, tuple[int, int]] = {}

    async def load(self) -> list[str]:
        """What could not be read. Raises TopicUnavailable while nothing can be."""
        replayed = await asyncio.to_thread(replay, self._places.share_state_logs())
        self._stored |= replayed.stored
        return replayed.faults

    def find(self, key: SharePartitionKey) -> Stored | None:
        return self._stored.get(key)

    def all(self) -> list[tuple[SharePartitionKey, Stored]]:
        return [*self._stored.items()]

    async def close(self) -> None:
        await self._topic.close()

    async def store(self, key: SharePartitionKey, own: Stored) -> None:
        """What changed is on disk when this returns."""
        if own.must_snapshot or own.updates >= self._config.updates_per_snapshot:
            await self.snapshot(key, own)
            return
        batches = own.partition.take_unstored()

        def written(_: int) -> None:
            own.updates += 1

        try:
            await self._write(key, update(key, own, batches), written)
        except ApplianceError:
            own.partition.put_back(batches)
            raise

    async def snapshot(self, key: SharePartitionKey, own: Stored, is_new: bool = False) -> None:
        """All that is known is on disk, in one record."""
        batches = own.partition.take_whole()
        now_ms = self._wall_ms()
        own.snapshot_epoch += 1 if own.snapshot_offset >= 0 else 0
        was_to, own.must_snapshot = own.must_snapshot, False  # the log may be cut meanwhile

        def written(offset: int) -> None:
            own.snapshot_offset, own.snapshot_ms, own.updates = offset, now_ms, 0
            if is_new:
                self._stored[key] = own

        try:
            await self._write(key, snapshot(key, own, batches, now_ms), written)
        except ApplianceError:
            own.must_snapshot |= was_to
            own.partition.put_back(batches)
            raise

    async def begin(self, key: SharePartitionKey, own: Stored) -> None:
        """In the place of what was known of it before."""
        await self.snapshot(key, own, is_new=True)

    async def forget(self, key: SharePartitionKey) -> None:
        await self._write(key, tombstone(key), lambda _: self._stored.pop(key, None))

    async def _write(
        self, key: SharePartitionKey, record: Record, written: Callable[[int], object]
    ) -> None:
        """`written` gets the record's offset before `prune` may delete that record. The caller runs
        a turn of the loop later, or never."""
        await self._places.make_share_state_topic()
        logs = self._places.share_state_logs()
        partition = partition_of(key.owner, len(logs))
        number = next(self._numbers)
        self._floors[number] = (partition, logs[partition].log_end_offset)
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ApplianceError | None, offset: int) -> None:
            if error is None:
                written(offset)
            del self._floors[number]
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            settle(stored, error and ShareRefused(code, str(error)))

        self._topic.write(Write(key.owner, [record], self._wall_ms(), done))
        await stored

    # What nothing depends on

    def is_mostly_old(self) -> bool:
        """Whether nothing depends on most records that are there: idle groups write nothing."""
        needed = sum(1 + own.updates for own in self._stored.values())
        logs = self._places.share_state_logs()
        return sum(log.log_end_offset - log.log_start_offset for log in logs) > 2 * needed

    def is_cold(self, own: Stored) -> bool:
        """Its last snapshot is old."""
        age_ms = self._wall_ms() - own.snapshot_ms
        return own.snapshot_offset >= 0 and age_ms >= self._config.cold_interval_ms

    async def prune(self) -> None:
        """Deletes what stands before every last snapshot."""
        logs = self._places.share_state_logs()
        needed = {i: log.high_watermark for i, log in enumerate(logs)}
        for key, own in self.all():
            if own.snapshot_offset >= 0:
                partition = partition_of(key.owner, len(logs))
                needed[partition] = min(needed[partition], own.snapshot_offset)
        for partition, offset in self._floors.values():
            needed[partition] = min(needed[partition], offset)
        ends = [(log, needed[i]) for i, log in enumerate(logs) if log.log_start_offset < needed[i]]
        await asyncio.to_thread(_delete, ends)


def _delete(ends: list[tuple[Log, int]]) -> None:
    for log, offset in ends:
        log.delete_before(offset)
        logger.info("share state was pruned", log=log.name, offset=offset)
