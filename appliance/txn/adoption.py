"""What logs have open of transactions, and whose it is: at a start, and when a log is opened anew.

Partitions that a client added before it wrote are recorded durably (TV1). Those that its first
write adds (TV2) are not: what is on disk of that write says it as well, and is read here.

A partition that cannot be opened may hold any of this, and may be served at any time (`topics.py`):

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
from collections.abc import Iterable
from typing import Protocol

from appliance._log import Log
from appliance.errors import ApplianceError
from appliance.machine.believed_time import WallClock
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.storage._log_description import ProducerInfo
from appliance.txn.markers import Marker, Markers, open_transactions
from appliance.txn.states import PREPARED, State, TransactionRefused
from appliance.txn.transaction import Partition, Producer, Transaction
from appliance.txn.transaction_table import TransactionTable

logger = event_log.named("transactions")

Unread = set[tuple[str, int]]  # topics and partitions


class Logs(Protocol):
    def all_logs(self) -> Iterable[Log]:
        """Of the partitions that are served."""
        ...

    def unserved_partitions(self) -> Unread: ...


class Adoption:
    def __init__(
        self, table: TransactionTable, logs: Logs, markers: Markers, clock: WallClock
    ) -> None:
        self._table = table
        self._logs = logs
        self._markers = markers
        self._clock = clock
        self.unread: Unread = set()  # partitions that nobody could look into yet
        self._reading = asyncio.Lock()  # who decides twice may end what has begun in between
        self._is_whole = True  # every record of a transaction could be read
        # Nobody's, or of one that was not read: by topic, partition and producer id.
        self._hanging: dict[tuple[str, int, int], tuple[Log, ProducerInfo]] = {}

    # Reading

    def begin(self, is_whole: bool) -> None:
        """Transactions are held as their records have them."""
        table = self._table
        self.unread = self._logs.unserved_partitions()
        if self.unread:  # one that wrote there alone is not even known to be open
            table.may_be_more = set(table.transactions)
        self._is_whole = is_whole

    async def adopt_all(self) -> None:
        self.unread |= await self._adopt([*self._logs.all_logs()])

    async def read_served(self) -> None:
        """What could not be opened at the start, and is served now."""
        if self._reading.locked():
            return
        served = self.unread - self._logs.unserved_partitions()
        if served:
            await self.read(served)

    async def read(self, served: Unread) -> None:
        logs = [each for each in self._logs.all_logs() if (each.topic, each.partition) in served]
        async with self._reading:
            self.unread -= served - await self._adopt([
                each for each in logs if (each.topic, each.partition) in self.unread
            ])  # fmt: skip
        if not self.unread:
            self._table.may_be_more.clear()

    async def _adopt(self, logs: list[Log]) -> Unread:
        """Gives what the logs have open to the transactions that it belongs to; what is nobody's
        can never be committed, and is aborted, or readers would wait for it for good. Answers the
        partitions of which that is not decided yet: those are read again."""
        table = self._table
        owners = {each.producer.id: each.id for each in table.transactions.values()}
        read = await asyncio.to_thread(lambda: [(log, open_transactions(log)) for log in logs])
        undecided: Unread = set()
        for log, producers in read:
            place = Partition(log.topic, log.partition)
            for each in producers:
                own = table.transactions.get(owners.get(each.producer_id, ""))
                if own is not None and own.state in PREPARED:
                    # its markers could not be written yet; where it has none, that comes after it
                    undecided |= set() if place in own.partitions else {place}
                elif each in open_transactions(log):  # else it was ended meanwhile
                    undecided |= await self._give(log, each, own)
        return undecided

    async def _give(self, log: Log, info: ProducerInfo, own: Transaction | None) -> Unread:
        """As `_adopt`, of one open transaction and the last of the id that it is of."""
        place = Partition(log.topic, log.partition)
        producer = Producer(info.producer_id, info.epoch)
        is_damaged = any(end > info.txn_first_offset for _, end in log.holes())
        facts = {"log": log.name, "producer": info.producer_id, "epoch": info.epoch}
        if is_damaged and own is not None and (is_commit := own.outcome(producer)) is not None:
            logger.warning("a marker that was lost is written again", **facts, is_commit=is_commit)
            epoch = self._table.coordinator_epoch(own.id)
            return await self._end(log, Marker(own.producer, is_commit, epoch))
        if own is not None and own.producer == producer and place in own.partitions:
            if is_damaged and not own.is_first(producer):
                # Part of it may be an older one, aborted: nobody can commit the one of the two.
                logger.warning("a transaction is aborted: it met damage", **facts)
                self._table.hold(own.fenced(self._clock.latest_ms()))
                return set()
        elif is_damaged and (own is None or not own.is_first(producer)):
            self._hanging[(*place, info.producer_id)] = (log, info)
            return set()
        if own is not None and own.producer == producer:
            # It began after what its owner did last; of a batch the client tells the time.
            began_ms = min(self._clock.latest_ms(), max(own.changed_ms, info.last_timestamp))
            found_open = own.joined([place], began_ms, now_ms())
            self._table.hold(found_open.resumed(self._clock.now_ms(), now_ms()))
            return set()
        if self._is_whole:
            logger.warning("a transaction that nobody can end is aborted", **facts)
            return await self._end(log, Marker(producer, False, info.coordinator_epoch))
        self._hanging[(*place, info.producer_id)] = (log, info)
        return set()

    async def _end(self, log: Log, marker: Marker) -> Unread:
        """Answers the partition where that failed: it is tried again."""
        try:
            await self._markers.end(log, marker)
        except ApplianceError as error:
            logger.error("it could not be ended", log=log.name, error=error)
            return {Partition(log.topic, log.partition)}
        return set()

    def hanging(self) -> list[tuple[Log, ProducerInfo]]:
        """Open transactions that only a person can end: how they were decided cannot be read."""
        self._hanging = {
            key: (log, each)
            for key, (log, each) in self._hanging.items()
            if each in open_transactions(log)
        }
        return [*self._hanging.values()]

    # Who may write, or commit

    def check_whole(self, own: Transaction, producer: Producer, is_commit: bool) -> None:
        """What it wrote to a topic that nobody could look into is aborted there, later, if it ends
        without: an abort may go on, a commit may not."""
        if own.id not in self._table.may_be_more or producer != own.producer:
            return
        if is_commit or own.state is not State.ONGOING:
            raise TransactionRefused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"transaction {own.id} may have written to partitions that are not served: "
                f"{', '.join(f'{topic}-{number}' for topic, number in sorted(self.unread))}",
            )

    def check_read(self, place: Partition, producer: Producer) -> None:
        """What it has open, of a transaction that ended while it was not served, must be known
        before the next one writes there: that would end it as its own. So would the next of a
        producer that has one open there which only a person can end."""
        if (*place, producer.id) in self._hanging:
            self._check_hanging(place, producer)
        if place in self.unread:
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


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
