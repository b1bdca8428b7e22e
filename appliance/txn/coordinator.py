"""The transaction coordinator: what is asked of a transactional id, one after the other.

Everything here runs on the one asyncio thread. What is asked of one id waits for its turn, and has
what its predecessor left on disk; different ids share commits.

    table         all ids, in memory and on disk
    decided_ends  the end of a transaction, step by step
    timeouts      silent transactions, and ids that nobody uses
    adoption      what logs have open, and whose it is
    loading       nobody is served before all records of `__transaction_state` were read
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.access.kept_per_address import Kept, check_name
from appliance.config import KeptConfig, TransactionsConfig
from appliance.groups.states import GroupRefused
from appliance.machine.believed_time import WallClock
from appliance.process import event_log
from appliance.process.detached_tasks import LoggedTasks
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic_loading import HeldUp, Loading, Words
from appliance.topics.topic import TopicUnavailable
from appliance.txn import adoption, decided_ends, timeouts
from appliance.txn.adoption import Adoption, now_ms
from appliance.txn.decided_ends import DecidedEnds
from appliance.txn.markers import Marker, Markers
from appliance.txn.states import State, TransactionRefused
from appliance.txn.transaction import NONE, TV2, Partition, Producer, Transaction
from appliance.txn.transaction_log import replay
from appliance.txn.transaction_table import TransactionTable, TransactionTopic

logger = event_log.named("transactions")

WORDS = Words(
    being_read="transactions are being read",
    cannot_be_read="transactions cannot be read",
    cannot_be_read_yet="transactions cannot be read yet, none is served",
    none_is_served="no transaction is served",
)


class Places(TransactionTopic, adoption.Logs, decided_ends.Logs, Protocol):
    """Where records and markers go, and where producer ids come from."""

    async def new_producer_id(self) -> int: ...


class Coordinator:
    def __init__(
        self,
        config: TransactionsConfig,
        places: Places,
        offsets_loaded: Callable[[], Awaitable[None]],
        end_offsets: Callable[[int, bool], None],
        clock: WallClock | None = None,
        kept: Kept | None = None,
    ) -> None:
        """`end_offsets` is told when the offsets that a producer wrote count, or never did."""
        self.config = config
        self._places = places
        self._offsets_loaded = offsets_loaded
        self._clock = clock or WallClock()
        self._wall_ms = self._clock.latest_ms  # of what is written; the earliest is for expiry
        self.tasks = LoggedTasks(logger, "a transaction")
        kept = Kept.of_transactions(KeptConfig()) if kept is None else kept
        self.table = TransactionTable(places, config.write_timeout_ms, self._wall_ms, kept)
        self.markers = Markers(config.write_timeout_ms, self._wall_ms, end_offsets)
        self.decided_ends = DecidedEnds(self.table, places, self.markers, self._wall_ms, self.tasks)
        self.adoption = Adoption(self.table, places, self.markers, self._clock)
        self.loading = Loading(self._load, TransactionRefused, WORDS, logger)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._timers: list[asyncio.TimerHandle] = []

    # Life

    def start(self) -> None:
        """On the event loop. Transactions are served once the topic is read."""
        self.loading.start()

    async def _load(self) -> None:
        try:
            # What groups have in transactions must be known before one of them ends.
            await self._offsets_loaded()
            logs = self._places.transaction_logs()
        except (GroupRefused, TopicUnavailable) as error:
            raise HeldUp(str(error)) from error
        replayed = await asyncio.to_thread(replay, logs)
        for fault in replayed.faults:
            logger.warning("left out while transactions were loaded", what=fault)
        for own in replayed.transactions.values():
            self.table.hold(own.resumed(self._clock.now_ms(), now_ms()))
        self.adoption.begin(is_whole=not replayed.faults)
        await asyncio.gather(*[self.decided_ends.complete(each) for each in self.table.prepared()])
        await self.adoption.adopt_all()
        self._every(self.config.timeout_check_ms, lambda: timeouts.tick(self, now_ms()))
        self._every(
            self.config.expiration_check_ms, lambda: timeouts.expire(self, self._clock.now_ms())
        )

    def stop(self) -> None:
        """Lets nobody in any more."""
        self.loading.stop()
        for each in self._timers:
            each.cancel()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loading.loaded()
        self.stop()
        await self.tasks.settled()
        self.tasks.run(self.table.record_ongoing())
        await self.tasks.settled()
        await self.table.close()
        await self.markers.close()

    # What handlers ask

    def find(self, name: str) -> Transaction:
        self.loading.check_loaded()
        return self.table.find(name)

    async def init_producer(
        self, name: str, timeout_ms: int, expected: Producer | None
    ) -> Producer:
        """A producer for this transactional id. Whoever had it before is fenced, and what they left
        open is aborted."""
        most = self.config.max_timeout_ms
        if not 0 < timeout_ms <= most:
            raise TransactionRefused(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"got a timeout of {timeout_ms} ms, wanted 1 to {most} "
                "(transaction.max.timeout.ms)",
            )
        async with self.turn(name):
            own = self.table.transactions.get(name)
            if own is None:
                check_name("transactional id", name)
                self.table.check_room(name)
                new = Producer(await self._places.new_producer_id(), 0)
                first = Transaction(name, new, timeout_ms, changed_ms=self._wall_ms())
                return await self.table.store(first)
            if expected is not None:
                own.check_expected(expected)
            if own.state is State.ONGOING:
                await self.decided_ends.abort(own)
                await self.decided_ends.settled(name)
                own = self.table.transactions[name]
            new_id = await self._new_id(own)
            taken_over = own.taken_over(expected, timeout_ms, new_id, self._wall_ms())
            return await self.table.store(taken_over)

    async def add(self, name: str, producer: Producer, partitions: Iterable[Partition]) -> None:
        """Before they are written to (TV1): on disk when this returns."""
        added = frozenset(partitions)
        for place in added:
            self.adoption.check_read(place, producer)
        async with self.turn(name):
            own = self.table.of_producer(name, producer)
            own.check_producer(producer)
            if not own.has(added):
                self.table.check_room(name, len(added))
                await self.table.store(own.joined(added, self._wall_ms(), now_ms()))

    @asynccontextmanager
    async def writing(
        self, name: str, producers: Mapping[Partition, Producer], may_add: bool
    ) -> AsyncIterator[Mapping[Partition, TransactionRefused]]:
        """Held over first writes to partitions. Answers those that may not be written to. Inside,
        the transaction cannot end, so no write comes behind its marker."""
        async with self.turn(name):
            refused: dict[Partition, TransactionRefused] = {}
            added = []
            for place, producer in producers.items():
                try:
                    self._check_writer(name, producer, place, may_add)
                    added.append(place)
                except TransactionRefused as error:
                    refused[place] = error
            if added and not (own := self.table.transactions[name]).has(added):
                self.table.hold(own.joined(added, self._wall_ms(), now_ms()))
            yield refused

    def _check_writer(
        self, name: str, producer: Producer, place: Partition, may_add: bool
    ) -> None:
        self.adoption.check_read(place, producer)
        own = self.table.of_producer(name, producer)
        own.check_producer(producer)
        own.check_not_ending()
        if not may_add:
            own.check_has(place)

    async def end(self, name: str, producer: Producer, is_commit: bool, version: int) -> Producer:
        """When it returns readers see the outcome. Answers who writes the next transaction."""
        async with self.turn(name):
            own = self.table.of_producer(name, producer)
            if version >= TV2:
                self.adoption.check_whole(own, producer, is_commit)
            if own.is_ended(producer, is_commit, version):
                return own.following
            new_id = await self._new_id(own) if version >= TV2 else NONE
            prepared = own.prepared(is_commit, version, new_id, self._wall_ms())
            await self.decided_ends.end(prepared)
            return prepared.following

    async def mark(self, log: Log, producer: Producer, is_commit: bool, epoch: int) -> None:
        """A marker that somebody else decided on: WriteTxnMarkers."""
        await self.markers.end(log, Marker(producer, is_commit, epoch))

    def opened_anew(self, topic: str, partition: int) -> None:
        """Before anybody can write to it: its log is another than the one that was read."""
        self.adoption.unread.add((topic, partition))

    async def read_again(self, log: Log) -> None:
        """What a log has open that was opened anew: damage may have taken markers meanwhile. While
        transactions are being read it waits for the timer."""
        if self.loading.is_loaded:
            await self.adoption.read({(log.topic, log.partition)})

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        self.loading.check_loaded()
        if not name:
            raise TransactionRefused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        async with self._turns.setdefault(name, asyncio.Lock()):
            await self.decided_ends.settled(name)
            yield

    async def _new_id(self, own: Transaction) -> int:
        return await self._places.new_producer_id() if own.is_exhausted else NONE

    # Time

    def _every(self, interval_ms: int, job: Callable[[], None]) -> None:
        slot = len(self._timers)
        loop = asyncio.get_running_loop()

        def ring() -> None:
            self._timers[slot] = loop.call_later(interval_ms / 1000, ring)
            job()

        self._timers.append(loop.call_later(interval_ms / 1000, ring))
