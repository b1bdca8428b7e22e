"""All transactional ids: as they are in memory, and their records in `__transaction_state`.

In a cluster those of the partitions that this broker leads. What is read in one term of a partition
is written in that term alone: a coordinator that was deposed can decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from appliance._log import Log
from appliance.access.kept_per_address import Kept
from appliance.errors import ApplianceError, LeaderEpochOld, NotLeader
from appliance.process import event_log
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import InternalTopic, Record, Write, partition_of
from appliance.topics.led_partitions import LedPartitions, Term
from appliance.topics.topic import TRANSACTIONS, Topic
from appliance.txn.states import PREPARED, SETTLED, State, TransactionRefused
from appliance.txn.transaction import NEVER_MS, NONE, Producer, Transaction
from appliance.txn.transaction_log import ReplayedTransactions, record, replay, tombstone

logger = event_log.named("transactions")

PARTITION_BYTES = 100  # of one that a transaction writes to, in memory


class TransactionTopic(Protocol):
    def transaction_logs(self) -> list[Log]:
        """None at all before the first use. Raises TopicUnavailable while they cannot be read."""
        ...

    async def make_transaction_topic(self) -> Sequence[Log | None]: ...

    @property
    def is_in_cluster(self) -> bool: ...

    def transaction_topic(self) -> Topic | None:
        """None before the first use."""
        ...


class LedTransactions:
    """The topic, for `LedPartitions`."""

    def __init__(self, topics: TransactionTopic) -> None:
        self.topic = topics.transaction_topic
        self.make = topics.make_transaction_topic


class TransactionTable:
    def __init__(
        self, topics: TransactionTopic, timeout_ms: int, wall_ms: Callable[[], int], kept: Kept
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.open: set[str] = set()  # Ongoing or Prepare: what the timer looks at
        # Ids that may have written to partitions that nobody could look into yet.
        self.may_be_more: set[str] = set()
        self._topics = topics
        self._topic = InternalTopic(topics.make_transaction_topic, timeout_ms)
        self._wall_ms = wall_ms
        self._kept = kept
        self.led: LedPartitions[ReplayedTransactions] = LedPartitions(
            TRANSACTIONS, LedTransactions(topics), timeout_ms, lambda log: replay([log]),
            self._take, self._drop, logger,
        )  # fmt: skip
        # what was read of a partition that is led here
        self.on_read: Callable[[Term, ReplayedTransactions], None] = lambda term, replayed: None
        self.on_dropped: Callable[[str], None] = lambda name: None

    # In a cluster

    @property
    def is_in_cluster(self) -> bool:
        return self._topics.is_in_cluster

    def _take(self, term: Term, replayed: ReplayedTransactions) -> None:
        self.on_read(term, replayed)

    def _drop(self, term: Term) -> None:
        for name in term.owners:
            self.transactions.pop(name, None)
            self.open.discard(name)
            self._kept.drop(name)
            self.on_dropped(name)

    def check_led(self, name: str) -> None:
        """That no other broker is its coordinator, and what there is of it is known."""
        if not self._topics.is_in_cluster:
            return
        term = self.led.term_of(name)
        if term is None:
            raise not_here(name)
        if term.fault:
            code, why = ErrorCode.COORDINATOR_NOT_AVAILABLE, term.fault
            raise TransactionRefused(code, f"transactional id {name}: {why}")
        if not term.is_read:
            raise TransactionRefused(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"transactional id {name}: {TRANSACTIONS}-{term.partition} is led here, and is "
                "being read",
            )

    async def place_of(self, name: str) -> int:
        """The partition where its records stand; the topic is made for who asks first."""
        try:
            return partition_of(name, len(await self._topics.make_transaction_topic()))
        except ApplianceError as error:  # it cannot be made now, or is not served
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise TransactionRefused(code, str(error)) from error

    def term_epoch(self, name: str) -> int:
        """For an id that is made now."""
        term = self.led.term_of(name) if self._topics.is_in_cluster else None
        return NONE if term is None else term.epoch

    def is_of_term(self, transaction: Transaction) -> bool:
        """Whether it may still be written, and is what was read."""
        return not self._topics.is_in_cluster or self._term(transaction) is not None

    def _term(self, transaction: Transaction) -> Term | None:
        term = self.led.term_of(transaction.id)
        return term if term is not None and term.epoch == transaction.term_epoch else None

    # Asked

    def prepared(self) -> list[Transaction]:
        transactions = map(self.transactions.__getitem__, self.open)
        return [each for each in transactions if each.state in PREPARED]

    def find(self, name: str) -> Transaction:
        if name not in self.transactions:
            raise TransactionRefused(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {name!r}"
            )
        return self.transactions[name]

    def of_producer(self, name: str, producer: Producer) -> Transaction:
        if name not in self.transactions:
            raise TransactionRefused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"there is no transactional id {name!r}; got producer {producer.id}",
            )
        return self.transactions[name]

    def hold(self, transaction: Transaction) -> None:
        """In memory alone."""
        if transaction.state is not State.ONGOING:
            self.may_be_more.discard(transaction.id)
        if transaction.state in SETTLED:
            transaction = replace(transaction, due_ms=NEVER_MS)
            self.open.discard(transaction.id)
        else:
            self.open.add(transaction.id)
        self.transactions[transaction.id] = transaction
        if transaction.term_epoch != NONE and (term := self._term(transaction)) is not None:
            term.owners.add(transaction.id)
        partitions = PARTITION_BYTES * len(transaction.partitions)
        self._kept.put(transaction.id, len(transaction.id) + partitions)

    def check_room(self, name: str, more_partitions: int = 0) -> None:
        """Before an id is made, or a transaction of it gets so many partitions more."""
        is_new = name not in self.transactions
        self._kept.check(name, PARTITION_BYTES * more_partitions + is_new * len(name))

    async def store(self, transaction: Transaction) -> Producer:
        """It counts once its record is on disk."""
        await self._write(transaction, record(transaction))
        self.hold(transaction)
        return transaction.producer

    async def forget(self, transaction: Transaction) -> None:
        name = transaction.id
        await self._write(transaction, tombstone(name))
        del self.transactions[name]
        self._kept.drop(name)
        if (term := self._term(transaction)) is not None:
            term.owners.discard(name)

    async def _write(self, transaction: Transaction, row: Record) -> None:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ApplianceError | None, _: int) -> None:
            settle(stored, error and refusal(transaction.id, error))

        name, now_ms = transaction.id, self._wall_ms()
        if not self._topics.is_in_cluster:
            self._topic.write(Write(name, [row], now_ms, done))
            await stored
            return
        term = self._term(transaction)
        if term is None:
            raise not_here(name)
        self.led.write(term, name, [row], now_ms, done)
        await stored
        if term.over.is_set():  # it is on disk, for who reads it next
            raise not_here(name)

    def coordinator_epoch(self, name: str) -> int:
        """As in Kafka: the leader epoch of the partition that has the id. In a directory that a
        Kafka wrote it is no lower than that of the markers there. Of one box: in a cluster it is
        that of the term in which the transaction was read."""
        logs = self._topics.transaction_logs()
        return max(0, logs[partition_of(name, len(logs))].leader_epoch)

    async def record_ongoing(self) -> None:
        """For whoever reads the topic next: what was added in memory alone is in no record yet."""
        transactions = map(self.transactions.__getitem__, self.open)
        ongoing = [each for each in transactions if each.state is State.ONGOING]
        await asyncio.gather(*[self._write(each, record(each)) for each in ongoing])

    async def close(self) -> None:
        await self._topic.close()
        await self.led.close()


def not_here(name: str) -> TransactionRefused:
    return TransactionRefused(
        ErrorCode.NOT_COORDINATOR, f"transactional id {name} is another broker's"
    )


def refusal(name: str, error: ApplianceError) -> TransactionRefused:
    """In words that clients of a coordinator know."""
    if isinstance(error, (NotLeader, LeaderEpochOld)):
        return not_here(name)
    return TransactionRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
