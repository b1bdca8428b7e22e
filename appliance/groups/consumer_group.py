"""One group of the newer protocol (KIP-848): who is in it, and who has which partition.

`modern_group.py` has what it shares with other groups. Here a partition goes from one member to
another.

Invariant: `owners` has one member for each partition that somebody may be reading, and a partition
enters a member's assignment only when it has no other owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar
from uuid import UUID

from appliance.groups import consumer_records as records
from appliance.groups import topic_pattern
from appliance.groups.assignors import ASSIGNORS
from appliance.groups.consumer_member import (
    AWAY,
    JOINING,
    Beat,
    Beaten,
    ConsumerMember,
    Rights,
    Subscription,
)
from appliance.groups.handover import (
    NOWHERE,
    Assignment,
    MemberState,
    Place,
    Places,
    next_assignment,
)
from appliance.groups.member import NEVER_MS
from appliance.groups.partitions_group import PartitionsGroup, Records
from appliance.groups.queued_heartbeats import QueuedHeartbeats
from appliance.groups.records import Partition
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Record


@dataclass
class ConsumerGroup(
    QueuedHeartbeats[Beat, Beaten, ConsumerMember], PartitionsGroup
):
    KIND: ClassVar[str] = "consumer"
    RECORDS: ClassVar[Records] = records
    BEATEN: ClassVar[type[Beaten]] = Beaten

    static: dict[str, str] = field(default_factory=dict)  # instance id to member id
    owners: dict[Place, str] = field(default_factory=dict)
    patterns: dict[str, frozenset[str]] = field(default_factory=dict)  # the topics that match
    # By pattern: of the member that was the first to be heard in a generation, as in Kafka
    _rights: dict[str, Rights] = field(default_factory=dict)

    @property
    def state(self) -> ConsumerState:
        if self.is_dead:
            return ConsumerState.DEAD
        if not self.members:
            return ConsumerState.EMPTY
        arrived = MemberState.STABLE, self.target_epoch
        is_stable = all((each.now.state, each.now.epoch) == arrived for each in self.all())
        return ConsumerState.STABLE if is_stable else ConsumerState.RECONCILING

    # ConsumerGroupHeartbeat

    def _begin(self, asked: Beat, now_ms: int) -> ConsumerMember | None:
        """None: it leaves."""
        if asked.epoch < 0:
            self._leave(asked)
            return None
        self._check(asked)
        member = self._member(asked) if asked.epoch > JOINING else self._joining(asked)
        self._hear(member, member.subscription.after(asked))
        self._learn(member.subscription.pattern, asked.rights)
        self._touch(member, now_ms)
        return member

    def _learn(self, pattern: str, rights: Rights) -> None:
        """A pattern stands for topics that its members may see, and is looked at again when rules
        have changed."""
        known = self._rights.get(pattern)
        if pattern and (known is None or known.generation != rights.generation):
            self._rights[pattern] = rights
            self._topics_seen = None

    def _beaten(self, asked: Beat, member: ConsumerMember, now_ms: int) -> Beaten:
        if self.members.get(member.id) is not member:
            text = f"group {self.id}: member {member.id} has left, or came back under another id"
            return Beaten(ErrorCode.UNKNOWN_MEMBER_ID, text)
        had = member.now.assigned
        self._reconcile(member, asked.owned, now_ms)
        is_told = asked.is_full or had != member.now.assigned
        return Beaten(
            member_id=member.id,
            epoch=member.now.epoch,
            heartbeat_interval_ms=self.terms().heartbeat_interval_ms,
            assigned=member.now.assigned if is_told else None,
        )

    def _touch(self, member: ConsumerMember, now_ms: int) -> None:
        classic = member.subscription.classic
        if classic is None:
            super()._touch(member, now_ms)
        else:
            member.deadline_ms = self._due(now_ms + classic.session_timeout_ms)

    def _check(self, asked: Beat) -> None:
        """Whatever is refused is refused before anything is changed."""
        terms = self.terms()
        if asked.epoch == JOINING:
            self._check_size(asked.member_id in self.members or asked.instance_id in self.static)
        if asked.assignor is not None and asked.assignor not in terms.assignors:
            raise GroupRefused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {asked.assignor} is not supported. "
                f"Supported assignors: {', '.join(terms.assignors)}.",
            )
        if asked.pattern:
            topic_pattern.check(asked.pattern)

    def _joining(self, asked: Beat) -> ConsumerMember:
        """New, or known and begins again, or a static one that comes back."""
        known = self.members.get(asked.member_id)
        if asked.instance_id in self.static:
            known = self.members[self.static[asked.instance_id]]
            # one of the older protocol has no way to say that it goes away for a while
            if known.now.epoch == AWAY or known.subscription.classic is not None:
                return self._replace(known, asked.member_id)
            if known.id != asked.member_id:
                raise GroupRefused(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"group {self.id}: instance {asked.instance_id} is member {known.id}, which "
                    "has neither left nor timed out",
                )
        # A known one was fenced, or its answer was lost. It goes on where it was: it says that it
        # has nothing, so whatever it is to give up is given up.
        return known or ConsumerMember(asked.member_id)

    def _replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """The instance goes on under a new id, with what it had; its epoch begins again."""
        target = self.targets.get(old.id, NOWHERE)
        self._forget(old)
        if member_id in self.members:  # it was somebody before, who is no more
            self._forget(self.members[member_id])
            self._is_stale = True
        member = ConsumerMember(member_id, old.subscription)
        self._enter(member)
        self._set(member, replace(old.now, epoch=JOINING, previous_epoch=JOINING))
        self.targets[member_id] = target
        self._put(records.member_record(self.id, member_id, member.subscription))
        self._put(records.target_record(self.id, member_id, target))
        return member

    def _member(self, asked: Beat) -> ConsumerMember:
        member = self._known(asked.member_id, asked.instance_id)
        has_own_only = asked.owned is not None and asked.owned <= member.now.assigned
        self._check_epoch(member, asked.epoch, has_own_only)
        return member

    def _known(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        if instance_id is not None:
            holder = self.static.get(instance_id)
            if holder is not None and holder != member_id:
                raise GroupRefused(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"group {self.id}: instance {instance_id} is member {holder}, not {member_id}",
                )
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and instance_id not in self.static):
            raise GroupRefused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {self.id} has no member {member_id!r} with instance {instance_id}",
            )
        return member

    def _leave(self, asked: Beat) -> None:
        member = self._known(asked.member_id, asked.instance_id)
        if asked.epoch == AWAY:
            # it comes back, or its session ends
            self._set(member, replace(member.now, epoch=AWAY, revoking=NOWHERE))
            member.revoke_deadline_ms = NEVER_MS
        else:
            self._forget(member)
            self._is_stale = True

    # Members

    def _hear(self, member: ConsumerMember, said: Subscription) -> None:
        """A known member that begins again may say that it is another instance now."""
        before = member.subscription.instance_id
        super()._hear(member, said)
        if said.instance_id != before:
            self._leave_instance(member, before)
            if said.instance_id is not None:
                self.static[said.instance_id] = member.id

    def _enter(self, member: ConsumerMember) -> None:
        super()._enter(member)
        if member.subscription.instance_id is not None:
            self.static[member.subscription.instance_id] = member.id

    def _forget(self, member: ConsumerMember) -> None:
        for place in member.now.held:
            del self.owners[place]
        self._leave_instance(member, member.subscription.instance_id)
        super()._forget(member)

    def _leave_instance(self, member: ConsumerMember, instance_id: str | None) -> None:
        # records of an earlier version may have two members of one instance
        if instance_id is not None and self.static.get(instance_id) == member.id:
            del self.static[instance_id]

    def _set(self, member: ConsumerMember, now: Assignment[Place]) -> None:
        if now == member.now:
            return
        for place in member.now.held - now.held:
            del self.owners[place]
        for place in now.held - member.now.held:
            holder = self.owners.setdefault(place, member.id)
            assert holder == member.id, f"{self.id}: {place} is {holder}'s, not {member.id}'s"
        member.since = {each: member.since.get(each, now.epoch) for each in now.assigned}
        super()._set(member, now)

    def _reconcile(self, member: ConsumerMember, owned: Places | None, now_ms: int) -> None:
        now = next_assignment(
            member.now,
            self.targets.get(member.id, NOWHERE),
            self.target_epoch,
            owned,
            lambda place: self.owners.get(place, member.id) == member.id,
        )
        if now == member.now:
            return
        self._set(member, now)
        member.revoke_deadline_ms = NEVER_MS
        if now.state is MemberState.UNREVOKED:
            time_ms = member.subscription.rebalance_timeout_ms
            member.revoke_deadline_ms = self._due(now_ms + time_ms)

    # Epoch and target

    def _look_at_topics(self) -> None:
        is_stale = self._topics_seen != self.topics.topics_version
        super()._look_at_topics()
        used = {each.subscription.pattern for each in self.all()} - {""}
        for pattern in self.patterns.keys() - used:
            del self.patterns[pattern]
            self._rights.pop(pattern, None)
            self._put(records.pattern_tombstone(self.id, pattern))
        for pattern in used if is_stale else used - self.patterns.keys():
            rights = self._rights.get(pattern)
            if rights is None:
                continue  # its members were not heard since the start: what is stored counts
            matching = topic_pattern.matching(pattern, self.topics.topic_names())
            names = frozenset(filter(rights.may_describe, matching))
            if names != self.patterns.get(pattern):
                self.patterns[pattern] = names
                value = records.PatternValue(sorted(names), self.topics.topics_version, -1)
                self._put(records.pattern_record(self.id, pattern, value))

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        said = member.subscription
        return self.patterns.get(said.pattern, frozenset()).union(said.topics)

    def _new_targets(
        self, wanted: Mapping[str, frozenset[UUID]], counts: Mapping[UUID, int]
    ) -> dict[str, Places]:
        return ASSIGNORS[self.assignor](wanted, counts, self.targets)

    @property
    def assignor(self) -> str:
        """The one that most members ask for; where nobody does, or equally many, the first."""
        names = self.terms().assignors
        votes = [each.subscription.assignor for each in self.all()]
        return max(names, key=votes.count)

    # OffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups

    def is_newer_member(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        return member is not None and member.subscription.classic is None

    def check_commit(self, member_id: str, epoch: int, places: Iterable[Partition]) -> None:
        """Without member and epoch it is an administrator: for an Empty group only.

        A commit may be on its way while a heartbeat takes the member to another epoch. It counts
        all the same, as far as the member has had the partitions since then."""
        member = self.members.get(member_id)
        if member is not None and self.is_newer_member(member_id) and 0 < epoch < member.now.epoch:
            facts = [(self.topics.topic_facts(each.topic), each.partition) for each in places]
            had = [fact and member.since.get((fact.id, index)) for fact, index in facts]
            if all(since is not None and since <= epoch for since in had):
                return
        if epoch >= 0 or self.members:
            self._check_member_epoch(member_id, epoch)

    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int
    ) -> None:
        if member_id or instance_id is not None or epoch >= 0:
            self._check_member_epoch(member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is not None or epoch >= 0:
            self._check_member_epoch(member_id or "", epoch)

    def _check_member_epoch(self, member_id: str, epoch: int) -> None:
        member = self._known(member_id, None)
        if epoch != member.now.epoch:
            is_newer = member.subscription.classic is None
            raise GroupRefused(
                ErrorCode.STALE_MEMBER_EPOCH if is_newer else ErrorCode.ILLEGAL_GENERATION,
                f"group {self.id}: member {member_id} is in epoch {member.now.epoch}, got {epoch}",
            )

    def tombstones(self) -> list[Record]:
        patterns = [records.pattern_tombstone(self.id, each) for each in self.patterns]
        return [*patterns, *super().tombstones()]

    # Disk

    def restore(self, stored: records.StoredConsumerGroup, now_ms: int) -> None:
        self.patterns = stored.patterns
        self._restore(stored, now_ms)
        for member in self.all():
            if member.now.state is MemberState.UNREVOKED:
                time_ms = member.subscription.rebalance_timeout_ms
                member.revoke_deadline_ms = self._due(now_ms + time_ms)
            self.owners.update(dict.fromkeys(member.now.held, member.id))
            member.since = dict.fromkeys(member.now.assigned, member.now.epoch)
