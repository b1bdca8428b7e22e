"""The records of consumer groups in `__consumer_offsets`, byte for byte as Kafka 4 writes them.

    3   the group: its epoch, and a hash of the topics that it reads
    5   a member: what it says of itself
    6   the target: its epoch            7   the target of a member
    8   what a member has now            16  the topics that a pattern stands for

Key version 4, the topics that a group reads, is written by Kafka 4.0 only; 3 has their hash since.
The hash here is our own: a Kafka that takes over finds another one, and looks at the topics once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as member_field
from typing import Any, ClassVar
from uuid import UUID

from appliance.groups.consumer_member import Classic, Subscription
from appliance.groups.handover import Assignment, MemberState, Place, Places
from appliance.protocol.types import (
    Message,
    Versions,
    array,
    data,
    field,
    int8,
    int32,
    int64,
    string,
    uuid,
)
from appliance.topics.internal_topic import Record, load, load_value, store

EPOCH_KEY, TOPICS_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY = range(3, 9)
PATTERN_KEY = 16
KEY_MAX = 15  # share groups have keys of the same fields, with numbers of their own
KEYS = (*range(EPOCH_KEY, CURRENT_KEY + 1), PATTERN_KEY)
VALUE = Versions(0, 0, flexible_from=0)


class GroupKey(Message):
    VERSIONS: ClassVar = Versions(EPOCH_KEY, KEY_MAX)

    group: str = field(string)


class MemberKey(Message):
    VERSIONS: ClassVar = Versions(EPOCH_KEY, KEY_MAX)

    group: str = field(string)
    member: str = field(string)


class PatternKey(Message):
    VERSIONS: ClassVar = Versions(PATTERN_KEY, PATTERN_KEY)

    group: str = field(string)
    pattern: str = field(string)


class EpochValue(Message):
    VERSIONS: ClassVar = VALUE

    epoch: int = field(int32)
    metadata_hash: int = field(int64, default=0, tag=0)


class MemberValue(Message):
    VERSIONS: ClassVar = VALUE

    class ClassicProtocol(Message):
        name: str = field(string)
        metadata: bytes = field(data)

    class ClassicMemberMetadata(Message):
        session_timeout_ms: int = field(int32)
        supported_protocols: list[MemberValue.ClassicProtocol] = field(
            array(lambda: MemberValue.ClassicProtocol)
        )

    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable="0+", default=None, tag=0
    )


class TopicPartitions(Message):
    topic_id: UUID = field(uuid)
    partitions: list[int] = field(array(int32))


class TargetEpochValue(Message):
    VERSIONS: ClassVar = VALUE

    assignment_epoch: int = field(int32)


class TargetValue(Message):
    VERSIONS: ClassVar = VALUE

    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class CurrentValue(Message):
    VERSIONS: ClassVar = VALUE

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = field(array(TopicPartitions))


class PatternValue(Message):
    VERSIONS: ClassVar = VALUE

    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)


# Out


def epoch_record(group: str, epoch: int, metadata_hash: int) -> Record:
    return Record(store(GroupKey(group), EPOCH_KEY), store(EpochValue(epoch, metadata_hash), 0))


def target_epoch_record(group: str, epoch: int) -> Record:
    return Record(store(GroupKey(group), TARGET_EPOCH_KEY), store(TargetEpochValue(epoch), 0))


def member_record(group: str, member: str, said: Subscription) -> Record:
    value = MemberValue(
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=list(said.topics),
        subscribed_topic_regex=said.pattern,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        server_assignor=said.assignor,
    )
    if said.classic is not None:
        protocols = [MemberValue.ClassicProtocol(*each) for each in said.classic.protocols]
        value.classic_member_metadata = MemberValue.ClassicMemberMetadata(
            said.classic.session_timeout_ms, protocols
        )
    return Record(store(MemberKey(group, member), MEMBER_KEY), store(value, 0))


def target_record(group: str, member: str, places: Places) -> Record:
    value = TargetValue(rows(places, TopicPartitions))
    return Record(store(MemberKey(group, member), TARGET_KEY), store(value, 0))


def current_record(group: str, member: str, now: Assignment[Place]) -> Record:
    value = CurrentValue(
        member_epoch=now.epoch,
        previous_member_epoch=now.previous_epoch,
        state=now.state,
        assigned_partitions=rows(now.assigned, TopicPartitions),
        partitions_pending_revocation=rows(now.revoking, TopicPartitions),
    )
    return Record(store(MemberKey(group, member), CURRENT_KEY), store(value, 0))


def pattern_record(group: str, pattern: str, value: PatternValue) -> Record:
    return Record(store(PatternKey(group, pattern), PATTERN_KEY), store(value, 0))


def member_tombstones(group: str, member: str) -> list[Record]:
    key = MemberKey(group, member)
    return [Record(store(key, each), None) for each in (CURRENT_KEY, TARGET_KEY, MEMBER_KEY)]


def pattern_tombstone(group: str, pattern: str) -> Record:
    return Record(store(PatternKey(group, pattern), PATTERN_KEY), None)


def group_tombstones(group: str) -> list[Record]:
    key = GroupKey(group)
    return [Record(store(key, each), None) for each in (TARGET_EPOCH_KEY, EPOCH_KEY)]


def rows(places: Places, row: Any) -> list[Any]:
    """A row for each topic, in a fixed order."""
    of_topic: dict[UUID, list[int]] = {}
    for topic, index in sorted(places, key=lambda each: (each[0].int, each[1])):
        of_topic.setdefault(topic, []).append(index)
    return [row(topic, indexes) for topic, indexes in of_topic.items()]


def places_of(topics: Iterable[Any]) -> Places:
    return frozenset((row.topic_id, index) for row in topics for index in row.partitions)


# In


@dataclass
class StoredGroup:
    """What the records say of one group."""

    epoch: int | None = None  # None: there is no such group
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[str, Subscription] = member_field(default_factory=dict)
    targets: dict[str, Places] = member_field(default_factory=dict)
    now: dict[str, Assignment[Place]] = member_field(default_factory=dict)


@dataclass
class StoredConsumerGroup(StoredGroup):
    patterns: dict[str, frozenset[str]] = member_field(default_factory=dict)


def take(into: dict[str, StoredConsumerGroup], kind: int, key: bytes, value: bytes) -> None:
    """The last record of a key."""
    if kind == TOPICS_KEY:
        return
    named = load(_key_class(kind), key)
    group = into.setdefault(named.group, StoredConsumerGroup())
    # the version of a value is its first two bytes, also of those that Kafka will write one day
    if kind == EPOCH_KEY:
        group_epoch = load_value(EpochValue, value)
        group.epoch, group.metadata_hash = group_epoch.epoch, group_epoch.metadata_hash
    elif kind == TARGET_EPOCH_KEY:
        group.target_epoch = load_value(TargetEpochValue, value).assignment_epoch
    elif kind == MEMBER_KEY:
        group.members[named.member] = _subscription(load_value(MemberValue, value))
    elif kind == TARGET_KEY:
        group.targets[named.member] = places_of(load_value(TargetValue, value).topic_partitions)
    elif kind == CURRENT_KEY:
        group.now[named.member] = _assignment(load_value(CurrentValue, value))
    else:
        group.patterns[named.pattern] = frozenset(load_value(PatternValue, value).topics)


def _key_class(kind: int) -> type[Any]:
    if kind == PATTERN_KEY:
        return PatternKey
    return GroupKey if kind in (EPOCH_KEY, TARGET_EPOCH_KEY) else MemberKey


def _subscription(value: MemberValue) -> Subscription:
    metadata = value.classic_member_metadata
    classic = None
    if metadata is not None:
        protocols = tuple((each.name, each.metadata) for each in metadata.supported_protocols)
        classic = Classic(metadata.session_timeout_ms, protocols)
    return Subscription(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        tuple(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.server_assignor,
        classic,
    )


def _assignment(value: CurrentValue) -> Assignment[Place]:
    return Assignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state),
        places_of(value.assigned_partitions),
        places_of(value.partitions_pending_revocation),
    )
