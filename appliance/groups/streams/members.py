"""Members of a group of Kafka Streams: what they say, and who has which task.

Invariant: `holders` has everybody who may be working on a task, and in which role. An active task
has one holder in that role, and no process has two roles of a task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from appliance.groups.consumer_member import PLACE_BYTES
from appliance.groups.handover import (
    NOTHING,
    Assignment,
    MemberState,
    next_assignment,
)
from appliance.groups.member import NEVER_MS
from appliance.groups.modern_group import ModernGroup, Tombstones
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.groups.streams import records
from appliance.groups.streams.endpoints import partitions_of
from appliance.groups.streams.member import Said, StreamsMember
from appliance.groups.streams.records import StoredStreamsGroup
from appliance.groups.streams.task import NO_TASKS, Role, Task, TaskId, Tasks
from appliance.groups.streams.topics_of_topology import TopicsOfTopology
from appliance.groups.streams.topology import Topology
from appliance.protocol import ErrorCode


@dataclass
class StreamsMembers(ModernGroup):
    KIND: ClassVar[str] = "streams"
    RECORDS: ClassVar[Tombstones] = records

    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)
    topology: Topology | None = None
    found: TopicsOfTopology = field(default_factory=TopicsOfTopology)  # of the topology
    endpoint_epoch: int = 0  # counts changes of what endpoints have; a restart begins anew
    holders: dict[TaskId, dict[str, Role]] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        said = sum(each.size for each in self.members.values())
        tasks = sum(map(len, self.targets.values()))
        return said + PLACE_BYTES * tasks + (self.topology.size if self.topology else 0)

    def all(self) -> Iterable[StreamsMember]:
        return self.members.values()

    def subscribed(self) -> frozenset[str]:
        is_read = self.members and self.topology is not None
        return frozenset(self.topology.readers) if is_read and self.topology else frozenset()

    def partitions_of(self, tasks: Tasks) -> dict[str, list[int]]:
        """What active tasks among them read, by topic."""
        if self.topology is None:
            return {}
        return partitions_of(self.topology, tasks, Role.ACTIVE, self._count_of)

    def _count_of(self, name: str) -> int | None:
        facts = self.topics.topic_facts(name)
        return None if facts is None else facts.partitions

    # Members

    def _hear(self, member: StreamsMember, said: Said) -> None:
        """What it says of itself now; what that changes for all comes with the next `_refresh`."""
        before, member.said = member.said, said
        is_new = member.id not in self.members
        if is_new:
            self._enter(member)
        if is_new or said != before:
            self._put(records.member_record(self.id, member.id, said))
        if is_new or said.of_assignment != before.of_assignment:
            self._is_stale = True

    def _forget(self, member: StreamsMember) -> None:
        self._hold(member, NO_TASKS)
        if member.said.endpoint is not None:
            self.endpoint_epoch += 1
        super()._forget(member)

    def _hold(self, member: StreamsMember, held: Tasks) -> None:
        for task in member.now.held - held:
            holders = self.holders[task.id]
            del holders[member.id]
            if not holders:
                del self.holders[task.id]
        for task in held - member.now.held:
            self.holders.setdefault(task.id, {})[member.id] = task.role

    def _set(self, member: StreamsMember, now: Assignment[Task]) -> None:
        self._hold(member, now.held)
        active = [each for each in now.held if each.role is Role.ACTIVE]
        member.since = {each: member.since.get(each, now.epoch) for each in active}
        member.now = now
        self._put(records.current_record(self.id, member.id, now, member.since))

    @abstractmethod
    def _target_of(self, member: StreamsMember) -> tuple[Tasks, int]:
        """With its epoch."""

    def _reconcile(self, member: StreamsMember, owned: Tasks | None, now_ms: int) -> None:
        target, epoch = self._target_of(member)
        now = next_assignment(member.now, target, epoch, owned, partial(self._is_free, member))
        if now == member.now:
            return
        self._set(member, now)
        member.revoke_deadline_ms = NEVER_MS
        if now.state is MemberState.UNREVOKED:
            member.revoke_deadline_ms = self._due(now_ms + member.said.rebalance_timeout_ms)

    def _is_free(self, member: StreamsMember, task: Task) -> bool:
        """State is on the disk of a process: no two roles of a task are in one at a time.

        Whatever the member held of the task itself it has given up by then."""
        for holder, role in self.holders.get(task.id, {}).items():
            if holder == member.id:
                continue
            if task.role is Role.ACTIVE and role is Role.ACTIVE:
                return False
            if self.members[holder].process == member.process:
                return False
        return True

    def _known(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            raise GroupRefused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.id} has no member {member_id!r}"
            )
        return member

    def _check_tasks(self, owned: Tasks) -> None:
        counts = self.found.task_counts
        for each in owned:
            if each.subtopology not in counts:
                text = f"Subtopology {each.subtopology} does not exist in the topology."
                raise GroupRefused(ErrorCode.INVALID_REQUEST, text)
            if not 0 <= each.number < counts[each.subtopology]:
                raise GroupRefused(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {each.number} for subtopology {each.subtopology} is invalid. Number of "
                    f"tasks for this subtopology: {counts[each.subtopology]}",
                )

    # OffsetCommit, TxnOffsetCommit, OffsetFetch

    def check_commit(self, member_id: str, epoch: int, places: Iterable[Partition]) -> None:
        """Without member and epoch it is an administrator: for an Empty group only."""
        if epoch >= 0 or self.members:
            self._check_committer(member_id, epoch, places)

    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int, places: Iterable[Partition]
    ) -> None:
        if member_id or instance_id is not None or epoch >= 0:
            self._check_committer(member_id, epoch, places)

    def _check_committer(self, member_id: str, epoch: int, places: Iterable[Partition]) -> None:
        """A commit may be on its way while a heartbeat takes the member to another epoch. It counts
        all the same, as far as the member has had the tasks since then."""
        member = self._known(member_id)
        if 0 < epoch < member.now.epoch and all(
            self._has_had(member, each, epoch) for each in places
        ):
            return
        self._check_member_epoch(member, epoch)

    def _has_had(self, member: StreamsMember, place: Partition, epoch: int) -> bool:
        readers = self.topology.readers.get(place.topic, ()) if self.topology else ()
        tasks = (Task(Role.ACTIVE, each, place.partition) for each in readers)
        return any(member.since.get(each, epoch + 1) <= epoch for each in tasks)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is not None or epoch >= 0:
            self._check_member_epoch(self._known(member_id or ""), epoch)

    def _check_member_epoch(self, member: StreamsMember, epoch: int) -> None:
        if epoch != member.now.epoch:
            raise GroupRefused(
                ErrorCode.STALE_MEMBER_EPOCH,
                f"group {self.id}: member {member.id} is in epoch {member.now.epoch}, got {epoch}",
            )

    # A start

    def _restore_member(
        self, member_id: str, said: Said, stored: StoredStreamsGroup, now_ms: int
    ) -> None:
        member = StreamsMember(member_id, said)
        self._enter(member)
        now: Assignment[Task] = stored.now.get(member_id, NOTHING)
        self._hold(member, now.held)
        member.now, member.since = now, _since(now, stored.since.get(member_id, {}))
        self.targets[member_id] = stored.targets.get(member_id, NO_TASKS)
        self._touch(member, now_ms)
        if now.state is MemberState.UNREVOKED:
            member.revoke_deadline_ms = self._due(now_ms + said.rebalance_timeout_ms)


def _since(now: Assignment[Task], stored: Mapping[Task, int]) -> dict[Task, int]:
    return {each: stored.get(each, 0) for each in now.held if each.role is Role.ACTIVE}
