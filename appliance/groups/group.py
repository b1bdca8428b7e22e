"""One classic group: its members, its generations, its rebalances. No clock, no I/O.

Time comes in with every call, in milliseconds of any clock that only goes forward. `due_ms` says
when `tick` wants to be called next. What is to be on disk goes through `store`, which calls back
when it is. JoinGroup and SyncGroup get an `answer` to call, at once or when the others are there.

Invariants:
1. A member is parked in one wait at most: `join` only in PreparingRebalance, `sync` only in
   CompletingRebalance. Leaving that state answers every parked call.
2. A parked member is alive, however long it has been silent: it waits for us. Only a new one is
   given up after a while, since its client may have gone and come again under another id.
3. `due_ms` is no later than the first deadline, but for the grain of sessions. It may be earlier:
   a heartbeat only moves its member's own deadline, and costs the same in a group of any size.
4. What a generation is assigned is on disk before anybody hears of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from appliance.config import GroupsConfig
from appliance.errors import ApplianceError
from appliance.groups import classic_timeouts, consumer_protocol, joins
from appliance.groups.consumer_protocol import CONSUMER
from appliance.groups.member import (
    MEMBER_BYTES,
    NEVER_MS,
    AnswerJoin,
    AnswerSync,
    Join,
    Joined,
    Member,
    Store,
    Sync,
    Synced,
)
from appliance.groups.members import Members
from appliance.groups.records import GroupMetadataValue, group_record
from appliance.groups.states import REFUSED, TRANSITIONS, Ask, GroupRefused, State
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Record


@dataclass(slots=True)
class Rebalance:
    """The time that members have to join."""

    deadline_ms: int
    # Of an empty group: it waits a little for more members, so that ten consumers that start
    # together make one rebalance and not ten. Each newcomer makes it wait again, up to `left_ms`.
    is_first: bool = False
    left_ms: int = 0
    has_newcomer: bool = False


@dataclass
class Group:
    id: str
    config: GroupsConfig
    store: Store
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None  # None: it only keeps offsets
    protocol_name: str | None = None
    members: Members = field(init=False)
    named: dict[str, int] = field(default_factory=dict)  # ids given out, and until when to join
    rebalance: Rebalance | None = None
    unsynced: set[str] = field(default_factory=set)  # of this generation, no SyncGroup came yet
    sync_deadline_ms: int = NEVER_MS
    due_ms: int = NEVER_MS
    changed_ms: int = -1  # wall clock, as the last record of the group has it
    superseded: list[Record] = field(default_factory=list)  # goes with its next write
    _storing: int = -1  # the generation whose assignment is on its way to the disk

    def __post_init__(self) -> None:
        self.members = Members(self.id)

    # JoinGroup

    def join(self, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
        joins.join(self, asked, now_ms, answer)

    def joined(self, member: Member) -> Joined:
        leader_id = self.members.leader_id
        return Joined(
            0,
            member.id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            leader_id or "",
            self.members.for_leader(self.protocol_name) if member.id == leader_id else (),
        )

    # Rebalance

    def begin_rebalance(self, now_ms: int) -> None:
        """Begins one, unless one is under way; ends it, if everybody is there."""
        if self.state is not State.PREPARING_REBALANCE:
            self._prepare_rebalance(now_ms)
        self.complete_join(now_ms)

    def _prepare_rebalance(self, now_ms: int) -> None:
        # out of Stable they have what they were assigned until they join again
        if self.state is State.COMPLETING_REBALANCE:
            self.members.answer_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        self.unsynced.clear()
        self.sync_deadline_ms = NEVER_MS
        time_ms = self.members.rebalance_timeout_ms()
        delay_ms = self.config.initial_rebalance_delay_ms
        is_first = self.state is State.EMPTY and delay_ms > 0
        wait_ms = min(delay_ms, time_ms) if is_first else time_ms
        self.rebalance = Rebalance(self.due_at(now_ms + wait_ms), is_first, time_ms - wait_ms)
        self._go(State.PREPARING_REBALANCE)

    def complete_join(self, now_ms: int) -> None:
        rebalance = self.rebalance
        if rebalance is None or rebalance.is_first:
            return
        if self.members.joining == len(self.members) and not self.named:
            self.begin_generation(now_ms)

    def begin_generation(self, now_ms: int) -> None:
        self.rebalance = None
        self.generation += 1
        if not self.members:
            self.protocol_name = None
            self._go(State.EMPTY)
            # An error here costs little: a restart finds members whose sessions end.
            self.store(self.record(), lambda error, _: None)
            return
        self.members.elect_leader()
        self.protocol_name = self.members.select_protocol()
        self._go(State.COMPLETING_REBALANCE)
        self.sync_deadline_ms = self.due_at(now_ms + self.members.rebalance_timeout_ms())
        # A static member that is away keeps its place until its session ends.
        joined = [each for each in self.members if each.join is not None]
        self.unsynced = {each.id for each in joined}
        for each in joined:
            self.touch(each, now_ms)
            each.is_new = False
            self.members.answer_join(each, self.joined(each))

    # SyncGroup

    def sync(self, asked: Sync, now_ms: int, answer: AnswerSync) -> None:
        try:
            member = self._of_generation(asked.member_id, asked.instance_id, asked.generation)
            self._check(Ask.SYNC)
            self._check_protocol_of(asked)
        except GroupRefused as error:
            answer(Synced(error.kafka_code))
            return
        self.unsynced.discard(member.id)
        if not self.unsynced:
            self.sync_deadline_ms = NEVER_MS
        if self.state is State.STABLE:
            self.touch(member, now_ms)
            answer(self._synced(member))
            return
        if member.sync is not None:  # its client asked again
            member.answer_sync(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = answer
        if member.id == self.members.leader_id and self._storing != self.generation:
            self._assign(asked.assignments)

    def _check_protocol_of(self, asked: Sync) -> None:
        given = asked.protocol_type, asked.protocol_name
        ours = self.protocol_type, self.protocol_name
        if any(each not in (None, own) for each, own in zip(given, ours, strict=True)):
            raise GroupRefused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.id} has protocol type and name {ours}, got {given}",
            )

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        # Java's consumers cannot read an assignment of no bytes at all
        nothing = consumer_protocol.NO_PARTITIONS if self.protocol_type == CONSUMER else b""
        assigned = {each.id: assignments.get(each.id) or nothing for each in self.members}
        generation = self._storing = self.generation

        def stored(error: ApplianceError | None, now_ms: int) -> None:
            if self._storing == generation:
                self._storing = -1
            if self.state is State.COMPLETING_REBALANCE and self.generation == generation:
                self._assigned(assigned, error, now_ms)

        self.store(self.record(assigned), stored)

    def _assigned(
        self, assigned: Mapping[str, bytes], error: ApplianceError | None, now_ms: int
    ) -> None:
        if error:
            self.members.answer_syncs(error.kafka_code)
            self.begin_rebalance(now_ms)
            return
        self._go(State.STABLE)
        self.members.assigned_bytes = sum(map(len, assigned.values()))
        for each in self.members:
            each.assignment = assigned.get(each.id, b"")
            if each.sync is not None:
                self.touch(each, now_ms)
                each.answer_sync(self._synced(each))

    def _synced(self, member: Member) -> Synced:
        return Synced(0, self.protocol_type, self.protocol_name, member.assignment)

    # Heartbeat, LeaveGroup, OffsetCommit

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        member = self._of_generation(member_id, instance_id, generation)
        member.deadline_ms = now_ms + member.session_timeout_ms
        self._check(Ask.HEARTBEAT)

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """By its id, or a static one by its instance id, as administrators do."""
        if self.named.pop(member_id, None) is not None:
            self.complete_join(now_ms)
            return
        holder = self.members.static.get(instance_id or "", "")
        member = self.members.find(member_id or holder, instance_id)
        self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.begin_rebalance(now_ms)

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        """Whether these may commit offsets. Without member and generation it is an administrator,
        or a consumer that assigns partitions itself: for an Empty group only."""
        if generation < 0 and self.state is State.EMPTY:
            return
        member = self._of_generation(member_id, instance_id, generation)
        member.deadline_ms = now_ms + member.session_timeout_ms
        self._check(Ask.COMMIT)

    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """The same within a transaction: who names a member must be it, also in a rebalance."""
        if member_id or instance_id is not None or generation >= 0:
            self._of_generation(member_id, instance_id, generation)

    def delete(self) -> None:
        if self.state is not State.EMPTY:
            raise GroupRefused(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {self.id} is {self.state.value} with {len(self.members)} members",
            )
        self._go(State.DEAD)

    @property
    def weight(self) -> int:
        """What it has in memory of its members."""
        own = self.members
        return own.bytes + own.assigned_bytes + MEMBER_BYTES * len(self.named)

    def weight_of(self, member_id: str) -> int:
        return self.members.size_of(member_id)

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_dead(self) -> bool:
        return self.state is State.DEAD

    @property
    def never_had_members(self) -> bool:
        """After a start: none that was assigned something."""
        return self.protocol_type is None

    def tombstones(self) -> list[Record]:
        return [*self.superseded, group_record(self.id, None)]

    def subscribed(self) -> frozenset[str] | None:
        """The topics that members want; None where they do not tell."""
        if self.protocol_type != CONSUMER or self.protocol_name is None:
            return None
        return self.members.subscribed(self.protocol_name)

    # Time

    def tick(self, now_ms: int) -> None:
        classic_timeouts.tick(self, now_ms)

    def postpone(self, by_ms: int, now_ms: int) -> None:
        classic_timeouts.postpone(self, by_ms, now_ms)

    def stop(self, why: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """The broker is about to end. Whoever waits is told to look for a coordinator again."""
        for each in self.members:
            self.members.answer_join(each, Joined(why, each.id))
            each.answer_sync(Synced(why))

    # From one protocol to the other

    def take_back(self, members: Iterable[Member], generation: int, now_ms: int) -> None:
        """What is left of a group of the newer protocol. Its members are told to join again: one of
        them is to lead, which in that group none did."""
        self.generation, self.protocol_type = generation, CONSUMER
        for each in members:
            self.members.adopt(each)
            self.touch(each, now_ms)
        self.members.leader_id = None
        self.protocol_name = self.members.select_protocol()
        self.state = State.STABLE
        self._prepare_rebalance(now_ms)

    def unload(self, why: GroupRefused) -> None:
        """It is another broker's: nothing is stored here any more."""
        self.disband(ErrorCode(why.kafka_code))
        self.store = lambda value, done: done(why, 0)

    def disband(self, why: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
        """Its members go on in a group of the newer protocol: whoever waits shall join again."""
        self.stop(why)
        self.members = Members(self.id)
        self.state, self.rebalance, self.due_ms = State.DEAD, None, NEVER_MS

    def due_at(self, at_ms: int) -> int:
        self.due_ms = min(self.due_ms, at_ms)
        return at_ms

    def touch(self, member: Member, now_ms: int) -> None:
        member.deadline_ms = self.due_at(now_ms + member.session_timeout_ms)

    # What is on disk

    def record(self, assigned: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """As it is, or with the assignments that are about to hold."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.members.leader_id,
            members=self.members.rows(self.protocol_name, assigned),
        )

    def restore(self, value: GroupMetadataValue, now_ms: int) -> None:
        """What a restart finds. Members go on with their generation, each with a new session."""
        self.generation = value.generation
        self.protocol_type, self.protocol_name = value.protocol_type or None, value.protocol
        self.changed_ms = value.current_state_timestamp
        for each in value.members:
            member = self.members.restore(each, value.protocol or "")
            self.touch(member, now_ms)
        self.members.leader_id = value.leader
        self.state = State.STABLE if self.members else State.EMPTY
        if self.members and value.leader is None:
            self._prepare_rebalance(now_ms)  # it came from the newer protocol, and nobody led yet

    # States

    def _of_generation(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = self.members.find(member_id, instance_id)
        if generation != self.generation:
            raise GroupRefused(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.id} is in generation {self.generation}, {member_id} in {generation}",
            )
        return member

    def _check(self, ask: Ask) -> None:
        code = REFUSED[ask].get(self.state)
        if code is not None:
            raise GroupRefused(code, f"group {self.id} is {self.state.value}: no {ask.value} now")

    def remove(self, member: Member, error: ErrorCode) -> None:
        """Its parked calls get the error; what follows for the group is the caller's."""
        self.members.remove(member, error)
        self.unsynced.discard(member.id)

    def _go(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.id}: {self.state} to {state}"
        self.state = state
