"""Partitions that move to another directory of `log.dirs`, one after the other.

Asked for by AlterReplicaLogDirs. A move is a row in the catalog until it has ended, so a start goes
on with those that were under way. Asking for the directory in which a partition is already cancels
its move. One that fails is tried again; why it failed is told in health.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from appliance._log import Log
from appliance.catalog.log_directory_rows import Move
from appliance.config import topic_config
from appliance.data_dir.partition_move import MoveCancelled, PartitionMove
from appliance.data_dir.partition_names import Key, directory_name
from appliance.data_dir.record_dir import RecordDir
from appliance.errors import ApplianceError, StorageFull
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.process.interval import Interval
from appliance.process.spoken import size
from appliance.topics.directory_reopening import Transactions
from appliance.topics.topics import Topics

logger = event_log.named("moves")

LOOK_MS = 200  # how late a move that waits begins, and how late one is given up
IDLE_MS = 3_600_000  # while none is asked for; who asks wakes
RETRY_S, RETRY_MAX_S = 5.0, 600.0  # after one failed: it copies all of it again


@dataclass
class Moving:
    topic_id: uuid.UUID
    source: RecordDir
    target: RecordDir
    cancelled: threading.Event = field(default_factory=threading.Event)
    copy: PartitionMove | None = None  # while it is under way
    why: str = ""  # it failed, and is tried again
    due: float = 0.0  # of time.monotonic()
    failures: int = 0
    has_left: bool = False  # in its target; removed when it is tried again, or by the next start

    def copied_to(self, log: Log) -> int:
        return log.log_start_offset if self.copy is None else self.copy.offset


class PartitionMoves:
    """On the event loop."""

    def __init__(
        self,
        topics: Topics,
        transactions: Transactions,
        change: Changes,
        bytes_per_s: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._log_dir = topics.log_dir
        self._transactions = transactions
        self._change = change
        self._bytes_per_s = bytes_per_s
        self.under_way: dict[Key, Moving] = {}
        self._next_look = Interval(IDLE_MS)

    def load(self) -> None:
        """Those of the last life."""
        if not self._log_dir.has_ids:
            return
        by_id = {each.id: each for each in self._log_dir.directories}
        for key, move in self._log_dir.rows.moves().items():
            source, target = by_id.get(move.source), by_id.get(move.target)
            topic = self._topics.get(key[0])
            if source and target and topic and self._log_dir.place_of(*key) is source:
                self.under_way[key] = Moving(topic.id, source, target)

    async def ask(self, topic: str, partition: int, path: str) -> None:
        """Of a partition that is served. Returns before it is moved."""
        target = self._log_dir.named(path)
        target.opened()
        await self._change(self._ask((topic, partition), target))

    async def _ask(self, key: Key, target: RecordDir) -> None:
        source = self._log_dir.place_of(*key)
        log = self._log_dir.log(*key)
        known = self.under_way.get(key)
        if source is None or (known is not None and known.target is target):
            return
        if source is not target:
            check_room(log, target)
        if known is not None:
            await self._cancel(key, known)
        if source is not target:
            move = Move(source.id, target.id)
            await asyncio.to_thread(self._log_dir.rows.begin_move, key, move)
            self.under_way[key] = Moving(self._topics[key[0]].id, source, target)
            self._next_look.hurry()
            logger.info("a move begins", log=log.name, into=target.path, bytes=log.size)

    async def _cancel(self, key: Key, moving: Moving) -> None:
        moving.cancelled.set()
        del self.under_way[key]
        await asyncio.to_thread(self._log_dir.rows.end_move, key)
        logger.info("a move is cancelled", log=directory_name(*key), into=moving.target.path)

    # Moving

    async def run(self, stops_before: Callable[[Interval], Awaitable[bool]]) -> None:
        """Until the broker stops."""
        while True:
            self._next_look.ms = LOOK_MS if self.under_way else IDLE_MS
            if await stops_before(self._next_look):
                return
            if (key := self._next()) is not None:
                moving = self.under_way[key]
                task = asyncio.create_task(self._move(key, moving))
                while not task.done():
                    if await stops_before(Interval(LOOK_MS)):
                        moving.cancelled.set()
                        break
                await task

    def _next(self) -> Key | None:
        now = time.monotonic()
        for key, each in self.under_way.items():
            if each.due <= now and each.source.is_open and each.target.is_open:
                return key
        return None

    async def _move(self, key: Key, moving: Moving) -> None:
        topic = self._topics.get(key[0])
        is_there = self._log_dir.place_of(*key) is moving.source
        if topic is None or topic.id != moving.topic_id or not is_there:
            self.under_way.pop(key, None)  # deleted, and the row with it; or moved
            return
        log = topic.logs[key[1]]
        if log is None or log.failed is not None:
            moving.due = time.monotonic() + RETRY_S
            return
        source, target = moving.source.opened(), moving.target.opened()
        moving.copy = copy = PartitionMove(
            log, source, target, self._bytes_per_s, moving.cancelled
        )
        try:
            if target.holds(*key):  # what an earlier move left there
                await self._change(asyncio.to_thread(self._log_dir.settle_moves))
            await asyncio.to_thread(copy.begin, was_left=moving.has_left)
            await asyncio.to_thread(copy.copy)
            await self._change(self._switch(key, moving, copy))
        except MoveCancelled:
            moving.due = time.monotonic() + RETRY_S
        except ApplianceError as error:
            self._fail(key, moving, error)
        except Exception as error:
            logger.exception("a move failed unexpectedly")
            self._fail(key, moving, error)
        finally:
            moving.copy = None
            moving.has_left |= copy.has_left
            await asyncio.to_thread(copy.discard)

    def _fail(self, key: Key, moving: Moving, error: Exception) -> None:
        if moving.why != str(error):
            logger.error("a move failed", log=directory_name(*key), into=moving.target.path,
                         error=error)  # fmt: skip
        pause_s = min(RETRY_S * 2**moving.failures, RETRY_MAX_S)
        moving.why, moving.due = str(error), time.monotonic() + pause_s
        moving.failures += 1

    async def _switch(self, key: Key, moving: Moving, copy: PartitionMove) -> None:
        """What may have changed since the copy began: it is cancelled, opened again, deleted."""
        topic = self._topics.get(key[0])
        is_same = topic is not None and copy.log in topic.logs
        is_open = moving.source.logs is copy.source and moving.target.logs is copy.target
        if moving.cancelled.is_set() or not is_same or not is_open or topic is None:
            raise MoveCancelled(f"{copy.log.name}: it is not what it was")
        config = topic_config.to_log_config(topic.configs, self._topics.base)

        def decide() -> None:
            self._log_dir.moved(key, moving.target)

        try:
            log = await asyncio.to_thread(copy.switch, decide, config)
        except Exception:
            self._tell_where_it_is(key, moving)
            raise
        self._serve(key, log)
        del self.under_way[key]
        await self._transactions.read_again(log)
        await asyncio.to_thread(self._log_dir.settle_moves)
        logger.info("moved", log=log.name, into=moving.target.path)

    def _tell_where_it_is(self, key: Key, moving: Moving) -> None:
        """The old log was opened again, or the new one could not be, and is tried again."""
        found = self._log_dir.logs().get(key)
        if found is not None:
            self._serve(key, found)
            return
        topic = self._topics[key[0]]
        why = self._log_dir.unopened.get(key, "its move is not finished")
        topic.logs = [*topic.logs[: key[1]], None, *topic.logs[key[1] + 1 :]]
        topic.unserved[key[1]] = why
        self._topics.show(topic)
        if self._log_dir.place_of(*key) is moving.target:
            self.under_way.pop(key, None)

    def _serve(self, key: Key, log: Log) -> None:
        topic = self._topics[key[0]]
        self._transactions.opened_anew(*key)
        topic.put_log(key[1], log)
        self._topics.show(topic)


def check_room(log: Log, target: RecordDir) -> None:
    """Before a row says that it moves: who asks hears of it."""
    logs = target.opened()
    low = logs.config.low_water_bytes
    if logs.free_bytes < log.size + low:
        raise StorageFull(
            f"{log.name} has {size(log.size)}, and {target.path} {size(logs.free_bytes)} free, of "
            f"which {size(low)} stay free"
        )
