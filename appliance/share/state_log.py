"""The records of `__share_group_state`, byte for byte as Kafka 4.3 writes them, out and back in.

A key is a version, which says what the record is, and the share partition: group, topic id,
partition. A snapshot (key version 0) is all that is known of it; an update (key version 1) is what
changed since, on top of the snapshot before it; a snapshot without a value means that it is no
more. Many updates have one key and all of them count, so the topic cannot be compacted by key:
what stands before every share partition's last snapshot is deleted instead, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as plain_field
from functools import partial
from typing import ClassVar, NamedTuple
from uuid import UUID

from appliance._log import Log
from appliance.catalog import kafka_uuid
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
    uuid,
)
from appliance.record import _batch
from appliance.record._records import Record as FoundRecord
from appliance.share.partition import SharePartition
from appliance.share.runs import StateBatch
from appliance.share.session import TopicPartition
from appliance.share.states import RecordState
from appliance.topics.internal_topic import VERSION, Record, load, load_value, read_all, store

SNAPSHOT, UPDATE = 0, 1
VALUE_VERSION = 0
KEPT = frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class SharePartitionKey(NamedTuple):
    """A share partition."""

    group: str
    topic_id: UUID
    partition: int

    @property
    def owner(self) -> str:
        """By which Kafka chooses the partition of the topic."""
        return f"{self.group}:{kafka_uuid.text_of(self.topic_id)}:{self.partition}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic_id, self.partition)


class ShareSnapshotKey(Message):
    VERSIONS: ClassVar = Versions(0, 1)  # those of updates have the same fields

    group_id: str = field(string)
    topic_id: UUID = field(uuid)
    partition: int = field(int32)


class StoredBatch(Message):
    VERSIONS: ClassVar = Versions(0, 0, flexible_from=0)

    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_state: int = field(int8)
    delivery_count: int = field(int16)


class ShareSnapshotValue(Message):
    VERSIONS: ClassVar = Versions(0, 0, flexible_from=0)

    snapshot_epoch: int = field(int32)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, default=-1, tag=0)
    create_timestamp: int = field(int64)
    write_timestamp: int = field(int64)
    state_batches: list[StoredBatch] = field(array(StoredBatch))


class ShareUpdateValue(Message):
    VERSIONS: ClassVar = Versions(0, 0, flexible_from=0)

    snapshot_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, default=-1, tag=0)
    state_batches: list[StoredBatch] = field(array(StoredBatch))


@dataclass
class Stored:
    """What the topic says of one share partition."""

    partition: SharePartition
    state_epoch: int = 0
    leader_epoch: int = 0
    snapshot_epoch: int = 0
    snapshot_offset: int = -1  # where the last snapshot stands
    snapshot_ms: int = 0
    updates: int = 0  # since then
    must_snapshot: bool = False  # with the next change


# Out


def snapshot(
    key: SharePartitionKey, own: Stored, batches: Iterable[StateBatch], now_ms: int
) -> Record:
    value = ShareSnapshotValue(
        snapshot_epoch=own.snapshot_epoch,
        state_epoch=own.state_epoch,
        leader_epoch=own.leader_epoch,
        start_offset=own.partition.start_offset,
        delivery_complete_count=own.partition.delivery_complete_count,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=_rows(batches),
    )
    return Record(_key(key, SNAPSHOT), store(value, VALUE_VERSION))


def update(key: SharePartitionKey, own: Stored, batches: Iterable[StateBatch]) -> Record:
    value = ShareUpdateValue(
        snapshot_epoch=own.snapshot_epoch,
        leader_epoch=own.leader_epoch,
        start_offset=own.partition.start_offset,
        delivery_complete_count=own.partition.delivery_complete_count,
        state_batches=_rows(batches),
    )
    return Record(_key(key, UPDATE), store(value, VALUE_VERSION))


def tombstone(key: SharePartitionKey) -> Record:
    return Record(_key(key, SNAPSHOT), None)


def _key(key: SharePartitionKey, kind: int) -> bytes:
    return store(ShareSnapshotKey(*key), kind)


def _rows(batches: Iterable[StateBatch]) -> list[StoredBatch]:
    return [StoredBatch(*each) for each in batches]


# Back in


@dataclass
class ReplayedShares:
    stored: dict[SharePartitionKey, Stored] = plain_field(default_factory=dict)
    faults: list[str] = plain_field(default_factory=list)


def replay(logs: Iterable[Log]) -> ReplayedShares:
    """A record that cannot be read is told, and costs its share partition what it said."""
    replayed = ReplayedShares()
    for log in logs:
        read_all(log, partial(_take, replayed, log), partial(_fault, replayed, log))
    return replayed


def _fault(replayed: ReplayedShares, log: Log, text: str) -> None:
    replayed.faults.append(f"{log.name}: {text}")


def _take(replayed: ReplayedShares, log: Log, data: bytes) -> None:
    for each in _batch.records(data):
        try:
            _take_record(replayed, each)
        except (MalformedMessage, VersionUnsupported) as error:
            _fault(replayed, log, f"record {each.offset} cannot be read: {error}")


def _take_record(replayed: ReplayedShares, record: FoundRecord) -> None:
    stored_key = record.key or b""
    fields = load(ShareSnapshotKey, stored_key)
    key = SharePartitionKey(fields.group_id, fields.topic_id, fields.partition)
    (kind,) = VERSION.unpack_from(stored_key)
    if record.value is None:
        replayed.stored.pop(key, None)
    elif kind == SNAPSHOT:
        value = load_value(ShareSnapshotValue, record.value)
        own = Stored(
            SharePartition(value.start_offset),
            value.state_epoch,
            value.leader_epoch,
            value.snapshot_epoch,
            record.offset,
            value.write_timestamp,
        )
        own.partition.restore(value.start_offset, _batches(value.state_batches))
        replayed.stored[key] = own
    else:
        _take_update(replayed, key, load_value(ShareUpdateValue, record.value))


def _take_update(replayed: ReplayedShares, key: SharePartitionKey, value: ShareUpdateValue) -> None:
    own = replayed.stored.get(key)
    if own is None:
        raise MalformedMessage(f"an update of {key.owner}, of which there is no snapshot")
    own.partition.restore(value.start_offset, _batches(value.state_batches))
    own.leader_epoch = max(own.leader_epoch, value.leader_epoch)
    own.updates += 1


def _batches(rows: Iterable[StoredBatch]) -> list[StateBatch]:
    return [_batch_of(each) for each in rows]


def _batch_of(row: StoredBatch) -> StateBatch:
    if row.delivery_state not in KEPT:
        raise MalformedMessage(
            f"offsets {row.first_offset} to {row.last_offset}: got state {row.delivery_state}, "
            f"wanted one of {sorted(map(int, KEPT))}"
        )
    state = RecordState(row.delivery_state)
    return StateBatch(row.first_offset, row.last_offset, state, row.delivery_count)
