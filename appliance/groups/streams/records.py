"""The records of streams groups in `__consumer_offsets`, byte for byte as Kafka 4.3 writes them.

    17  the group: its epoch, a hash of its topics, the topology that they fit, and with which
        configs the last target was computed
    19  a member: what it says of itself
    20  the target: its epoch            21  the target of a member
    22  what a member has now            23  the topology

Key version 18, the topics that a group reads, was written before 4.1 only. As with groups of
consumers, the hash is our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member_field
from typing import Any, ClassVar

from appliance.groups.handover import Assignment, MemberState
from appliance.groups.streams.member import Endpoint, Said
from appliance.groups.streams.task import Role, Task, Tasks, tasks_of
from appliance.groups.streams.task import rows as task_rows
from appliance.groups.streams.topology import InternalTopic, Subtopology, Topology, of_rows
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
    uint16,
)
from appliance.topics.internal_topic import Record, load, load_value, store

GROUP_KEY, TOPICS_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, TOPOLOGY_KEY = range(
    17, 24
)
KEYS = range(GROUP_KEY, TOPOLOGY_KEY + 1)
KEY = Versions(GROUP_KEY, TOPOLOGY_KEY)
VALUE = Versions(0, 0, flexible_from=0)
OF_GROUP = (GROUP_KEY, TARGET_EPOCH_KEY, TOPOLOGY_KEY)
NOT_VALIDATED = -1
FIRST_STATE = 1  # of a member: its records number from here


class GroupKey(Message):
    VERSIONS: ClassVar = KEY

    group: str = field(string)


class MemberKey(Message):
    VERSIONS: ClassVar = KEY

    group: str = field(string)
    member: str = field(string)


class KeyValue(Message):
    key: str = field(string)
    value: str = field(string)


class GroupValue(Message):
    VERSIONS: ClassVar = VALUE

    epoch: int = field(int32)
    metadata_hash: int = field(int64)
    validated_topology_epoch: int = field(int32, default=NOT_VALIDATED, tag=0)
    last_assignment_configs: list[KeyValue] | None = field(
        array(KeyValue), nullable="0+", default=None, tag=1
    )


class MemberValue(Message):
    VERSIONS: ClassVar = VALUE

    class Endpoint(Message):
        host: str = field(string)
        port: int = field(uint16)

    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))


class TargetEpochValue(Message):
    VERSIONS: ClassVar = VALUE

    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, default=0, tag=0)


class TaskIds(Message):
    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))


class TaskIdsWithEpochs(Message):
    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(
        array(int32), nullable="0+", default=None, tag=0
    )


class TargetValue(Message):
    VERSIONS: ClassVar = VALUE

    active_tasks: list[TaskIds] = field(array(TaskIds))
    standby_tasks: list[TaskIds] = field(array(TaskIds))
    warmup_tasks: list[TaskIds] = field(array(TaskIds))


class CurrentValue(Message):
    VERSIONS: ClassVar = VALUE

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    active_tasks: list[TaskIdsWithEpochs] = field(array(TaskIdsWithEpochs))
    standby_tasks: list[TaskIdsWithEpochs] = field(array(TaskIdsWithEpochs))
    warmup_tasks: list[TaskIdsWithEpochs] = field(array(TaskIdsWithEpochs))
    active_tasks_pending_revocation: list[TaskIdsWithEpochs] = field(array(TaskIdsWithEpochs))
    standby_tasks_pending_revocation: list[TaskIdsWithEpochs] = field(array(TaskIdsWithEpochs))
    warmup_tasks_pending_revocation: list[TaskIdsWithEpochs] = field(array(TaskIdsWithEpochs))


class TopicInfo(Message):
    name: str = field(string)
    partitions: int = field(int32)
    replication_factor: int = field(int16)
    topic_configs: list[KeyValue] = field(array(KeyValue))


class CopartitionGroup(Message):
    source_topics: list[int] = field(array(int16))
    source_topic_regex: list[int] = field(array(int16))
    repartition_source_topics: list[int] = field(array(int16))


class SubtopologyValue(Message):
    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    source_topic_regex: list[str] = field(array(string))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_sink_topics: list[str] = field(array(string))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))
    copartition_groups: list[CopartitionGroup] = field(array(CopartitionGroup))


class TopologyValue(Message):
    VERSIONS: ClassVar = VALUE

    epoch: int = field(int32)
    subtopologies: list[SubtopologyValue] = field(array(SubtopologyValue))


# Out


def group_record(
    group: str, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
) -> Record:
    rows = [KeyValue(*each) for each in sorted(configs.items())]
    value = GroupValue(epoch, metadata_hash, validated_epoch, rows)
    return Record(store(GroupKey(group), GROUP_KEY), store(value, 0))


def topology_record(group: str, topology: Topology) -> Record:
    value = TopologyValue(topology.epoch, [_subtopology(each) for each in topology.subtopologies])
    return Record(store(GroupKey(group), TOPOLOGY_KEY), store(value, 0))


def _subtopology(said: Subtopology) -> SubtopologyValue:
    return SubtopologyValue(
        subtopology_id=said.id,
        source_topics=list(said.source_topics),
        source_topic_regex=[],
        state_changelog_topics=[_topic(each) for each in said.changelogs],
        repartition_sink_topics=list(said.repartition_sinks),
        repartition_source_topics=[_topic(each) for each in said.repartition_sources],
        copartition_groups=[_places(said, each) for each in said.copartitioned],
    )


def _topic(said: InternalTopic) -> TopicInfo:
    configs = [KeyValue(*each) for each in said.configs]
    return TopicInfo(said.name, said.partitions, said.replication_factor, configs)


def _places(said: Subtopology, group: frozenset[str]) -> CopartitionGroup:
    sources = [i for i, name in enumerate(said.source_topics) if name in group]
    own = [i for i, each in enumerate(said.repartition_sources) if each.name in group]
    return CopartitionGroup(sources, [], own)


def member_record(group: str, member: str, said: Said) -> Record:
    value = MemberValue(
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        user_endpoint=said.endpoint and MemberValue.Endpoint(*said.endpoint),
        client_tags=[KeyValue(*each) for each in said.tags],
    )
    return Record(store(MemberKey(group, member), MEMBER_KEY), store(value, 0))


def target_epoch_record(group: str, epoch: int) -> Record:
    return Record(store(GroupKey(group), TARGET_EPOCH_KEY), store(TargetEpochValue(epoch), 0))


def target_record(group: str, member: str, tasks: Tasks) -> Record:
    value = TargetValue(*(task_rows(tasks, role, TaskIds) for role in Role))
    return Record(store(MemberKey(group, member), TARGET_KEY), store(value, 0))


def current_record(
    group: str, member: str, now: Assignment[Task], since: Mapping[Task, int]
) -> Record:
    rows = [
        _with_epochs(tasks, role, since) for tasks in (now.assigned, now.revoking) for role in Role
    ]
    value = CurrentValue(now.epoch, now.previous_epoch, now.state + FIRST_STATE, *rows)
    return Record(store(MemberKey(group, member), CURRENT_KEY), store(value, 0))


def _with_epochs(
    tasks: Tasks, role: Role, since: Mapping[Task, int]
) -> list[TaskIdsWithEpochs]:
    rows: list[TaskIdsWithEpochs] = task_rows(tasks, role, TaskIdsWithEpochs)
    for row in rows if role is Role.ACTIVE else ():
        row.assignment_epochs = [
            since[Task(role, row.subtopology_id, number)] for number in row.partitions
        ]
    return rows


def member_tombstones(group: str, member: str) -> list[Record]:
    key = MemberKey(group, member)
    return [Record(store(key, each), None) for each in (CURRENT_KEY, TARGET_KEY, MEMBER_KEY)]


def group_tombstones(group: str) -> list[Record]:
    key = GroupKey(group)
    return [
        Record(store(key, each), None) for each in (TARGET_EPOCH_KEY, GROUP_KEY, TOPOLOGY_KEY)
    ]


# In


@dataclass
class StoredStreamsGroup:
    """What the records say of one group."""

    epoch: int | None = None  # None: there is no such group
    metadata_hash: int = 0
    validated_epoch: int = NOT_VALIDATED
    configs: dict[str, str] = member_field(default_factory=dict)
    topology: Topology | None = None
    target_epoch: int = 0
    members: dict[str, Said] = member_field(default_factory=dict)
    targets: dict[str, Tasks] = member_field(default_factory=dict)
    now: dict[str, Assignment[Task]] = member_field(default_factory=dict)
    since: dict[str, dict[Task, int]] = member_field(default_factory=dict)


def take(into: dict[str, StoredStreamsGroup], kind: int, key: bytes, value: bytes) -> None:
    """The last record of a key."""
    if kind == TOPICS_KEY:
        return
    if kind in OF_GROUP:
        named = load(GroupKey, key)
        _take_of_group(into.setdefault(named.group, StoredStreamsGroup()), kind, value)
    else:
        of_member = load(MemberKey, key)
        group = into.setdefault(of_member.group, StoredStreamsGroup())
        _take_of_member(group, of_member.member, kind, value)


def _take_of_group(group: StoredStreamsGroup, kind: int, value: bytes) -> None:
    if kind == GROUP_KEY:
        found = load_value(GroupValue, value)
        group.epoch, group.metadata_hash = found.epoch, found.metadata_hash
        group.validated_epoch = found.validated_topology_epoch
        group.configs = {each.key: each.value for each in found.last_assignment_configs or ()}
    elif kind == TARGET_EPOCH_KEY:
        group.target_epoch = load_value(TargetEpochValue, value).assignment_epoch
    else:
        group.topology = of_rows(load_value(TopologyValue, value))


def _take_of_member(group: StoredStreamsGroup, member: str, kind: int, value: bytes) -> None:
    if kind == MEMBER_KEY:
        group.members[member] = _said(load_value(MemberValue, value))
    elif kind == TARGET_KEY:
        found = load_value(TargetValue, value)
        group.targets[member] = _tasks(
            found.active_tasks, found.standby_tasks, found.warmup_tasks
        )
    else:
        current = load_value(CurrentValue, value)
        group.now[member], group.since[member] = _assignment(current), _since(current)


def _said(value: MemberValue) -> Said:
    at = value.user_endpoint
    return Said(
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        Endpoint(at.host, at.port) if at else None,
        tuple(sorted((each.key, each.value) for each in value.client_tags)),
        value.instance_id,
    )


def _tasks(*of_roles: list[Any]) -> Tasks:
    return frozenset[Task]().union(*(tasks_of(*each) for each in zip(Role, of_roles, strict=True)))


def _assignment(value: CurrentValue) -> Assignment[Task]:
    return Assignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state - FIRST_STATE),
        _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks),
        _tasks(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
    )


def _since(value: CurrentValue) -> dict[Task, int]:
    """Where Kafka before 4.3 wrote it, they are taken to be old."""
    found = {}
    for row in (*value.active_tasks, *value.active_tasks_pending_revocation):
        epochs = row.assignment_epochs or [0] * len(row.partitions)
        for number, epoch in zip(row.partitions, epochs, strict=True):
            found[Task(Role.ACTIVE, row.subtopology_id, number)] = epoch
    return found
