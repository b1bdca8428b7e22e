"""The records of share groups in `__consumer_offsets`, byte for byte as Kafka 4 writes them.

    10  a member: what it says of itself
    11  the group: its epoch, and a hash of the topics that it reads
    12  the target: its epoch            13  the target of a member
    14  what a member has now
    15  the partitions that have a state in `__share_group_state`, are to get one, or to lose it

Key version 9, the topics that a group reads, was written before 4.1 only. As with groups of
consumers, the hash is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from dataclasses import field as member_field
from typing import ClassVar
from uuid import UUID

from appliance.groups.consumer_member import Subscription
from appliance.groups.consumer_records import (
    VALUE,
    GroupKey,
    MemberKey,
    StoredGroup,
    TargetEpochValue,
    TargetValue,
    TopicPartitions,
    places_of,
    rows,
)
from appliance.groups.handover import NOWHERE, Assignment, MemberState, Place, Places
from appliance.protocol.types import Message, array, field, int8, int32, int64, string, uuid
from appliance.topics.internal_topic import Record, load, load_value, store

TOPICS_KEY = 9
MEMBER_KEY, EPOCH_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, STATE_KEY = range(10, 16)
KEYS = range(TOPICS_KEY, STATE_KEY + 1)
OF_MEMBERS = (MEMBER_KEY, TARGET_KEY, CURRENT_KEY)


class MemberValue(Message):
    VERSIONS: ClassVar = VALUE

    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))


class EpochValue(Message):
    VERSIONS: ClassVar = VALUE

    epoch: int = field(int32)
    metadata_hash: int = field(int64)


class CurrentValue(Message):
    VERSIONS: ClassVar = VALUE

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class StateValue(Message):
    VERSIONS: ClassVar = VALUE

    class TopicPartitionsInfo(Message):
        topic_id: UUID = field(uuid)
        topic_name: str = field(string)
        partitions: list[int] = field(array(int32))

    class TopicInfo(Message):
        topic_id: UUID = field(uuid)
        topic_name: str = field(string)

    initializing_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = field(
        array(lambda: StateValue.TopicPartitionsInfo)
    )
    deleting_topics: list[TopicInfo] = field(array(TopicInfo))


@dataclass(frozen=True)
class ShareState:
    """Which partitions have a state of the group, and which of them are on the way."""

    initializing: Places = NOWHERE
    initialized: Places = NOWHERE
    deleting: frozenset[UUID] = frozenset()

    def began(self, places: Places) -> ShareState:
        """They are to get a state."""
        new = places - self.initialized
        return replace(self, initializing=self.initializing | new)

    def made(self, places: Places) -> ShareState:
        return ShareState(
            self.initializing - places,
            self.initialized | places,
            self.deleting - {topic for topic, _ in places},
        )

    def of(self, topics: Collection[UUID]) -> Places:
        """The partitions of these topics that have a state, or may have one."""
        begun = self.initializing | self.initialized
        return frozenset(each for each in begun if each[0] in topics)

    def gave_up(self, topics: Collection[UUID]) -> ShareState:
        """Their states are to go."""
        left = self.of(topics)
        return ShareState(
            self.initializing - left, self.initialized - left, self.deleting.union(topics)
        )

    def lost(self, topics: Collection[UUID]) -> ShareState:
        left = self.of(topics)
        return ShareState(
            self.initializing - left, self.initialized - left, self.deleting.difference(topics)
        )

    @property
    def topics(self) -> frozenset[UUID]:
        begun = self.initializing | self.initialized
        return self.deleting | {topic for topic, _ in begun}


# Out


def epoch_record(group: str, epoch: int, metadata_hash: int) -> Record:
    return Record(store(GroupKey(group), EPOCH_KEY), store(EpochValue(epoch, metadata_hash), 0))


def target_epoch_record(group: str, epoch: int) -> Record:
    return Record(store(GroupKey(group), TARGET_EPOCH_KEY), store(TargetEpochValue(epoch), 0))


def member_record(group: str, member: str, said: Subscription) -> Record:
    value = MemberValue(said.rack_id, said.client_id, said.client_host, list(said.topics))
    return Record(store(MemberKey(group, member), MEMBER_KEY), store(value, 0))


def target_record(group: str, member: str, places: Places) -> Record:
    value = TargetValue(rows(places, TopicPartitions))
    return Record(store(MemberKey(group, member), TARGET_KEY), store(value, 0))


def current_record(group: str, member: str, now: Assignment[Place]) -> Record:
    assigned = rows(now.assigned, TopicPartitions)
    value = CurrentValue(now.epoch, now.previous_epoch, now.state, assigned)
    return Record(store(MemberKey(group, member), CURRENT_KEY), store(value, 0))


def state_record(
    group: str, state: ShareState, name_of: Callable[[UUID], str | None]
) -> Record:
    def named(topic_id: UUID, partitions: list[int]) -> StateValue.TopicPartitionsInfo:
        name = name_of(topic_id) or UNKNOWN_NAME
        return StateValue.TopicPartitionsInfo(topic_id, name, partitions)

    value = StateValue(
        rows(state.initializing, named),
        rows(state.initialized, named),
        [
            StateValue.TopicInfo(each, name_of(each) or UNKNOWN_NAME)
            for each in sorted(state.deleting, key=lambda each: each.int)
        ],
    )
    return Record(store(GroupKey(group), STATE_KEY), store(value, 0))


UNKNOWN_NAME = "<UNKNOWN>"  # as Kafka names a topic that is no more


def member_tombstones(group: str, member: str) -> list[Record]:
    key = MemberKey(group, member)
    return [Record(store(key, each), None) for each in (CURRENT_KEY, TARGET_KEY, MEMBER_KEY)]


def group_tombstones(group: str) -> list[Record]:
    key = GroupKey(group)
    return [Record(store(key, each), None) for each in (TARGET_EPOCH_KEY, STATE_KEY, EPOCH_KEY)]


# In


@dataclass
class StoredShareGroup(StoredGroup):
    state: ShareState = member_field(default_factory=ShareState)


def take(into: dict[str, StoredShareGroup], kind: int, key: bytes, value: bytes) -> None:
    """The last record of a key."""
    if kind == TOPICS_KEY:
        return
    named = load(MemberKey if kind in OF_MEMBERS else GroupKey, key)
    group = into.setdefault(named.group, StoredShareGroup())
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
        group.state = _state(load_value(StateValue, value))


def _subscription(value: MemberValue) -> Subscription:
    return Subscription(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
    )


def _assignment(value: CurrentValue) -> Assignment[Place]:
    return Assignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state),
        places_of(value.assigned_partitions),
    )


def _state(value: StateValue) -> ShareState:
    return ShareState(
        places_of(value.initializing_topics),
        places_of(value.initialized_topics),
        frozenset(each.topic_id for each in value.deleting_topics),
    )
