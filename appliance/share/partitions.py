"""All share partitions: what members fetch of them, and acknowledge.

Everything here runs on the one asyncio thread. What is acquired is in memory alone: a crash makes
it available again. What is acknowledged is on disk before it is answered, and counts from then on.

    states    where groups are, asked for and changed by share groups
    entries   what is in service: locks, and changes on their way to the disk
    fetch     `fetching.py`: who waits, who reads, what is acquired
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol
from uuid import UUID

from appliance.config import BrokerConfig
from appliance.config.group_config import reset_duration_ms
from appliance.errors import ApplianceError
from appliance.machine.believed_time import WallClock
from appliance.process import event_log
from appliance.process.detached_tasks import LoggedTasks
from appliance.protocol import ErrorCode
from appliance.share import served_partitions
from appliance.share.fetching import Answer, Fetching, Given, Refuses, Wanted, refuses_nothing
from appliance.share.led_states import LedStates, Persister
from appliance.share.partition import Acknowledgement, SharePartition
from appliance.share.partition_states import PartitionStates, States, StatesInCluster
from appliance.share.reading import reset_offset
from appliance.share.served_partition import UNDECIDED, Entry, limits_of
from appliance.share.served_partitions import Entries
from appliance.share.session import Member, Session, ShareSessions, TopicPartition
from appliance.share.state_coordinator import StateCoordinator
from appliance.share.state_log import SharePartitionKey
from appliance.share.state_store import StatePlaces, StateStore
from appliance.share.states import ShareRefused
from appliance.topics.internal_topic import HELD_UP_S
from appliance.topics.internal_topic_loading import HeldUp, Loading, Words
from appliance.topics.topic import TopicUnavailable

logger = event_log.named("share_partitions")

# Threads that read logs for share fetches. A read is short, and the page cache has most of it.
READ_THREADS = 2

WORDS = Words(
    being_read="the state of share groups is being read",
    cannot_be_read="the state of share groups cannot be read",
    cannot_be_read_yet="the state of share groups cannot be read yet",
    none_is_served="no share group is served",
)


class Places(StatePlaces, served_partitions.Topics, Protocol):
    def may_know_topic(self, topic_id: UUID) -> bool:
        """False only where it is certain that it was deleted."""
        ...

    async def newest_configs(self) -> None:
        """What was set for a group at any broker is known here when this returns."""
        ...


class SharePartitions:
    def __init__(
        self,
        config: BrokerConfig,
        places: Places,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        wall: WallClock | None = None,
    ) -> None:
        self.config = config.share_state
        self.sessions = ShareSessions(
            config.share_groups.max_share_sessions,
            config.share_groups.max_session_partitions,
            config.network.fetch_max_partitions_all,
        )
        self._places = places
        self._clock_ms, self._wall = clock_ms, wall or WallClock()
        self._tasks = LoggedTasks(logger, "a share partition")
        self._store = StateStore(config.share_state, places, self._wall.latest_ms)
        self.state_coordinator = StateCoordinator(  # in a cluster
            config.share_state, places, self._wall.latest_ms
        )
        self._led: LedStates | None = None  # in a cluster
        self.loading = Loading(self._load, ShareRefused, WORDS, logger)
        self._entries = Entries(places, self._store, clock_ms, self._tasks)
        self.states: States = PartitionStates(self.loading, self._store, self._entries, self._tasks)
        self._threads = ThreadPoolExecutor(READ_THREADS, "share-fetch")
        self._fetches: dict[int, set[asyncio.Task[None]]] = {}  # by connection
        self._pruning: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()

    def join(self, persister: Persister) -> None:
        """It is one of a cluster: states are at share coordinators, this broker or others."""
        self._led = led = LedStates(persister, self._entries.log)
        self._entries.join(led)
        self.states = StatesInCluster(self.state_coordinator, persister)

    # Life

    def start(self) -> None:
        """On the event loop. Share groups are served once the topic is read."""
        self._entries.start()
        self.loading.start()

    async def _load(self) -> None:
        if self._places.is_in_cluster:  # each partition is read when this broker is elected
            self._prune_later()
            return
        try:
            faults = await self._store.load()
        except TopicUnavailable as error:
            raise HeldUp(str(error)) from error
        for each in faults:
            logger.warning("left out while the state of share groups was loaded", what=each)
        may_know = self._places.may_know_topic
        self._tasks.run(self.states.forget(lambda each: not may_know(each.topic_id)))
        self._prune_later()

    def _prune_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._pruning = loop.call_later(self.config.prune_interval_ms / 1000, self._prune_now)

    def _prune_now(self) -> None:
        self._tasks.run(self.states.prune())
        self._prune_later()

    async def known(self) -> None:
        """After the load that told what is there, however long its topic could not be read."""
        await self.loading.loaded()
        while self.loading.is_held_up and not self._stopped.is_set():
            await self.pause(round(HELD_UP_S * 1000))
            await self.loading.loaded()

    def stop(self) -> None:
        """Lets nobody in any more, and answers those who wait."""
        self.loading.stop()
        if self._pruning is not None:
            self._pruning.cancel()
        self._stopped.set()
        self.state_coordinator.led.stop()
        self._entries.stop()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loading.loaded()
        self.stop()
        await self._tasks.settled()
        self._entries.close()
        await self._store.close()
        await self.state_coordinator.led.close()
        await asyncio.to_thread(self._threads.shutdown)

    # Sessions

    def run(self, job: Awaitable[None], connection: int) -> None:
        """Beside what asked for it. With its connection it ends."""
        task = self._tasks.run(job)
        self._fetches.setdefault(connection, set()).add(task)
        task.add_done_callback(lambda done: self._ended(connection, done))

    def _ended(self, connection: int, task: asyncio.Task[None]) -> None:
        own = self._fetches[connection]
        own.discard(task)
        if not own:
            del self._fetches[connection]

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
        for entry in self._entries.of_group(member.group):
            if entry.stored.partition.release(member.id, config.delivery_count_limit):
                self._entries.freed(entry, config)
        if self._led is not None and not self.sessions.has_group(member.group):
            self._tasks.run(self._retire(self._led, member.group))

    async def _retire(self, led: LedStates, group: str) -> None:
        """In a cluster: nobody reads for the group here any more. Who does next reads the states
        again, which the group may have set anew meanwhile."""
        entries = list(self._entries.of_group(group))
        storing = {each.storing for each in entries if each.storing is not None}
        if storing:
            await asyncio.wait(storing)
        if not self.sessions.has_group(group):
            keys = [each.key for each in entries]
            led.forget(keys)
            for each in keys:
                self._entries.drop(each, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Fetching

    async def pause(self, wait_ms: int) -> None:
        """As long as a fetch waits that finds nothing, or until the broker stops."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), wait_ms / 1000)

    def look_again(self) -> None:
        """Whoever waits asks anew whether it may."""
        for each in self.sessions.all():
            if each.waiter is not None:
                each.waiter.woken.set()

    async def fetch(
        self, session: Session, wanted: Wanted, refuses: Refuses = refuses_nothing
    ) -> Answer:
        """Of the session's partitions, but for those that are refused."""
        answer: Answer = {}
        if self._led is not None:
            refuses = await self._refuses_in_cluster(self._led, session, refuses)
        entries = [
            entry
            for each in session.in_turn()
            if (entry := self._find(session.member.group, each, answer, refuses)) is not None
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
            refuses,
            self._decide,
            lambda entry: self._entries.waits.watch(entry, config),
            lambda entry: self._entries.changed(entry, config),
            lambda: self._stopped.is_set() or not session.is_open or session.fetches != number,
        )
        session.waiter = fetching.waiter
        return answer | await fetching.run()

    async def _refuses_in_cluster(
        self, led: LedStates, session: Session, refuses: Refuses
    ) -> Refuses:
        """What is not led here, or no longer, and what its share coordinator does not tell."""
        group = session.member.group
        places = [each for each in session.partitions if refuses(each) is None]
        unread = await led.read([SharePartitionKey(group, *each) for each in places])

        def refuses_led(place: TopicPartition) -> ApplianceError | None:
            key = SharePartitionKey(group, *place)
            if (error := refuses(place) or unread.get(key)) is not None:
                return error
            return None if self._entries.find(key) is None else self._entries.refusal_of(key)

        return refuses_led

    def _find(
        self, group: str, each: TopicPartition, answer: Answer, refuses: Refuses
    ) -> Entry | None:
        refused = refuses(each)
        if refused is not None:
            answer[each] = Given(error=refused)
            return None
        try:
            self.loading.check_loaded()
            return self._entries.in_service(SharePartitionKey(group, *each))
        except ApplianceError as error:
            answer[each] = Given(error=error)
            return None

    async def _decide(self, entry: Entry) -> None:
        """Where a group begins that never read this partition: on disk before anybody reads, or a
        restart could decide otherwise. It is for good, so what was set just before has to count."""
        if entry.is_undecided:
            await self._places.newest_configs()
        async with entry.turn:
            entry.check_there()
            if not entry.is_undecided:
                return
            chosen = self._places.share_group_config(entry.key.group).auto_offset_reset
            duration_ms = reset_duration_ms(chosen) or 0
            args = (entry.log, chosen, duration_ms, self._wall.now_ms())
            loop = asyncio.get_running_loop()
            offset = await loop.run_in_executor(self._threads, reset_offset, *args)
            own = entry.stored
            own.partition = SharePartition(offset)
            if self._led is None:
                own.leader_epoch = entry.log.leader_epoch
            try:
                await (self._led or self._store).snapshot(entry.key, own)
            except ApplianceError:
                own.partition = SharePartition(UNDECIDED)
                raise

    # Acknowledging

    def acknowledge(
        self, group: str, member_id: str, each: TopicPartition, given: Sequence[Acknowledgement]
    ) -> asyncio.Future[None]:
        """Done when it is on disk. What cannot be is refused at once."""
        self.loading.check_loaded()
        entry = self._entries.in_service(SharePartitionKey(group, *each))
        config = self._places.share_group_config(group)
        own = entry.stored.partition
        change = own.acknowledge(member_id, given, limits_of(config), self._clock_ms())
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if change is None:
            told.set_result(None)
        else:
            entry.changes.append((change, told))
        self._entries.changed(entry, config)
        return told
