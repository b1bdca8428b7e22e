"""Who writes to a topic over REST: the idempotent and transactional producers that its partitions
remember, and the transactions of it that are open.

Partitions remember a producer by its id, for `producer.id.expiration.ms` after its last batch.
Producers that are not idempotent have no id and are not remembered. The name of a transaction is
its coordinator's, which in a cluster may be another broker: such a transaction has no name here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from appliance._log import Log
from appliance.access.acls import Operation, ResourceType
from appliance.admin.rights import DESCRIBE_TOPIC
from appliance.admin.route import Call, Param, get
from appliance.admin.topic_lookup import topic_of
from appliance.errors import ApplianceError
from appliance.storage._log_description import ProducerInfo
from appliance.txn.transaction import Transaction

TURN_IDS = 5000  # transactional ids looked at between two turns of the event loop


class ProducerRow(TypedDict):
    producer_id: int
    epoch: int
    transactional_id: str | None  # None: it has none, or another broker or rules keep it
    partitions: list[int]  # that remember it
    last_write_ms: int | None
    in_transaction: bool


class OpenPartition(TypedDict):
    partition: int
    first_offset: int | None  # None: added, and nothing is written yet
    held_records: int  # from there on, which readers of committed records do not get yet


class OpenTransaction(TypedDict):
    producer_id: int
    epoch: int
    transactional_id: str | None
    state: str  # Kafka's names; "" where another broker is the coordinator
    started_ms: int | None
    timeout_ms: int | None
    partitions: list[OpenPartition]  # of this topic


class TopicProducers(TypedDict):
    total: int  # before `limit`
    producers: list[ProducerRow]  # who wrote last is first
    transactions: list[OpenTransaction]  # the oldest first
    is_complete: bool  # false: partitions are on other brokers alone, or not open


Owners = Mapping[int, Transaction]  # by producer id


@dataclass
class Seen:
    """One producer id, in all partitions of the topic."""

    epoch: int = -1
    last_ms: int = -1
    partitions: list[int] = field(default_factory=list)
    open: dict[int, OpenPartition] = field(default_factory=dict)

    def add(self, log: Log, info: ProducerInfo) -> None:
        self.epoch = max(self.epoch, info.epoch)
        self.last_ms = max(self.last_ms, info.last_timestamp)
        self.partitions.append(log.partition)
        if info.txn_first_offset >= 0:
            held = max(0, log.high_watermark - info.txn_first_offset)
            self.open[log.partition] = {"partition": log.partition, "held_records": held,
                                        "first_offset": info.txn_first_offset}  # fmt: skip


async def list_producers(call: Call) -> TopicProducers:
    topic = topic_of(call)
    logs = topic.open_logs
    seen = await asyncio.to_thread(look, logs)
    owners = await owners_of(call, topic.name, seen)
    last_first = sorted(seen, key=lambda each: (-seen[each].last_ms, each))
    return {
        "total": len(seen),
        "producers": [
            producer_row(call, each, seen[each], owners.get(each))
            for each in last_first[: call.params["limit"]]
        ],
        "transactions": open_transactions(call, topic.name, seen, owners),
        "is_complete": len(logs) == len(topic.logs),
    }


def look(logs: Iterable[Log]) -> dict[int, Seen]:
    """On a thread: a partition may remember very many."""
    found: dict[int, Seen] = {}
    for log in logs:
        try:
            for info in log.producers():
                found.setdefault(info.producer_id, Seen()).add(log, info)
        except ApplianceError:
            continue  # it is closed meanwhile, or has failed, which health tells
    return found


async def owners_of(call: Call, topic: str, seen: Mapping[int, Seen]) -> Owners:
    """Of producers that wrote here, or are about to."""
    table, found = call.broker.transactions.table, {}
    for number, name in enumerate(list(table.transactions)):
        each = table.transactions.get(name)
        if each is not None and (each.producer.id in seen or is_about_to(each, topic)):
            found[each.producer.id] = each
        if number % TURN_IDS == TURN_IDS - 1:
            await asyncio.sleep(0)
    return found


def is_about_to(transaction: Transaction, topic: str) -> bool:
    return any(each.topic == topic for each in transaction.partitions)


def told(call: Call, transaction: Transaction | None) -> str | None:
    """Its name, to who may know it."""
    if transaction is None:
        return None
    kind = ResourceType.TRANSACTIONAL_ID
    may = call.rights.may(Operation.DESCRIBE, kind, transaction.id)
    return transaction.id if may else None


def producer_row(
    call: Call, producer_id: int, seen: Seen, owner: Transaction | None
) -> ProducerRow:
    return {
        "producer_id": producer_id,
        "epoch": seen.epoch,
        "transactional_id": told(call, owner),
        "partitions": sorted(seen.partitions),
        "last_write_ms": seen.last_ms if seen.last_ms >= 0 else None,
        "in_transaction": bool(seen.open),
    }


def open_transactions(
    call: Call, topic: str, seen: Mapping[int, Seen], owners: Owners
) -> list[OpenTransaction]:
    rows = []
    for producer_id in {*seen, *owners}:
        own, owner = seen.get(producer_id, Seen()), owners.get(producer_id)
        places = owner.partitions if owner else ()  # none of a transaction that has ended
        added = [each.partition for each in places if each.topic == topic]
        parts = {each: nothing_of(each) for each in added} | own.open
        if parts:
            rows.append(transaction_row(call, producer_id, own, owner, parts))
    return sorted(rows, key=lambda row: (row["started_ms"] or 0, row["producer_id"]))


def nothing_of(partition: int) -> OpenPartition:
    return {"partition": partition, "first_offset": None, "held_records": 0}


def transaction_row(
    call: Call, producer_id: int, seen: Seen, owner: Transaction | None,
    parts: dict[int, OpenPartition],
) -> OpenTransaction:  # fmt: skip
    return {
        "producer_id": producer_id,
        "epoch": owner.producer.epoch if owner else seen.epoch,
        "transactional_id": told(call, owner),
        "state": owner.state.value if owner else "",
        "started_ms": owner.start_ms if owner and owner.start_ms >= 0 else None,
        "timeout_ms": owner.timeout_ms if owner else None,
        "partitions": [parts[each] for each in sorted(parts)],
    }


ROUTES = [
    get(
        "/topics/{topic}/producers",
        list_producers,
        TopicProducers,
        "Producers that the topic remembers, and its open transactions.",
        params=(Param("limit", int, "Largest number of producers.", 1000, minimum=1,
                      maximum=10_000),),
        rights=(DESCRIBE_TOPIC,),
        asks="names of transactions only with DESCRIBE",
    ),
]
