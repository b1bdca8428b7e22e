"""The owner of all transactional ids: order, disk, time, and what handlers ask.

Everything here runs on the one asyncio thread. What is asked of one transactional id is done one
after the other, each with what its predecessor left on disk; different ids share commits.

    the end of a transaction:
      1  its Prepare record is durable         decided: from here on it ends this way, whatever
                                               happens
      2  the markers are durable               readers see it, and the client is answered
      3  its Complete record is durable        only now may the id begin its next transaction

A step that fails leaves the id in its Prepare state, and the timer tries 2 and 3 again; so does the
next start. Partitions that a client added before it wrote are recorded durably (TV1). Those that
its first write adds (TV2) are not: what is on disk of that write says it as well, and the start
reads it there (`_adopt`).

A partition that cannot be opened may hold any of this, and may be served at any time (`topics.py`):

    of __transaction_state        no transaction is served until all of it was read
    of a decided transaction      it is not complete; its other markers are written
    any, of __consumer_offsets    is read once it is served; until then nobody begins to write to
    as well                       it, and what a start found open of TV2 is not committed: it may
                                  have written there

Damage may take a marker, and recovery then finds its transaction open. In TV2 each transaction has
its own epoch, so how the last was decided is known here: that marker is written again. In TV1 many
have one epoch, and nobody can say which of them this is: a person ends it, and until then its
producer does not write there. It is the same with an older one. Damage in what is open yet, in TV1,
aborts it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

from appliance._log import Log, ProducerInfo
from appliance.access.kept import Kept, check_name
from appliance.config import KeptConfig, TransactionsConfig
from appliance.errors import ApplianceError, ProducerEpochOld
from appliance.groups.states import GroupRefused
from appliance.machine.wall_clock import WallClock
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import HELD_UP_S, InternalTopic, Record, Write, partition_of
from appliance.topics.topic import OFFSETS, TopicUnavailable
from appliance.txn.markers import Marker, open_transactions, write_markers
from appliance.txn.states import PREPARED, SETTLED, State, TransactionRefused
from appliance.txn.transaction import (
    NEVER_MS,
    NONE,
    TV2,
    Partition,
    Producer,
    Transaction,
)
from appliance.txn.transaction_log import record, replay, tombstone

logger = event_log.named("transactions")

# Threads that append markers and wait for the disk. Each waits for one transaction; the committer
# makes what they wait for durable together.
MARKER_THREADS = 4

PARTITION_BYTES = 100  # of one that a transaction writes to, in memory


class Places(Protocol):
    """Where records and markers go, and where producer ids come from."""

    def transaction_logs(self) -> list[Log]:
        """None at all before the first use. Raises TopicUnavailable while they cannot be read."""
        ...

    async def make_transaction_topic(self) -> Sequence[Log | None]: ...

    def find_log(self, topic: str, partition: int) -> Log | None:
        """None: there is no such partition, or no longer. Raises TopicUnavailable as above."""
        ...

    def all_logs(self) -> Iterable[Log]: ...

    def unserved_partitions(self) -> set[tuple[str, int]]: ...

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
        self.kept = Kept.of_transactions(KeptConfig()) if kept is None else kept
        self.transactions: dict[str, Transaction] = {}
        self.fault = ""  # why no transaction is served, for people
        self._places = places
        self._offsets_loaded = offsets_loaded
        self._end_offsets = end_offsets
        self._clock = clock or WallClock()
        self._wall_ms = self._clock.latest_ms  # of what is written; the earliest is for expiry
        self._topic = InternalTopic(places.make_transaction_topic, config.write_timeout_ms)
        self._threads = ThreadPoolExecutor(MARKER_THREADS, "markers")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._open: set[str] = set()  # Ongoing or Prepare: what the timer looks at
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._marked: dict[str, frozenset[Partition]] = {}  # of ends that are held up
        self._unread: set[tuple[str, int]] = set()  # partitions that nobody could look into yet,
        self._may_be_more: set[str] = set()  # and the ids that may have written there
        self._reading: asyncio.Task[None] | None = None
        self._adopting = asyncio.Lock()  # who decides twice may end what has begun in between
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.TimerHandle] = []
        self._held_up: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._is_whole = True  # every record of a transaction could be read
        # Nobody's, or of one that was not read: by topic, partition and producer id.
        self._hanging: dict[tuple[str, int, int], tuple[Log, ProducerInfo]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._unavailable: TransactionRefused | None = TransactionRefused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "the transaction coordinator has not started"
        )

    # Life

    def start(self) -> None:
        """On the event loop. Transactions are served once the topic is read."""
        self._begin()

    def _begin(self) -> None:
        self._unavailable = TransactionRefused(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactions are being read"
        )
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def loaded(self) -> None:
        if self._loading is not None:
            await self._loading

    async def _load(self) -> None:
        try:
            # What groups have in transactions must be known before one of them ends.
            await self._offsets_loaded()
            logs = self._places.transaction_logs()
        except (GroupRefused, TopicUnavailable) as error:
            self._hold_up(error)
            return
        self.fault = ""
        try:
            found = await asyncio.to_thread(replay, logs)
            for each in found.faults:
                logger.warning("left out while transactions were loaded", what=each)
            for own in found.transactions.values():
                self._hold(own.resumed(self._clock.now_ms(), now_ms()))
            self._unread = self._places.unserved_partitions()
            if self._unread:  # one that wrote there alone is not even known to be open
                self._may_be_more = set(self.transactions)
            self._is_whole = not found.faults
            await asyncio.gather(*[self._end_later(each) for each in self._prepared()])
            self._unread |= await self._adopt([*self._places.all_logs()])
        except ApplianceError as error:
            self.fault = f"transactions cannot be read: {error}"
            self._unavailable = TransactionRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.fault)
            logger.error("no transaction is served", error=error)
            return
        self._unavailable = None
        self._every(self.config.timeout_check_ms, lambda: self.tick(now_ms()))
        self._every(self.config.expiration_check_ms, lambda: self.expire(self._clock.now_ms()))

    def _hold_up(self, error: ApplianceError) -> None:
        self.fault = f"transactions cannot be read yet, none is served: {error}"
        self._unavailable = TransactionRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.fault)
        logger.error("no transaction is served", error=error)
        if not self._is_stopped:
            self._held_up = asyncio.get_running_loop().call_later(HELD_UP_S, self._begin)

    def _prepared(self) -> list[Transaction]:
        found = [self.transactions[each] for each in self._open]
        return [each for each in found if each.state in PREPARED]

    async def _adopt(self, logs: list[Log]) -> set[tuple[str, int]]:
        """Gives what the logs have open to the transactions that it belongs to; what is nobody's
        can never be committed, and is aborted, or readers would wait for it for good. Answers the
        partitions of which that is not decided yet: those are read again."""
        owners = {each.producer.id: each.id for each in self.transactions.values()}
        found = await asyncio.to_thread(lambda: [(log, open_transactions(log)) for log in logs])
        undecided: set[tuple[str, int]] = set()
        for log, producers in found:
            place = Partition(log.topic, log.partition)
            for each in producers:
                own = self.transactions.get(owners.get(each.producer_id, ""))
                if own is not None and own.state in PREPARED:
                    # its markers could not be written yet; where it has none, that comes after it
                    undecided |= set() if place in own.partitions else {place}
                elif each in open_transactions(log):  # else it was ended meanwhile
                    undecided |= await self._give(log, each, own)
        return undecided

    async def _give(
        self, log: Log, found: ProducerInfo, own: Transaction | None
    ) -> set[tuple[str, int]]:
        """As `_adopt`, of one open transaction and the last of the id that it is of."""
        place = Partition(log.topic, log.partition)
        producer = Producer(found.producer_id, found.epoch)
        is_damaged = any(end > found.txn_first_offset for _, end in log.holes())
        facts = {"log": log.name, "producer": found.producer_id, "epoch": found.epoch}
        if is_damaged and own is not None and (is_commit := own.outcome(producer)) is not None:
            logger.warning("a marker that was lost is written again", **facts, is_commit=is_commit)
            return await self._end_there(log, Marker(own.producer, is_commit, self._epoch(own.id)))
        if own is not None and own.producer == producer and place in own.partitions:
            if is_damaged and not own.is_first(producer):
                # Part of it may be an older one, aborted: nobody can commit the one of the two.
                logger.warning("a transaction is aborted: it met damage", **facts)
                self._hold(own.fenced(self._wall_ms()))
                return set()
        elif is_damaged and (own is None or not own.is_first(producer)):
            self._hanging[(*place, found.producer_id)] = (log, found)
            return set()
        if own is not None and own.producer == producer:
            # It began after what its owner did last; of a batch the client tells the time.
            began_ms = min(self._wall_ms(), max(own.changed_ms, found.last_timestamp))
            found_open = own.joined([place], began_ms, now_ms())
            self._hold(found_open.resumed(self._clock.now_ms(), now_ms()))
            return set()
        if self._is_whole:
            return await self._abort_nobodys(log, found)
        self._hanging[(*place, found.producer_id)] = (log, found)
        return set()

    def hanging(self) -> list[tuple[Log, ProducerInfo]]:
        """Open transactions that only a person can end: how they were decided cannot be read."""
        self._hanging = {
            key: (log, each)
            for key, (log, each) in self._hanging.items()
            if each in open_transactions(log)
        }
        return [*self._hanging.values()]

    def _read_served(self) -> None:
        """What could not be opened at the start, and is served now."""
        if not self._unread or (self._reading and not self._reading.done()):
            return
        served = self._unread - self._places.unserved_partitions()
        if served:
            self._reading = self._run(self._read(served))

    async def _read(self, served: set[tuple[str, int]]) -> None:
        logs = [
            each for each in self._places.all_logs() if (each.topic, each.partition) in served
        ]
        async with self._adopting:
            self._unread -= served - await self._adopt([
                each for each in logs if (each.topic, each.partition) in self._unread
            ])  # fmt: skip
        if not self._unread:
            self._may_be_more.clear()

    def opened_anew(self, topic: str, partition: int) -> None:
        """Before anybody can write to it: its log is another than the one that was read."""
        self._unread.add((topic, partition))

    async def read_again(self, log: Log) -> None:
        """What a log has open that was opened anew: damage may have taken markers meanwhile. While
        transactions are being read it waits for the timer."""
        if self._unavailable is None:
            await self._read({(log.topic, log.partition)})

    async def _abort_nobodys(self, log: Log, found: ProducerInfo) -> set[tuple[str, int]]:
        logger.warning(
            "a transaction that nobody can end is aborted",
            log=log.name, producer=found.producer_id, epoch=found.epoch,
        )  # fmt: skip
        producer = Producer(found.producer_id, found.epoch)
        return await self._end_there(log, Marker(producer, False, found.coordinator_epoch))

    async def _end_there(self, log: Log, marker: Marker) -> set[tuple[str, int]]:
        """Answers the partition where that failed: it is tried again."""
        try:
            _raise_first(await self._mark([log], marker))
        except ApplianceError as error:
            logger.error("it could not be ended", log=log.name, error=error)
            return {Partition(log.topic, log.partition)}
        if log.topic == OFFSETS:
            self._end_offsets(marker.producer.id, marker.is_commit)
        return set()

    def stop(self) -> None:
        """Lets nobody in any more."""
        self._unavailable = TransactionRefused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops"
        )
        self._is_stopped = True
        for each in [*self._timers, self._held_up]:
            if each is not None:
                each.cancel()

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loaded()
        self.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
        is_open = [self.transactions[each] for each in self._open]
        # for whoever reads the topic next: what was added in memory alone is in no record yet
        self._run(self._record_all([each for each in is_open if each.state is State.ONGOING]))
        await asyncio.wait(self._tasks)
        await self._topic.close()
        await asyncio.to_thread(self._threads.shutdown)

    async def _record_all(self, transactions: list[Transaction]) -> None:
        await asyncio.gather(*[self._write(each.id, record(each)) for each in transactions])

    # What handlers ask

    def check_loaded(self) -> None:
        if self._unavailable is not None:
            raise self._unavailable

    def find(self, name: str) -> Transaction:
        self.check_loaded()
        if name not in self.transactions:
            raise TransactionRefused(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {name!r}"
            )
        return self.transactions[name]

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
        async with self._turn(name):
            own = self.transactions.get(name)
            if own is None:
                check_name("transactional id", name)
                self.kept.check(name, len(name))
                new = Producer(await self._places.new_producer_id(), 0)
                first = Transaction(name, new, timeout_ms, changed_ms=self._wall_ms())
                return await self._store(first)
            if expected is not None:
                own.check_expected(expected)
            if own.state is State.ONGOING:
                await self._end(own.fenced(self._wall_ms()))
                await self._settled(name)
                own = self.transactions[name]
            new_id = await self._new_id(own)
            return await self._store(own.taken_over(expected, timeout_ms, new_id, self._wall_ms()))

    async def add(self, name: str, producer: Producer, partitions: Iterable[Partition]) -> None:
        """Before they are written to (TV1): on disk when this returns."""
        added = frozenset(partitions)
        for place in added:
            self._check_read(place, producer)
        async with self._turn(name):
            own = self._of(name, producer)
            if not own.has(added):
                self.kept.check(name, PARTITION_BYTES * len(added))
                await self._store(own.joined(added, self._wall_ms(), now_ms()))

    @asynccontextmanager
    async def writing(
        self, name: str, producers: Mapping[Partition, Producer], may_add: bool
    ) -> AsyncIterator[Mapping[Partition, TransactionRefused]]:
        """Held over first writes to partitions. Answers those that may not be written to. Inside,
        the transaction cannot end, so no write comes behind its marker."""
        async with self._turn(name):
            refused: dict[Partition, TransactionRefused] = {}
            added = []
            for place, producer in producers.items():
                try:
                    self._check_read(place, producer)
                    own = self._of(name, producer)
                    own.check_not_ending()
                    if not may_add:
                        own.check_has(place)
                    added.append(place)
                except TransactionRefused as error:
                    refused[place] = error
            if added and not self.transactions[name].has(added):
                self._hold(self.transactions[name].joined(added, self._wall_ms(), now_ms()))
            yield refused

    async def end(self, name: str, producer: Producer, is_commit: bool, version: int) -> Producer:
        """When it returns readers see the outcome. Answers who writes the next transaction."""
        async with self._turn(name):
            own = self._known(name, producer)
            if version >= TV2:
                self._check_whole(own, producer, is_commit)
            if own.is_ended(producer, is_commit, version):
                return own.following
            new_id = await self._new_id(own) if version >= TV2 else NONE
            prepared = own.prepared(is_commit, version, new_id, self._wall_ms())
            await self._end(prepared)
            return prepared.following

    async def mark(self, log: Log, producer: Producer, is_commit: bool, epoch: int) -> None:
        """A marker that somebody else decided on: WriteTxnMarkers."""
        _raise_first(await self._mark([log], Marker(producer, is_commit, epoch)))
        if log.topic == OFFSETS:
            self._end_offsets(producer.id, is_commit)

    def tick(self, now: int) -> None:
        """Aborts what is silent for too long, and goes on with ends that were held up."""
        self._read_served()
        for name in list(self._open):
            own = self.transactions[name]
            if own.is_silent(now):
                self._run(self._abort_silent(name, now))
            elif own.state in PREPARED and name not in self._ending:
                self._end_later(own)

    async def _abort_silent(self, name: str, now: int) -> None:
        async with self._turn(name):
            own = self.transactions[name]
            if own.is_silent(now):
                logger.info("a silent transaction is aborted", transactional_id=name)
                await self._end(own.fenced(self._wall_ms()))

    def expire(self, wall: int) -> None:
        """Forgets ids that nobody used for so long."""
        for own in list(self.transactions.values()):
            if own.is_expired(wall, self.config.expiration_ms):
                self._run(self._expire(own.id, wall))

    async def _expire(self, name: str, wall: int) -> None:
        async with self._turn(name):
            if self.transactions[name].is_expired(wall, self.config.expiration_ms):
                await self._write(name, tombstone(name))
                del self.transactions[name]
                self.kept.drop(name)

    # One id after the other

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        self.check_loaded()
        if not name:
            raise TransactionRefused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        async with self._turns.setdefault(name, asyncio.Lock()):
            await self._settled(name)
            yield

    async def _settled(self, name: str) -> None:
        """After the last end is complete, or held up."""
        if name in self._ending:
            await asyncio.wait([self._ending[name]])

    def _known(self, name: str, producer: Producer) -> Transaction:
        if name not in self.transactions:
            raise TransactionRefused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"there is no transactional id {name!r}; got producer {producer.id}",
            )
        return self.transactions[name]

    def _of(self, name: str, producer: Producer) -> Transaction:
        own = self._known(name, producer)
        own.check_producer(producer)
        return own

    async def _new_id(self, own: Transaction) -> int:
        return await self._places.new_producer_id() if own.is_exhausted else NONE

    # The end of a transaction

    async def _end(self, prepared: Transaction) -> None:
        """Returns when readers see it, or when that is held up: it is decided all the same."""
        await self._store(prepared)
        await self._end_later(prepared)

    def _end_later(self, prepared: Transaction) -> asyncio.Future[None]:
        """What comes behind the Prepare record. The answer is done with the markers."""
        marked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending[prepared.id] = self._run(self._complete(prepared, marked))
        return marked

    async def _complete(self, prepared: Transaction, marked: asyncio.Future[None]) -> None:
        try:
            await self._write_markers(prepared)
            self._end_offsets(prepared.producer.id, prepared.is_commit)
            marked.set_result(None)
            await self._store(prepared.completed(self._wall_ms()))
        except ApplianceError as error:
            facts = {"transactional_id": prepared.id, "state": prepared.state.value}
            logger.warning("a transaction cannot be ended yet", **facts, error=error)
        finally:
            del self._ending[prepared.id]
            if not marked.done():
                marked.set_result(None)

    async def _write_markers(self, prepared: Transaction) -> None:
        """All of them, or it raises. One that is not served keeps none of the others from its
        marker, and those have theirs once, however long it takes."""
        logs: list[Log] = []
        away: list[ApplianceError] = []
        marked = self._marked.pop(prepared.id, frozenset())
        for place in prepared.partitions - marked:
            try:
                log = self._places.find_log(*place)
            except TopicUnavailable as error:
                away.append(error)
                continue
            marked |= {place}
            if log is not None:  # a topic that was deleted needs none
                logs.append(log)
        marker = Marker(prepared.producer, prepared.is_commit, self._epoch(prepared.id))
        failed = await self._mark(logs, marker)
        # where a later epoch wrote, somebody else has ended this transaction
        _raise_first(each for each in failed if not isinstance(each, ProducerEpochOld))
        if away:
            self._marked[prepared.id] = marked
        _raise_first(away)

    def _epoch(self, name: str) -> int:
        """Of this coordinator, as in Kafka: the leader epoch of the partition that has the id. In a
        directory that a Kafka wrote it is no lower than that of the markers there."""
        logs = self._places.transaction_logs()
        return max(0, logs[partition_of(name, len(logs))].leader_epoch)

    # Disk

    async def _mark(self, logs: list[Log], marker: Marker) -> list[ApplianceError]:
        timeout_s = self.config.write_timeout_ms / 1000
        job = partial(write_markers, logs, marker, self._wall_ms(), timeout_s)
        if not logs:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    async def _store(self, transaction: Transaction) -> Producer:
        """It counts once its record is on disk."""
        await self._write(transaction.id, record(transaction))
        self._hold(transaction)
        return transaction.producer

    def _check_whole(self, own: Transaction, producer: Producer, is_commit: bool) -> None:
        """What it wrote to a topic that nobody could look into is aborted there, later, if it ends
        without: an abort may go on, a commit may not."""
        if own.id not in self._may_be_more or producer != own.producer:
            return
        if is_commit or own.state is not State.ONGOING:
            raise TransactionRefused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"transaction {own.id} may have written to partitions that are not served: "
                f"{', '.join(f'{topic}-{number}' for topic, number in sorted(self._unread))}",
            )

    def _check_read(self, place: Partition, producer: Producer) -> None:
        """What it has open, of a transaction that ended while it was not served, must be known
        before the next one writes there: that would end it as its own. So would the next of a
        producer that has one open there which only a person can end."""
        if (*place, producer.id) in self._hanging:
            self._check_hanging(place, producer)
        if place in self._unread:
            raise TransactionRefused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"{place.topic}-{place.partition} was not served, and is not read yet",
            )

    def _check_hanging(self, place: Partition, producer: Producer) -> None:
        self.hanging()  # that forgets what was ended
        if (*place, producer.id) in self._hanging:
            raise TransactionRefused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"a transaction of producer {producer.id} is open in {place.topic}-"
                f"{place.partition}, decided nobody knows how: health says how to end it",
            )

    def _hold(self, transaction: Transaction) -> None:
        if transaction.state is not State.ONGOING:
            self._may_be_more.discard(transaction.id)
        if transaction.state in SETTLED:
            transaction = replace(transaction, due_ms=NEVER_MS)
            self._open.discard(transaction.id)
        else:
            self._open.add(transaction.id)
        self.transactions[transaction.id] = transaction
        places = PARTITION_BYTES * len(transaction.partitions)
        self.kept.put(transaction.id, len(transaction.id) + places)

    async def _write(self, name: str, row: Record) -> None:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ApplianceError | None, _: int) -> None:
            if stored.done():
                return  # who waited for it is gone
            if error is None:
                stored.set_result(None)
            else:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                stored.set_exception(TransactionRefused(code, str(error)))

        self._topic.write(Write(name, [row], self._wall_ms(), done))
        await stored

    # Time

    def _run(self, job: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._told(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _told(self, job: Awaitable[None]) -> None:
        try:
            await job
        except ApplianceError as error:
            logger.warning("put off", error=error)
        except Exception:
            logger.exception("a transaction failed in a way that was not foreseen")

    def _every(self, interval_ms: int, job: Callable[[], None]) -> None:
        slot = len(self._timers)
        loop = asyncio.get_running_loop()

        def ring() -> None:
            self._timers[slot] = loop.call_later(interval_ms / 1000, ring)
            job()

        self._timers.append(loop.call_later(interval_ms / 1000, ring))


def _raise_first(failures: Iterable[ApplianceError]) -> None:
    for each in failures:
        raise each


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
