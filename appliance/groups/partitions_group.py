"""What groups have in common in which the broker assigns partitions of topics: those of consumers
(KIP-848), and share groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol
from uuid import UUID

from appliance.groups.consumer_member import PLACE_BYTES, ConsumerMember, Subscription
from appliance.groups.consumer_records import StoredGroup
from appliance.groups.handover import NOTHING, NOWHERE, Assignment, Place, Places
from appliance.groups.modern_group import ModernGroup, Tombstones, Topics, hash_of
from appliance.groups.states import ConsumerState
from appliance.topics.internal_topic import Record


class Records(Tombstones, Protocol):
    """How a kind of group is kept: `consumer_records` or `share_records`."""

    def epoch_record(self, group: str, epoch: int, metadata_hash: int) -> Record: ...

    def target_epoch_record(self, group: str, epoch: int) -> Record: ...

    def member_record(self, group: str, member: str, said: Subscription) -> Record: ...

    def target_record(self, group: str, member: str, places: Places) -> Record: ...

    def current_record(self, group: str, member: str, now: Assignment[Place]) -> Record: ...


@dataclass
class PartitionsGroup(ModernGroup):
    RECORDS: ClassVar[Records]

    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Places] = field(default_factory=dict)

    @property
    @abstractmethod
    def state(self) -> ConsumerState: ...

    @property
    def weight(self) -> int:
        said = sum(each.size for each in self.members.values())
        return said + PLACE_BYTES * sum(map(len, self.targets.values()))

    def all(self) -> Iterable[ConsumerMember]:
        return self.members.values()

    # Members

    def _hear(self, member: ConsumerMember, said: Subscription) -> None:
        """What it says of itself now; what that changes for all comes with the next `_refresh`."""
        before, member.subscription = member.subscription, said
        is_new = member.id not in self.members
        if is_new:
            self._enter(member)
        if is_new or said != before:
            self._put(self.RECORDS.member_record(self.id, member.id, said))
        if is_new or (said.topics, said.pattern) != (before.topics, before.pattern):
            self._is_stale = True

    @abstractmethod
    def _reconcile(self, member: ConsumerMember, owned: Places | None, now_ms: int) -> None:
        """Its next step towards its target."""

    def _set(self, member: ConsumerMember, now: Assignment[Place]) -> None:
        if now != member.now:
            member.now = now
            self._put(self.RECORDS.current_record(self.id, member.id, now))

    # Epoch and target

    def _refresh(self) -> None:
        has_changed, self._is_stale = self._is_stale, False
        if not has_changed and self._topics_seen == self.topics.topics_version:
            return
        self._look_at_topics()
        facts = {name: self.topics.topic_facts(name) for name in self._wanted_names()}
        there = {name: each for name, each in facts.items() if each is not None}
        metadata_hash = hash_of(there)
        if not has_changed and metadata_hash == self.metadata_hash:
            return
        self.epoch += 1
        self.metadata_hash = metadata_hash
        self._put(self.RECORDS.epoch_record(self.id, self.epoch, metadata_hash))
        self._assign(there)

    def _look_at_topics(self) -> None:
        self._topics_seen = self.topics.topics_version

    def _wanted_names(self) -> frozenset[str]:
        return frozenset[str]().union(*(self.wanted_by(each) for each in self.all()))

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        return frozenset(member.subscription.topics)

    def subscribed(self) -> frozenset[str]:
        return self._wanted_names()

    def _assign(self, topics: Topics) -> None:
        # static members keep their place in the order when they come back under a new id
        order = sorted(self.all(), key=lambda each: each.subscription.instance_id or each.id)
        ids = {name: each.id for name, each in topics.items()}
        wanted = {
            each.id: frozenset(ids[name] for name in self.wanted_by(each) if name in ids)
            for each in order
        }
        targets = self._new_targets(wanted, {each.id: each.partitions for each in topics.values()})
        for member_id, places in targets.items():
            if places != self.targets.get(member_id):
                self._put(self.RECORDS.target_record(self.id, member_id, places))
        self.targets = targets
        self.target_epoch = self.epoch
        self._put(self.RECORDS.target_epoch_record(self.id, self.epoch))

    @abstractmethod
    def _new_targets(
        self, wanted: Mapping[str, frozenset[UUID]], counts: Mapping[UUID, int]
    ) -> dict[str, Places]: ...

    # Disk

    def _restore(self, stored: StoredGroup, now_ms: int) -> None:
        """What a restart finds. Members go on in their epochs, each with a new session."""
        self.epoch, self.target_epoch = stored.epoch or 0, stored.target_epoch
        self.metadata_hash = stored.metadata_hash
        for member_id, said in stored.members.items():
            member = ConsumerMember(member_id, said, stored.now.get(member_id, NOTHING))
            self._touch(member, now_ms)
            self._enter(member)
            self.targets[member_id] = stored.targets.get(member_id, NOWHERE)
