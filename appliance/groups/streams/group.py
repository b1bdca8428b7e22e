"""One group of Kafka Streams (KIP-1071): its members, its topology, and who has which task.

`modern_group.py` has what it shares with other groups, `members.py` what is about members. Here a
topology stands between members and targets: only when all its topics are as they must be there are
tasks to give out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from appliance.config import StreamsGroupsConfig
from appliance.groups.handover import MemberState
from appliance.groups.member import NEVER_MS
from appliance.groups.modern_group import hash_of
from appliance.groups.queued_heartbeats import QueuedHeartbeats
from appliance.groups.states import GroupRefused, StreamsState
from appliance.groups.streams import records
from appliance.groups.streams.endpoints import endpoints_of
from appliance.groups.streams.member import Beat, Beaten, Places, StreamsMember
from appliance.groups.streams.members import StreamsMembers
from appliance.groups.streams.records import NOT_VALIDATED, StoredStreamsGroup
from appliance.groups.streams.sticky_assignor import Work, assign
from appliance.groups.streams.task import NO_TASKS, TaskId, Tasks
from appliance.groups.streams.topics_of_topology import Status, StatusCode, topics_of
from appliance.groups.streams.topology import Topology, check
from appliance.protocol import ErrorCode

ASSIGNOR = "sticky"
STANDBY_REPLICAS = "num.standby.replicas"  # as Kafka names it in the group's record
# A new group begins with this epoch: one before it says that nothing is assigned yet
FIRST_EPOCH, UNASSIGNED_EPOCH = 2, 1


@dataclass
class StreamsGroup(QueuedHeartbeats[Beat, Beaten, StreamsMember], StreamsMembers):
    BEATEN: ClassVar[type[Beaten]] = Beaten

    config: Callable[[], StreamsGroupsConfig] = field(kw_only=True)
    validated_epoch: int = NOT_VALIDATED  # of the topology, if its topics are as they must be
    configs: dict[str, str] = field(default_factory=dict)  # of the last target
    shut_down_by: str = ""  # the member that asked for it
    _delayed_until_ms: int = NEVER_MS  # the first target waits for other members

    @property
    def state(self) -> StreamsState:
        if self.is_dead:
            return StreamsState.DEAD
        if not self.members:
            return StreamsState.EMPTY
        if self.topology is None or self.validated_epoch != self.topology.epoch:
            return StreamsState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsState.ASSIGNING
        arrived = MemberState.STABLE, self.target_epoch
        is_stable = all((each.now.state, each.now.epoch) == arrived for each in self.all())
        return StreamsState.STABLE if is_stable else StreamsState.RECONCILING

    @property
    def assignor(self) -> str:
        return ASSIGNOR

    # StreamsGroupHeartbeat

    def _begin(self, asked: Beat, now_ms: int) -> StreamsMember | None:
        """None: it leaves."""
        if asked.epoch < 0:
            self._leave(asked)
            return None
        member = self._joining(asked) if asked.is_joining else self._member(asked)
        if not self.members:
            self._delay(now_ms)
        self._hear(member, member.said.after(asked))
        self._take_topology(asked.topology)
        self._touch(member, now_ms)
        if asked.shuts_down:
            self.shut_down_by = self.shut_down_by or member.id
        return member

    def _leave(self, asked: Beat) -> None:
        member = self._known(asked.member_id)
        if asked.shuts_down:
            self.shut_down_by = self.shut_down_by or member.id
        self._forget(member)
        self._is_stale = True

    def _joining(self, asked: Beat) -> StreamsMember:
        """New, or known and begins again: it was fenced, or its answer was lost."""
        known = self.members.get(asked.member_id)
        self._check_size(known is not None)
        if asked.topology is not None:
            check(asked.topology, self.config().max_internal_topics)
            self._check_topology(asked.topology)
        return known or StreamsMember(asked.member_id)

    def _check_topology(self, said: Topology) -> None:
        own = self.topology
        if own is None or not self.members or said.epoch < own.epoch or said == own:
            return
        raise GroupRefused(
            ErrorCode.INVALID_REQUEST,
            "Topology updates are not supported yet, unless all members have left: group "
            f"{self.id} has {len(self.members)} members.",
        )

    def _take_topology(self, said: Topology | None) -> None:
        own = self.topology
        if said is None or said == own or (own is not None and said.epoch < own.epoch):
            return
        self.topology, self._topics_seen, self._is_stale = said, None, True
        self._put(records.topology_record(self.id, said))

    def _member(self, asked: Beat) -> StreamsMember:
        member = self._known(asked.member_id)
        has_own_only = asked.owned is not None and asked.owned <= member.now.assigned
        self._check_epoch(member, asked.epoch, has_own_only)
        if self.found.is_ready:
            self._check_tasks(asked.owned or NO_TASKS)
        return member

    def _beaten(self, asked: Beat, member: StreamsMember, now_ms: int) -> Beaten:
        if self.members.get(member.id) is not member:
            text = f"group {self.id}: member {member.id} has left"
            return Beaten(ErrorCode.UNKNOWN_MEMBER_ID, text)
        had = member.now
        self._reconcile(member, asked.owned, now_ms)
        now = member.now
        has_changed = asked.is_joining or had.assigned != now.assigned
        # an answer may have been lost that told it
        may_not_know = asked.epoch != had.epoch or asked.owned not in (None, now.assigned)
        if has_changed and member.said.endpoint is not None:
            self.endpoint_epoch += 1
        is_new_to_it = self.endpoint_epoch != asked.endpoint_epoch and self.topology is not None
        return Beaten(
            member_id=member.id,
            epoch=now.epoch,
            heartbeat_interval_ms=self._pace_ms(member),
            statuses=self._statuses(member),
            missing=self.found.missing,
            assigned=now.assigned if has_changed or may_not_know else None,
            endpoint_epoch=self.endpoint_epoch,
            endpoints=self._endpoints() if is_new_to_it else None,
        )

    def _pace_ms(self, member: StreamsMember) -> int:
        """Who waits for topics, or for others, asks sooner: it is told nothing before."""
        config = self.config()
        now = member.now
        waits = self._is_delayed or not self.found.is_ready or now.epoch != self.target_epoch
        if waits or now.state is not MemberState.STABLE:
            return min(config.heartbeat_interval_ms, config.shortest_heartbeat_ms)
        return config.heartbeat_interval_ms

    def _statuses(self, member: StreamsMember) -> list[Status]:
        own = self.topology.epoch if self.topology else NOT_VALIDATED
        facts = [
            member.said.topology_epoch < own and Status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.said.topology_epoch} is behind the group's "
                f"topology epoch {own}.",
            ),
            self._is_delayed and Status(
                StatusCode.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            ),
            self.found.status,
            self.shut_down_by and Status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {self.shut_down_by} encountered a fatal error and requested "
                "a shutdown for the entire application.",
            ),
        ]  # fmt: skip
        return [each for each in facts if isinstance(each, Status)]

    def _endpoints(self) -> list[Places]:
        assert self.topology is not None
        return endpoints_of(self.topology, self.all(), self._count_of)

    # Epoch and target

    def _refresh(self) -> None:
        has_changed, self._is_stale = self._is_stale, False
        if self._topics_seen != self.topics.topics_version:
            has_changed |= self._look_at_topics()
        configs = {STANDBY_REPLICAS: str(self.config().num_standby_replicas)}
        if has_changed or configs != self.configs:
            self.epoch = self.epoch + 1 if self.epoch else FIRST_EPOCH
            self.configs = configs
            self._put(records.group_record(
                self.id, self.epoch, self.metadata_hash, self.validated_epoch, configs))
        if self.epoch > self.target_epoch and not self._is_delayed:
            self._assign()

    def _look_at_topics(self) -> bool:
        """Whether they are others than those of the last epoch."""
        self._topics_seen = self.topics.topics_version
        if self.topology is None:
            return False
        before = self.metadata_hash, self.validated_epoch
        facts = {name: self.topics.topic_facts(name) for name in self.topology.topics}
        there = {name: each for name, each in facts.items() if each is not None}
        self.metadata_hash = hash_of(there)
        self.found = topics_of(self.topology, self._count_of, self.config().max_tasks)
        self.validated_epoch = self.topology.epoch if self.found.is_ready else NOT_VALIDATED
        return before != (self.metadata_hash, self.validated_epoch)

    def _assign(self) -> None:
        targets = dict.fromkeys(self.members, NO_TASKS)
        if self.topology is not None and self.found.is_ready:
            targets |= assign(self._work(self.topology))
        for member_id, tasks in targets.items():
            if tasks != self.targets.get(member_id):
                self._put(records.target_record(self.id, member_id, tasks))
        self.targets = targets
        self.target_epoch = self.epoch
        self._put(records.target_epoch_record(self.id, self.epoch))

    def _work(self, topology: Topology) -> Work:
        """Who says an older topology knows nothing of these tasks."""
        tasks: dict[bool, list[TaskId]] = {True: [], False: []}
        for each in topology.subtopologies:
            count = self.found.task_counts[each.id]
            tasks[each.is_stateful] += [(each.id, number) for number in range(count)]
        processes = {
            each.id: each.process
            for each in self.all()
            if each.said.topology_epoch == topology.epoch
        }
        standbys = self.config().num_standby_replicas
        return Work(tasks[True], tasks[False], processes, self.targets, standbys)

    # The first members wait for others

    def _target_of(self, member: StreamsMember) -> tuple[Tasks, int]:
        if self._is_delayed:
            return NO_TASKS, max(UNASSIGNED_EPOCH, self.target_epoch)
        return self.targets.get(member.id, NO_TASKS), self.target_epoch

    def _forget(self, member: StreamsMember) -> None:
        super()._forget(member)
        if not self.members:
            self.shut_down_by, self._delayed_until_ms = "", NEVER_MS

    @property
    def _is_delayed(self) -> bool:
        return self._delayed_until_ms != NEVER_MS

    def _delay(self, now_ms: int) -> None:
        delay_ms = self.config().initial_rebalance_delay_ms
        if delay_ms:
            self._delayed_until_ms = self._due(now_ms + delay_ms)

    def tick(self, now_ms: int) -> None:
        if self._delayed_until_ms <= now_ms:
            self._delayed_until_ms = NEVER_MS
            self._refresh()
            self._save(lambda error: None)  # nobody asked; what failed is written with the next
        super().tick(now_ms)
        self.due_ms = min(self.due_ms, self._delayed_until_ms)

    # Disk

    def restore(self, stored: StoredStreamsGroup, now_ms: int) -> None:
        """Members go on in their epochs, each with a new session."""
        self.epoch, self.target_epoch = stored.epoch or 0, stored.target_epoch
        self.metadata_hash, self.validated_epoch = stored.metadata_hash, stored.validated_epoch
        self.topology, self.configs = stored.topology, dict(stored.configs)
        if self.topology is not None:
            self.found = topics_of(self.topology, self._count_of, self.config().max_tasks)
        for member_id, said in stored.members.items():
            self._restore_member(member_id, said, stored, now_ms)
