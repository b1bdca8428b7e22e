"""All transactional ids: as they are in memory, and their records in `__transaction_state`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from appliance._log import Log
from appliance.access.kept_per_address import Kept
from appliance.errors import ApplianceError
from appliance.process.detached_tasks import settle
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import InternalTopic, Record, Write, partition_of
from appliance.txn.states import PREPARED, SETTLED, State, TransactionRefused
from appliance.txn.transaction import NEVER_MS, Producer, Transaction
from appliance.txn.transaction_log import record, tombstone

PARTITION_BYTES = 100  # of one that a transaction writes to, in memory


class TransactionTopic(Protocol):
    def transaction_logs(self) -> list[Log]:
        """None at all before the first use. Raises TopicUnavailable while they cannot be read."""
        ...

    async def make_transaction_topic(self) -> Sequence[Log | None]: ...


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
        partitions = PARTITION_BYTES * len(transaction.partitions)
        self._kept.put(transaction.id, len(transaction.id) + partitions)

    def check_room(self, name: str, more_partitions: int = 0) -> None:
        """Before an id is made, or a transaction of it gets so many partitions more."""
        is_new = name not in self.transactions
        self._kept.check(name, PARTITION_BYTES * more_partitions + is_new * len(name))

    async def store(self, transaction: Transaction) -> Producer:
        """It counts once its record is on disk."""
        await self._write(transaction.id, record(transaction))
        self.hold(transaction)
        return transaction.producer

    async def forget(self, name: str) -> None:
        await self._write(name, tombstone(name))
        del self.transactions[name]
        self._kept.drop(name)

    async def _write(self, name: str, row: Record) -> None:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ApplianceError | None, _: int) -> None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            settle(stored, error and TransactionRefused(code, str(error)))

        self._topic.write(Write(name, [row], self._wall_ms(), done))
        await stored

    def coordinator_epoch(self, name: str) -> int:
        """As in Kafka: the leader epoch of the partition that has the id. In a directory that a
        Kafka wrote it is no lower than that of the markers there."""
        logs = self._topics.transaction_logs()
        return max(0, logs[partition_of(name, len(logs))].leader_epoch)

    async def record_ongoing(self) -> None:
        """For whoever reads the topic next: what was added in memory alone is in no record yet."""
        transactions = map(self.transactions.__getitem__, self.open)
        ongoing = [each for each in transactions if each.state is State.ONGOING]
        await asyncio.gather(*[self._write(each.id, record(each)) for each in ongoing])

    async def close(self) -> None:
        await self._topic.close()
