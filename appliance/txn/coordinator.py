"""The transaction coordinator: what is asked of a transactional id, one after the other.

In a cluster the leader of the id's partition of `__transaction_state` is its coordinator. Leaders
of other partitions ask it before the first write of a transaction (`first_writes.py`), and it sends
them the markers (`markers_at_leaders.py`).

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
from dataclasses import replace
from typing import Protocol
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.access.kept_per_address import Kept, check_name
from appliance.config import KeptConfig, TransactionsConfig
from appliance.data_dir.log_writes import LogWrites
from appliance.groups.states import GroupRefused
from appliance.machine.believed_time import WallClock
from appliance.process import event_log
from appliance.process.detached_tasks import LoggedTasks
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic_loading import HeldUp, Loading, Words
from appliance.topics.led_partitions import Term
from appliance.topics.topic import TopicUnavailable
from appliance.txn import adoption, led_markers, timeouts
from appliance.txn.adoption import Adoption, now_ms
from appliance.txn.decided_ends import DecidedEnds
from appliance.txn.first_writes import FirstWrites, Refused
from appliance.txn.led_markers import EndOffsets, LedMarkers
from appliance.txn.markers import Marker, Markers
from appliance.txn.markers_at_leaders import Codes, Leaders
from appliance.txn.states import PREPARED, State, TransactionRefused
from appliance.txn.transaction import NONE, TV2, Partition, Producer, Transaction
from appliance.txn.transaction_log import ReplayedTransactions, replay
from appliance.txn.transaction_table import TransactionTable, TransactionTopic

logger = event_log.named("transactions")

WORDS = Words(
    being_read="transactions are being read",
    cannot_be_read="transactions cannot be read",
    cannot_be_read_yet="transactions cannot be read yet, none is served",
    none_is_served="no transaction is served",
)


class Places(TransactionTopic, adoption.Logs, led_markers.Logs, Protocol):
    """Where records and markers go, and where producer ids come from."""

    async def new_producer_id(self) -> int: ...

    def led_log(self, topic: str, partition: int) -> Log | None:
        """None: it is not here."""
        ...


class Others(Leaders, Protocol):
    """The other brokers of a cluster, and this one among them."""

    async def ask_coordinator(
        self, name: str, producer: Producer, places: frozenset[Partition], may_add: bool
    ) -> Refused: ...


class Coordinator:
    def __init__(
        self,
        config: TransactionsConfig,
        places: Places,
        offsets_loaded: Callable[[], Awaitable[None]],
        end_offsets: EndOffsets,
        writes: LogWrites,
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
        self.markers = Markers(writes, config.write_timeout_ms, self._wall_ms, end_offsets)
        self.decided_ends = DecidedEnds(self.table, places, self.markers, self._wall_ms, self.tasks)
        self.adoption = Adoption(self.table, places, self.markers, self._clock)
        self.loading = Loading(self._load, TransactionRefused, WORDS, logger)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._timers: list[asyncio.TimerHandle] = []
        self._end_offsets = end_offsets
        self.first_writes: FirstWrites | None = None  # in a cluster
        self._led_markers: LedMarkers | None = None
        self.table.on_read = self._resume
        self.table.on_dropped = self.decided_ends.forget

    def join(self, others: Others) -> None:
        """It is one of a cluster."""
        self.decided_ends.leaders = others
        self.first_writes = first = FirstWrites(others.ask_coordinator, self._places.led_log)
        self._led_markers = LedMarkers(self._places, self.markers, first, self._end_offsets)

    # Life

    def start(self) -> None:
        """On the event loop. Transactions are served once the topic is read."""
        self.loading.start()

    async def _load(self) -> None:
        if not self.table.is_in_cluster:
            await self._load_all()
        self._every(self.config.timeout_check_ms, lambda: timeouts.tick(self, now_ms()))
        self._every(
            self.config.expiration_check_ms, lambda: timeouts.expire(self, self._clock.now_ms())
        )

    async def _load_all(self) -> None:
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

    def _resume(self, term: Term, replayed: ReplayedTransactions) -> None:
        """What was read of a partition that is led here: this broker goes on with it."""
        for fault in replayed.faults:
            logger.warning("left out while transactions were loaded", what=fault)
        for each in replayed.transactions.values():
            own = replace(each.resumed(self._clock.now_ms(), now_ms()), term_epoch=term.epoch)
            self.table.hold(own)
            if own.state in PREPARED:
                self.decided_ends.complete(own)

    def on_led(self, partition: int, epoch: int) -> None:
        """This broker leads that partition of `__transaction_state`, and so its ids."""
        self.table.led.on_led(partition, epoch)

    def on_resigned(self, partition: int) -> None:
        """It does not, or no longer."""
        self.table.led.on_resigned(partition)

    def stop(self) -> None:
        """Lets nobody in any more."""
        self.loading.stop()
        self.table.led.stop()
        for each in self._timers:
            each.cancel()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loading.loaded()
        self.stop()
        await self.tasks.settled()
        if not self.table.is_in_cluster:
            self.tasks.run(self.table.record_ongoing())
        await self.tasks.settled()
        await self.table.close()

    # What handlers ask

    def find(self, name: str) -> Transaction:
        self.loading.check_loaded()
        self.table.check_led(name)
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
                epoch = self.table.term_epoch(name)
                new = Producer(await self._places.new_producer_id(), 0)
                first = Transaction(
                    name, new, timeout_ms, changed_ms=self._wall_ms(), term_epoch=epoch
                )
                return await self.table.store(first)
            if expected is not None:
                own.check_expected(expected)
            if own.state is State.ONGOING:
                await self.decided_ends.abort(own)
                await self.decided_ends.settled(name)
                self.table.check_led(name)
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
        the transaction cannot end, so no write comes behind its marker. In a cluster the marker
        waits."""
        if self.first_writes is not None:
            async with self.first_writes.writing(name, producers, may_add) as found:
                yield found
            return
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

    async def verify(
        self, name: str, producer: Producer, places: Iterable[Partition]
    ) -> Refused:
        """Those that were not added before."""
        async with self.turn(name):
            refused: dict[Partition, TransactionRefused] = {}
            for place in places:
                try:
                    self._check_writer(name, producer, place, False)
                except TransactionRefused as error:
                    refused[place] = error
            return refused

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

    async def mark_led(self, marker: Marker, places: Iterable[Partition]) -> Codes:
        """The same in a cluster, of what this broker leads of these."""
        assert self._led_markers is not None
        return await self._led_markers.write(marker, places)

    def opened_anew(self, topic: str, partition: int) -> None:
        """Before anybody can write to it: its log is another than the one that was read."""
        if not self.table.is_in_cluster:  # there other replicas have what damage took
            self.adoption.unread.add((topic, partition))

    async def read_again(self, log: Log) -> None:
        """What a log has open that was opened anew: damage may have taken markers meanwhile. While
        transactions are being read it waits for the timer."""
        if self.loading.is_loaded and not self.table.is_in_cluster:
            await self.adoption.read({(log.topic, log.partition)})

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        self.loading.check_loaded()
        if not name:
            raise TransactionRefused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        self.table.check_led(name)
        async with self._turns.setdefault(name, asyncio.Lock()):
            await self.decided_ends.settled(name)
            self.table.check_led(name)
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
