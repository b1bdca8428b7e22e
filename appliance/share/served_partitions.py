"""Share partitions in service: found and taken out, their locks timed, their changes written.

What is acknowledged is marked in memory, written, and only then counts. Acknowledgements that come
while the disk is busy share the next record. A share partition has one timer, set to its next lock
that times out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.config import ShareGroupsConfig
from appliance.errors import ApplianceError
from appliance.process.detached_tasks import LoggedTasks, settle
from appliance.protocol import ErrorCode
from appliance.share.fetch_waits import EntryWaits
from appliance.share.led_states import FENCED
from appliance.share.runs import NEVER_MS
from appliance.share.served_partition import Entry
from appliance.share.session import TopicPartition
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.states import ShareRefused
from appliance.topics.topic import Topic


class Topics(Protocol):
    def topic_of_id(self, topic_id: UUID) -> Topic | None: ...

    def share_group_config(self, group_id: str) -> ShareGroupsConfig: ...


class Store(Protocol):
    """Where states are kept: `StateStore`, or in a cluster `LedStates`."""

    def find(self, key: SharePartitionKey) -> Stored | None: ...

    async def store(self, key: SharePartitionKey, own: Stored) -> None: ...

    async def snapshot(self, key: SharePartitionKey, own: Stored) -> None: ...


class Entries:
    def __init__(
        self,
        topics: Topics,
        store: Store,
        clock_ms: Callable[[], int],
        tasks: LoggedTasks,
    ) -> None:
        self._topics = topics
        self._store = store
        self._clock_ms = clock_ms
        self._tasks = tasks
        self._entries: dict[str, dict[TopicPartition, Entry]] = {}
        self._turns: WeakValueDictionary[SharePartitionKey, asyncio.Lock] = WeakValueDictionary()
        self._changing: set[SharePartitionKey] = set()
        self.waits = EntryWaits(topics.share_group_config)
        self._is_stopped = False
        self._is_in_cluster = False

    def join(self, store: Store) -> None:
        """It is one of a cluster: only what is led here is served."""
        self._store, self._is_in_cluster = store, True

    def start(self) -> None:
        """On the event loop."""
        asyncio.get_running_loop().add_reader(self.waits.fd, self.waits.moved)

    def stop(self) -> None:
        """Answers those who wait."""
        self._is_stopped = True
        for each in self._all():
            each.wake_all()
            if each.timer is not None:
                each.timer.cancel()

    def close(self) -> None:
        """After the last fetch."""
        asyncio.get_running_loop().remove_reader(self.waits.fd)
        for each in self._all():
            self.waits.unwatch(each)

    def _all(self) -> list[Entry]:
        return [each for own in self._entries.values() for each in own.values()]

    # In service

    def find(self, key: SharePartitionKey) -> Entry | None:
        return self._entries.get(key.group, {}).get(key.topic_partition)

    def of_group(self, group: str) -> Iterable[Entry]:
        return self._entries.get(group, {}).values()

    def in_service(self, key: SharePartitionKey) -> Entry:
        """From its first use on."""
        log = self.log(key)
        entry = self.find(key)
        if entry is not None and self._is_in_cluster:
            entry = self._of_this_election(entry)
        if entry is not None:
            if entry.log is not log:
                self._follow(entry, log)
            return entry
        own = self._store.find(key)
        if own is None and self._is_in_cluster:
            text = f"{key.owner}: its state is not read yet"
            raise ShareRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        if own is None or key in self._changing:
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"group {key.group} has no share partition {key.partition} of topic "
                f"{key.topic_id}",
            )
        entry = Entry(key, own, log, self.turn(key))
        self._entries.setdefault(key.group, {})[key.topic_partition] = entry
        self.changed(entry, self._config_of(entry))
        return entry

    def _of_this_election(self, entry: Entry) -> Entry | None:
        if entry.stored is self._store.find(entry.key):
            return entry
        self.drop(entry.key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    def _follow(self, entry: Entry, log: Log) -> None:
        """The partition was opened again, and the log that the entry has is closed for good. What
        is acquired stays so. Whoever waits at the old log waits at the new one."""
        config = self._config_of(entry)
        self.waits.unwatch(entry)
        entry.log = log
        self.freed(entry, config)
        if entry.waiters:
            self.waits.watch(entry, config)

    def log(self, key: SharePartitionKey) -> Log:
        topic = self._topics.topic_of_id(key.topic_id)
        if topic is None:
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {key.topic_id}"
            )
        if not 0 <= key.partition < len(topic.logs):
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name} has no partition {key.partition}, only {len(topic.logs)} of them",
            )
        log = topic.log(key.partition)
        if self._is_in_cluster and log.role != "leader":
            text = f"{log.name}: node {log.leader} leads it since epoch {log.election}"
            raise ShareRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        return log

    def refusal_of(self, key: SharePartitionKey) -> ApplianceError | None:
        """In a cluster: why what was read of it is not served any more."""
        entry = self.find(key)
        try:
            log = self.log(key)
        except ApplianceError as error:
            return error
        if entry is None or entry.stored.leader_epoch != log.election:
            text = f"{log.name} is led in another election now"
            return ShareRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        return None

    def _config_of(self, entry: Entry) -> ShareGroupsConfig:
        return self._topics.share_group_config(entry.key.group)

    # Out of service

    @asynccontextmanager
    async def out_of_service(self, key: SharePartitionKey) -> AsyncIterator[None]:
        """After its last write. Nobody fetches or acknowledges meanwhile."""
        async with self.turn(key):
            self._changing.add(key)
            try:
                self.drop(key)
                yield
            finally:
                self._changing.discard(key)

    def turn(self, key: SharePartitionKey) -> asyncio.Lock:
        """Held by whoever writes for a share partition."""
        return self._turns.setdefault(key, asyncio.Lock())

    def drop(
        self, key: SharePartitionKey, code: ErrorCode = ErrorCode.FENCED_STATE_EPOCH
    ) -> None:
        """Who waits for it is told."""
        own = self._entries.get(key.group, {})
        entry = own.pop(key.topic_partition, None)
        if entry is None:
            return
        if not own:
            del self._entries[key.group]
        entry.is_gone = True
        text = f"{key.owner} was reset or deleted meanwhile, or is led by another broker"
        entry.settle_with(ShareRefused(code, text))
        entry.wake_all()
        if entry.timer is not None:
            entry.timer.cancel()
        self.waits.unwatch(entry)

    # Changes

    def freed(self, entry: Entry, config: ShareGroupsConfig) -> None:
        """There may be more to acquire."""
        entry.version += 1
        entry.wake(config)
        self.changed(entry, config)

    def changed(self, entry: Entry, config: ShareGroupsConfig) -> None:
        self._set_timer(entry)
        if entry.stored.partition.has_unstored and entry.storing is None and not entry.is_gone:
            entry.storing = self._tasks.run(self._store_all(entry))

    async def _store_all(self, entry: Entry) -> None:
        try:
            while entry.stored.partition.has_unstored and not entry.is_gone:
                async with entry.turn:
                    if not entry.is_gone:
                        await self.store_some(entry)
        finally:
            entry.storing = None

    async def store_some(self, entry: Entry, is_whole: bool = False) -> None:
        changes, entry.changes = entry.changes, []
        own = entry.stored.partition
        store = self._store.snapshot if is_whole else self._store.store
        try:
            await store(entry.key, entry.stored)
        except ApplianceError as error:
            for change, told in changes:
                own.undo(change)
                settle(told, error)
            self._set_timer(entry)  # it may have rung meanwhile, and left them out
            if self._is_in_cluster and error.kafka_code in FENCED:
                self.drop(entry.key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise
        for change, told in changes:
            own.settle(change)
            settle(told, None)
        if changes:
            self.freed(entry, self._config_of(entry))

    # Time

    def _set_timer(self, entry: Entry) -> None:
        due_ms = entry.stored.partition.next_due_ms()
        if entry.timer is not None:
            if entry.due_ms <= due_ms:
                return
            entry.timer.cancel()
        entry.timer, entry.due_ms = None, due_ms
        if due_ms < NEVER_MS and not self._is_stopped and not entry.is_gone:
            left_s = max(0, due_ms - self._clock_ms()) / 1000
            entry.timer = asyncio.get_running_loop().call_later(left_s, self._expire, entry)

    def _expire(self, entry: Entry) -> None:
        entry.timer = None
        config = self._config_of(entry)
        if entry.stored.partition.expire(self._clock_ms(), config.delivery_count_limit):
            self.freed(entry, config)
        self._set_timer(entry)
