"""The records of `__consumer_offsets`, byte for byte as Kafka 4 writes them.

A key or a value is a version, int16, and then the fields of that version as in the protocol. The
version of a key says what the record is about:

    0, 1  a committed offset      key: group, topic, partition
    2     a classic group         key: group
    3-8   a group of the newer protocol (KIP-848): `consumer_records.py`
    9-15  a share group (KIP-932): `share_records.py`
    16    a pattern of topics of a group of the newer protocol
    17-23 a group of Kafka Streams (KIP-1071): `streams/records.py`

Written are key versions 1 and 2 and value version 3; offsets that carry their own expiry have value
version 1, the only one with a place for it. A record without a value is a tombstone.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import ClassVar, NamedTuple

from appliance.protocol.types import Message, Versions, array, data, field, int32, int64, string
from appliance.topics.internal_topic import Record, load_value, store

OFFSET_KEYS = (0, 1)
OFFSET_KEY, GROUP_KEY = 1, 2
OFFSET_VALUE, OFFSET_VALUE_WITH_EXPIRY, GROUP_VALUE = 3, 1, 3
PLAIN_OFFSET = struct.Struct(">hqihq")  # version 3 without metadata, with its version before it
PARTITION_SIZE = 4  # at the end of an offset's key
KEYS_MAX = 1 << 14  # keys that are remembered: a consumer commits the same places all day
NEVER = -1  # an offset that expires by the broker's setting alone


class OffsetCommitKey(Message):
    VERSIONS: ClassVar = Versions(0, 1)

    group: str = field(string)
    topic: str = field(string)
    partition: int = field(int32)


class OffsetCommitValue(Message):
    VERSIONS: ClassVar = Versions(0, 4, flexible_from=4)

    offset: int = field(int64)
    leader_epoch: int = field(int32, "3+", default=-1)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    expire_timestamp: int = field(int64, "1", default=NEVER)


class GroupMetadataKey(Message):
    VERSIONS: ClassVar = Versions(2, 2)

    group: str = field(string)


class GroupMetadataValue(Message):
    VERSIONS: ClassVar = Versions(0, 4, flexible_from=4)

    class MemberMetadata(Message):
        member_id: str = field(string)
        group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
        client_id: str = field(string)
        client_host: str = field(string)
        rebalance_timeout: int = field(int32, "1+", default=-1)
        session_timeout: int = field(int32)
        subscription: bytes = field(data)
        assignment: bytes = field(data)

    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable="0+")
    leader: str | None = field(string, nullable="0+")
    current_state_timestamp: int = field(int64, "2+", default=-1)
    members: list[MemberMetadata] = field(array(MemberMetadata))


class Partition(NamedTuple):
    topic: str
    partition: int


def load_offset(stored: bytes) -> OffsetCommitValue:
    """Nearly all are of one shape, and a start reads a hundred thousand."""
    if len(stored) == PLAIN_OFFSET.size:
        version, offset, leader_epoch, size, timestamp = PLAIN_OFFSET.unpack(stored)
        if version == OFFSET_VALUE and size == 0:
            return OffsetCommitValue(offset, leader_epoch, "", timestamp)
    commit: OffsetCommitValue = load_value(OffsetCommitValue, stored)
    return commit


def offset_record(group: str, partition: Partition, value: OffsetCommitValue | None) -> Record:
    key = _offset_key(group, partition)
    if value is None:
        return Record(key, None)
    has_expiry = value.expire_timestamp != NEVER
    if not has_expiry and not value.metadata:
        return Record(key, PLAIN_OFFSET.pack(
            OFFSET_VALUE, value.offset, value.leader_epoch, 0, value.commit_timestamp
        ))  # fmt: skip
    return Record(key, store(value, OFFSET_VALUE_WITH_EXPIRY if has_expiry else OFFSET_VALUE))


@lru_cache(maxsize=KEYS_MAX)
def _offset_key(group: str, partition: Partition) -> bytes:
    return store(OffsetCommitKey(group, *partition), OFFSET_KEY)


def group_record(group: str, value: GroupMetadataValue | None) -> Record:
    key = store(GroupMetadataKey(group), GROUP_KEY)
    return Record(key, None if value is None else store(value, GROUP_VALUE))
