"""The owner of all share partitions: order, disk, time, and what handlers and share groups ask.

Everything here runs on the one asyncio thread. What is acquired is in memory alone: a crash makes
it available again. What is acknowledged is on disk before it is answered, and counts from then on.

    fetch         `fetching.py`: who waits, who reads, what is acquired
    acknowledge   marked in memory -> written (`state_store.py`) -> counts, and is answered;
                  acknowledgements that come while the disk is busy share the next record
    locks         a timer for each share partition, set to its next lock that times out
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Protocol
from uuid import UUID
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.config import BrokerConfig, ShareGroupsConfig
from appliance.config.group_configs import reset_duration_ms
from appliance.errors import ApplianceError
from appliance.machine.wall_clock import WallClock
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.share.entry import UNDECIDED, Entry, limits_of
from appliance.share.entry_waits import EntryWaits
from appliance.share.fetching import Answer, Fetching, Given, Wanted
from appliance.share.partition import Acknowledgement, SharePartition
from appliance.share.reading import reset_offset
from appliance.share.runs import NEVER_MS
from appliance.share.session import Member, Session, ShareSessions, TopicPartition
from appliance.share.state_log import Place, Stored
from appliance.share.state_store import StatePlaces, StateStore
from appliance.share.states import ShareRefused
from appliance.topics.internal_topic import HELD_UP_S
from appliance.topics.topic import Topic, TopicUnavailable

logger = event_log.named("share_partitions")

# Threads that read logs for share fetches. A read is short, and the page cache has most of it.
READ_THREADS = 2


class Places(StatePlaces, Protocol):
    def topic_of_id(self, topic_id: UUID) -> Topic | None: ...

    def may_know_topic(self, topic_id: UUID) -> bool:
        """False only where it is certain that it was deleted."""
        ...

    def share_group_config(self, group_id: str) -> ShareGroupsConfig: ...


class SharePartitions:
    def __init__(
        self,
        config: BrokerConfig,
        places: Places,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        wall: WallClock | None = None,
    ) -> None:
        self.config = config.share_state
        self.fault = ""  # why share groups are not served, for people
        self.sessions = ShareSessions(
            config.share_groups.max_share_sessions,
            config.share_groups.max_session_partitions,
            config.network.fetch_max_partitions_all,
        )
        self._places = places
        self._clock_ms, self._wall = clock_ms, wall or WallClock()
        self._store = StateStore(config.share_state, places, self._wall.latest_ms)
        self._stored: dict[str, dict[TopicPartition, Stored]] = {}
        self._entries: dict[str, dict[TopicPartition, Entry]] = {}
        self._turns: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()
        self._changing: set[Place] = set()
        self._waits = EntryWaits(places.share_group_config)
        self._threads = ThreadPoolExecutor(READ_THREADS, "share-fetch")
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetches: dict[int, set[asyncio.Task[None]]] = {}  # by connection
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None
        self._held_up: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()
        self._unavailable: ShareRefused | None = ShareRefused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "share groups have not started"
        )

    # Life

    def start(self) -> None:
        """On the event loop. Share groups are served once the topic is read."""
        asyncio.get_running_loop().add_reader(self._waits.fd, self._waits.moved)
        self._begin()

    def _begin(self) -> None:
        self._held_up = None
        self._unavailable = ShareRefused(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the state of share groups is being read"
        )
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def loaded(self) -> None:
        """After a load that has begun."""
        if self._loading is not None:
            await self._loading

    async def known(self) -> None:
        """After the load that told what is there, however long its topic could not be read."""
        await self.loaded()
        while self._held_up is not None and not self._stopped.is_set():
            await self.pause(round(HELD_UP_S * 1000))
            await self.loaded()

    def _hold_up(self, error: ApplianceError) -> None:
        """What is there is not known: no group begins anew."""
        self.fault = f"the state of share groups cannot be read yet: {error}"
        self._unavailable = ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.fault)
        logger.error("no share group is served", error=error)
        if not self._stopped.is_set():
            self._held_up = asyncio.get_running_loop().call_later(HELD_UP_S, self._begin)

    async def _load(self) -> None:
        try:
            found = await self._store.load()
        except TopicUnavailable as error:
            self._hold_up(error)
            return
        except ApplianceError as error:
            self.fault = f"the state of share groups cannot be read: {error}"
            self._unavailable = ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.fault)
            logger.error("no share group is served", error=error)
            return
        for each in found.faults:
            logger.warning("left out while the state of share groups was loaded", what=each)
        for place, own in found.stored.items():
            of_group = self._stored.setdefault(place.group, {})
            of_group[TopicPartition(place.topic_id, place.partition)] = own
        self._unavailable, self.fault = None, ""
        lost = [each for each in self._places_known() if not self._may_know(each)]
        self.run(self._forget(lost))
        self._prune_later()

    def _may_know(self, place: Place) -> bool:
        return self._places.may_know_topic(place.topic_id)

    def stop(self) -> None:
        """Lets nobody in any more, and answers those who wait."""
        self._unavailable = ShareRefused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops"
        )
        for handle in (self._timer, self._held_up):
            if handle is not None:
                handle.cancel()
        self._stopped.set()
        for each in self._all_entries():
            each.wake_all()
            if each.timer is not None:
                each.timer.cancel()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loaded()
        self.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._loading is not None:
            asyncio.get_running_loop().remove_reader(self._waits.fd)
        for each in self._all_entries():
            self._waits.unwatch(each)
        await self._store.close()
        await asyncio.to_thread(self._threads.shutdown)

    @property
    def is_loaded(self) -> bool:
        return self._unavailable is None

    def check_loaded(self) -> None:
        if self._unavailable is not None:
            raise self._unavailable

    def run(self, job: Awaitable[None], connection: int | None = None) -> None:
        """Beside what asked for it. With its connection it ends."""
        task = asyncio.ensure_future(self._told(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if connection is not None:
            own = self._fetches.setdefault(connection, set())
            own.add(task)
            task.add_done_callback(lambda done: self._ended(connection, done))

    def _ended(self, connection: int, task: asyncio.Task[None]) -> None:
        own = self._fetches[connection]
        own.discard(task)
        if not own:
            del self._fetches[connection]

    async def _told(self, job: Awaitable[None]) -> None:
        try:
            await job
        except ApplianceError as error:
            logger.warning("put off", error=error)
        except Exception:
            logger.exception("a share partition failed in a way that was not foreseen")

    # What share groups ask

    def start_offset(self, group: str, topic_id: UUID, partition: int) -> int | None:
        """None: nothing is known of it. -1: its first fetch decides."""
        own = self._known(group, TopicPartition(topic_id, partition))
        return None if own is None else own.partition.start_offset

    def delivery_complete_count(self, group: str, topic_id: UUID, partition: int) -> int:
        """Of records past the start that are done; -1: nothing is known of it."""
        own = self._known(group, TopicPartition(topic_id, partition))
        return -1 if own is None else own.partition.delivery_complete_count

    def _known(self, group: str, topic_partition: TopicPartition) -> Stored | None:
        self.check_loaded()
        return self._stored.get(group, {}).get(topic_partition)

    async def initialize(
        self,
        group: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        start_offset: int = UNDECIDED,
    ) -> None:
        """On disk when it returns. One that is there stays as it is."""
        place = TopicPartition(topic_id, partition)
        if self._known(group, place) is None:
            await self._put(Place(group, topic_id, partition), state_epoch, start_offset)

    async def set_start_offset(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int, offset: int
    ) -> None:
        """On disk when it returns. Forgets what was in flight."""
        self.check_loaded()
        await self._put(Place(group, topic_id, partition), state_epoch, offset)

    async def _put(self, place: Place, state_epoch: int, start_offset: int) -> None:
        epoch = self._log(place).leader_epoch
        async with self._out_of_service(place):
            before = self._known(place.group, place.topic_partition)
            new = Stored(
                SharePartition(start_offset),
                state_epoch=state_epoch,
                leader_epoch=epoch,
                snapshot_epoch=before.snapshot_epoch if before else 0,
                snapshot_offset=before.snapshot_offset if before else -1,
            )
            await self._store.snapshot(place, new)
            self._stored.setdefault(place.group, {})[place.topic_partition] = new

    async def delete(self, group: str, topic_id: UUID, partition: int) -> None:
        """On disk when it returns."""
        place = Place(group, topic_id, partition)
        if self._known(group, place.topic_partition) is None:
            return
        async with self._out_of_service(place):
            await self._store.forget(place)
            of_group = self._stored.get(group, {})
            of_group.pop(place.topic_partition, None)
            if not of_group:
                self._stored.pop(group, None)

    async def forget_topic(self, topic_id: UUID) -> None:
        """It is deleted. What cannot be written now is forgotten with the next start."""
        await self.loaded()
        if self._unavailable is None:
            await self._forget(each for each in self._places_known() if each.topic_id == topic_id)

    async def _forget(self, places: Iterable[Place]) -> None:
        for each in list(places):
            await self._told(self.delete(*each))

    def _places_known(self) -> Iterator[Place]:
        return (Place(group, *each) for group, own in self._stored.items() for each in own)

    @asynccontextmanager
    async def _out_of_service(self, place: Place) -> AsyncIterator[None]:
        """After its last write. Nobody fetches or acknowledges meanwhile."""
        async with self._turn(place):
            self._changing.add(place)
            try:
                self._drop_entry(place)
                yield
            finally:
                self._changing.discard(place)

    def _turn(self, place: Place) -> asyncio.Lock:
        """Held by whoever writes for a share partition."""
        return self._turns.setdefault(place, asyncio.Lock())

    def _drop_entry(self, place: Place) -> None:
        """Who waits for it is told."""
        entry = self._entries.get(place.group, {}).pop(place.topic_partition, None)
        if entry is None:
            return
        entry.is_gone = True
        code = ErrorCode.FENCED_STATE_EPOCH
        entry.settle_with(ShareRefused(code, f"{place.owner} was reset or deleted meanwhile"))
        entry.wake_all()
        if entry.timer is not None:
            entry.timer.cancel()
        self._waits.unwatch(entry)

    # Sessions

    def member_gone(self, group: str, member_id: str) -> None:
        """It has timed out: its session ends, and what it had is anybody's. One that leaves may
        still acknowledge what it had."""
        self.close_session(Member(group, member_id))

    def connection_gone(self, connection: int) -> None:
        for task in self._fetches.get(connection, ()):
            task.cancel()
        for member in self.sessions.of_connection(connection):
            self.close_session(member)

    def close_session(self, member: Member) -> None:
        self.sessions.close(member)
        config = self._places.share_group_config(member.group)
        for entry in self._entries.get(member.group, {}).values():
            if entry.stored.partition.release(member.id, config.delivery_count_limit):
                self._freed(entry, config)

    # Fetching

    async def pause(self, wait_ms: int) -> None:
        """As long as a fetch waits that finds nothing, or until the broker stops."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), wait_ms / 1000)

    async def fetch(self, session: Session, wanted: Wanted) -> Answer:
        """Of the session's partitions."""
        answer: Answer = {}
        entries = [
            found
            for each in session.in_turn()
            if (found := self._find(session.member.group, each, answer)) is not None
        ]
        if not entries or not wanted.wants_records:
            return answer
        config = self._places.share_group_config(session.member.group)
        if session.waiter is not None:
            session.waiter.woken.set()  # one fetch of a member waits at a time
        session.fetches += 1
        number = session.fetches
        fetching = Fetching(
            wanted,
            entries,
            config,
            self._threads,
            self._clock_ms,
            self._decide,
            lambda entry: self._waits.watch(entry, config),
            lambda entry: self._changed(entry, config),
            lambda: self._stopped.is_set() or not session.is_open or session.fetches != number,
        )
        session.waiter = fetching.waiter
        return answer | await fetching.run()

    def _find(self, group: str, each: TopicPartition, answer: Answer) -> Entry | None:
        try:
            return self._entry(Place(group, *each))
        except ApplianceError as error:
            answer[each] = Given(error=error)
            return None

    def _entry(self, place: Place) -> Entry:
        """In service from its first use on."""
        self.check_loaded()
        log = self._log(place)
        found = self._entries.get(place.group, {}).get(place.topic_partition)
        if found is not None:
            if found.log is not log:
                self._follow(found, log)
            return found
        own = self._known(place.group, place.topic_partition)
        if own is None or place in self._changing:
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"group {place.group} has no share partition {place.partition} of topic "
                f"{place.topic_id}",
            )
        entry = Entry(place, own, log, self._turn(place))
        self._entries.setdefault(place.group, {})[place.topic_partition] = entry
        self._changed(entry, self._places.share_group_config(place.group))
        return entry

    def _follow(self, entry: Entry, log: Log) -> None:
        """The partition was opened again, and the log that the entry has is closed for good. What
        is acquired stays so. Whoever waits at the old log waits at the new one."""
        config = self._places.share_group_config(entry.place.group)
        self._waits.unwatch(entry)
        entry.log = log
        self._freed(entry, config)
        if entry.waiters:
            self._waits.watch(entry, config)

    def _log(self, place: Place) -> Log:
        topic = self._places.topic_of_id(place.topic_id)
        if topic is None:
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {place.topic_id}"
            )
        if not 0 <= place.partition < len(topic.logs):
            raise ShareRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name} has no partition {place.partition}, only {len(topic.logs)} of them",
            )
        return topic.log(place.partition)

    def _all_entries(self) -> Iterator[Entry]:
        return iter([each for own in self._entries.values() for each in own.values()])

    async def _decide(self, entry: Entry) -> None:
        """Where a group begins that never read this partition: on disk before anybody reads, or a
        restart could decide otherwise."""
        async with entry.turn:
            entry.check_there()
            if not entry.is_undecided:
                return
            chosen = self._places.share_group_config(entry.place.group).auto_offset_reset
            duration_ms = reset_duration_ms(chosen) or 0
            args = (entry.log, chosen, duration_ms, self._wall.now_ms())
            loop = asyncio.get_running_loop()
            offset = await loop.run_in_executor(self._threads, reset_offset, *args)
            own = entry.stored
            own.partition, own.leader_epoch = SharePartition(offset), entry.log.leader_epoch
            try:
                await self._store.snapshot(entry.place, own)
            except ApplianceError:
                own.partition = SharePartition(UNDECIDED)
                raise

    # Acknowledging

    def acknowledge(
        self, group: str, member_id: str, each: TopicPartition, given: Sequence[Acknowledgement]
    ) -> asyncio.Future[None]:
        """Done when it is on disk. What cannot be is refused at once."""
        entry = self._entry(Place(group, *each))
        config = self._places.share_group_config(group)
        own = entry.stored.partition
        change = own.acknowledge(member_id, given, limits_of(config), self._clock_ms())
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if change is None:
            told.set_result(None)
        else:
            entry.changes.append((change, told))
        self._changed(entry, config)
        return told

    def _freed(self, entry: Entry, config: ShareGroupsConfig) -> None:
        """There may be more to acquire."""
        entry.version += 1
        entry.wake(config)
        self._changed(entry, config)

    def _changed(self, entry: Entry, config: ShareGroupsConfig) -> None:
        self._set_timer(entry)
        if entry.stored.partition.has_unstored and entry.storing is None and not entry.is_gone:
            entry.storing = asyncio.ensure_future(self._told(self._store_all(entry)))
            self._tasks.add(entry.storing)
            entry.storing.add_done_callback(self._tasks.discard)

    async def _store_all(self, entry: Entry) -> None:
        try:
            while entry.stored.partition.has_unstored and not entry.is_gone:
                async with entry.turn:
                    if not entry.is_gone:
                        await self._store_some(entry)
        finally:
            entry.storing = None

    async def _store_some(self, entry: Entry, is_whole: bool = False) -> None:
        changes, entry.changes = entry.changes, []
        own = entry.stored.partition
        store = self._store.snapshot if is_whole else self._store.store
        try:
            await store(entry.place, entry.stored)
        except ApplianceError as error:
            for change, told in changes:
                own.undo(change)
                if not told.done():
                    told.set_exception(error)
            raise
        for change, told in changes:
            own.settle(change)
            if not told.done():
                told.set_result(None)
        if changes:
            self._freed(entry, self._places.share_group_config(entry.place.group))

    # Time

    def _set_timer(self, entry: Entry) -> None:
        due_ms = entry.stored.partition.next_due_ms()
        if entry.timer is not None:
            if entry.due_ms <= due_ms:
                return
            entry.timer.cancel()
        entry.timer, entry.due_ms = None, due_ms
        if due_ms < NEVER_MS and not self._stopped.is_set():
            left_s = max(0, due_ms - self._clock_ms()) / 1000
            entry.timer = asyncio.get_running_loop().call_later(left_s, self._expire, entry)

    def _expire(self, entry: Entry) -> None:
        entry.timer = None
        config = self._places.share_group_config(entry.place.group)
        if entry.stored.partition.expire(self._clock_ms(), config.delivery_count_limit):
            self._freed(entry, config)
        self._set_timer(entry)

    def _prune_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.config.prune_interval_ms / 1000, self._prune_now)

    def _prune_now(self) -> None:
        self.run(self.prune())
        self._prune_later()

    async def prune(self) -> None:
        """Writes anew what seldom changes, and deletes the records that nothing depends on."""
        stored = [(each, self._stored[each.group][each.topic_partition])
                  for each in self._places_known()]
        is_worth_it = self._store.is_mostly_old(own for _, own in stored)
        for place, own in stored:
            if is_worth_it and self._store.is_cold(own):
                async with self._turn(place):
                    await self._store_anew(place, own)
        await self._store.prune(stored)

    async def _store_anew(self, place: Place, own: Stored) -> None:
        entry = self._entries.get(place.group, {}).get(place.topic_partition)
        if self._known(place.group, place.topic_partition) is not own:
            return
        if entry is None:
            await self._store.snapshot(place, own)
        else:
            await self._store_some(entry, is_whole=True)
