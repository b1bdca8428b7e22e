"""The records of `__transaction_state`, byte for byte as Kafka 4 writes them, out and back in.

A key is version 0 and the transactional id. A value is version 1, the first that says which
producer ids were before and will be after; version 0 is read. What is not known here, last epochs
and deadlines, is not on disk in Kafka either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as plain_field
from functools import partial
from typing import ClassVar

from appliance._log import Log
from appliance.protocol import MalformedMessage, VersionUnsupported
from appliance.protocol.types import (
    Message,
    Versions,
    array,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
)
from appliance.record import _batch
from appliance.topics.internal_topic import Record, load, load_value, read_all, store
from appliance.txn.states import NUMBERS, State
from appliance.txn.transaction import NONE, TV1, Partition, Producer, Transaction

KEY_VERSION, VALUE_VERSION = 0, 1

_STATES = {number: state for state, number in NUMBERS.items()}


class TransactionLogKey(Message):
    VERSIONS: ClassVar = Versions(0, 0)

    transactional_id: str = field(string)


class TransactionLogValue(Message):
    VERSIONS: ClassVar = Versions(0, 1, flexible_from=1)

    class PartitionsSchema(Message):
        topic: str = field(string)
        partition_ids: list[int] = field(array(int32))

    producer_id: int = field(int64)
    previous_producer_id: int = field(int64, "1+", default=NONE, tag=0)
    next_producer_id: int = field(int64, "1+", default=NONE, tag=1)
    producer_epoch: int = field(int16)
    transaction_timeout_ms: int = field(int32)
    transaction_status: int = field(int8)
    transaction_partitions: list[PartitionsSchema] | None = field(
        array(PartitionsSchema), nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = field(int64)
    transaction_start_timestamp_ms: int = field(int64)
    client_transaction_version: int = field(int16, "1+", default=0, tag=2)


# Out


def record(transaction: Transaction) -> Record:
    value = TransactionLogValue(
        producer_id=transaction.producer.id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=NUMBERS[transaction.state],
        transaction_partitions=_rows(transaction),
        transaction_last_update_timestamp_ms=transaction.changed_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return Record(_key(transaction.id), store(value, VALUE_VERSION))


def tombstone(transactional_id: str) -> Record:
    return Record(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return store(TransactionLogKey(transactional_id), KEY_VERSION)


def _rows(transaction: Transaction) -> list[TransactionLogValue.PartitionsSchema] | None:
    if transaction.state is State.EMPTY:
        return None
    by_topic: dict[str, list[int]] = {}
    for each in sorted(transaction.partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    return [TransactionLogValue.PartitionsSchema(*row) for row in by_topic.items()]


# Back in


@dataclass
class ReplayedTransactions:
    transactions: dict[str, Transaction] = plain_field(default_factory=dict)
    faults: list[str] = plain_field(default_factory=list)


def replay(logs: Iterable[Log]) -> ReplayedTransactions:
    """The last record of each id counts. One that cannot be read is told, and keeps no other id
    from its transactions."""
    replayed = ReplayedTransactions()
    for log in logs:
        latest: dict[bytes, bytes | None] = {}
        read_all(log, partial(_take, latest), partial(_fault, replayed, log))
        for key, value in latest.items():
            if value is not None:
                _read(log.name, key, value, replayed)
    return replayed


def _take(latest: dict[bytes, bytes | None], data: bytes) -> None:
    latest.update({each.key: each.value for each in _batch.records(data) if each.key is not None})


def _fault(replayed: ReplayedTransactions, log: Log, text: str) -> None:
    replayed.faults.append(f"{log.name}: {text}")


def _read(log: str, key: bytes, value: bytes, replayed: ReplayedTransactions) -> None:
    try:
        name = load(TransactionLogKey, key).transactional_id
        replayed.transactions[name] = _transaction(name, load_value(TransactionLogValue, value))
    except (MalformedMessage, VersionUnsupported) as error:
        replayed.faults.append(f"{log}: the record of key {key!r} cannot be read: {error}")


def _transaction(name: str, value: TransactionLogValue) -> Transaction:
    if value.transaction_status not in _STATES:
        raise MalformedMessage(f"got status {value.transaction_status}, wanted 0 to {len(_STATES)}")
    return Transaction(
        id=name,
        producer=Producer(value.producer_id, value.producer_epoch),
        timeout_ms=value.transaction_timeout_ms,
        state=_STATES[value.transaction_status],
        partitions=frozenset(
            Partition(row.topic, each)
            for row in value.transaction_partitions or ()
            for each in row.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        start_ms=value.transaction_start_timestamp_ms,
        changed_ms=value.transaction_last_update_timestamp_ms,
        client_version=max(value.client_transaction_version, TV1),
    )
