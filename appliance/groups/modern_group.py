"""What groups have in common in which the broker assigns: of consumers (KIP-848), and share groups.

No clock, no I/O; time, disk and answers come and go as in `group.py`. Three numbers follow each
other:

    epoch         counts the changes of members, of what they want, and of the topics that they want
    target_epoch  the epoch for which `targets` says who is to have what; the two move together
    member epoch  the target that the member has reached; see `partition_handover.py`

Invariants:
1. No answer tells what is not on disk: a change is written before whoever asked hears of it.
2. One write of a group is on its way at a time; what comes meanwhile waits in `_pending`, by key.
   What could not be written stays there, so the disk never skips a change.
3. `due_ms` is never later than the first deadline; a heartbeat only moves its member's own.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups.consumer_member import PLACE_BYTES, ConsumerMember, Subscription
from appliance.groups.consumer_records import StoredGroup
from appliance.groups.member import NEVER_MS
from appliance.groups.partition_handover import NOTHING, NOWHERE, Assignment, Places
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Record


class TopicFacts(NamedTuple):
    id: UUID
    partitions: int


class TopicView(Protocol):
    """The topics that there are."""

    @property
    def topics_version(self) -> int:
        """Another number after every change."""
        ...

    def topic_names(self) -> Iterable[str]: ...

    def topic_facts(self, name: str) -> TopicFacts | None: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...


class Terms(NamedTuple):
    """What holds for the members of a group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    size_max: int
    assignors: tuple[str, ...]  # the first is for those who ask for none


class Records(Protocol):
    """How a kind of group is kept: `consumer_records` or `share_records`."""

    def epoch_record(self, group: str, epoch: int, metadata_hash: int) -> Record: ...

    def target_epoch_record(self, group: str, epoch: int) -> Record: ...

    def member_record(self, group: str, member: str, said: Subscription) -> Record: ...

    def target_record(self, group: str, member: str, places: Places) -> Record: ...

    def current_record(self, group: str, member: str, now: Assignment) -> Record: ...

    def member_tombstones(self, group: str, member: str) -> list[Record]: ...

    def group_tombstones(self, group: str) -> list[Record]: ...


Done = Callable[[ApplianceError | None], None]
Store = Callable[[list[Record], Done], None]
Topics = Mapping[str, TopicFacts]


@dataclass
class ModernGroup(ABC):
    KIND: ClassVar[str]  # as in the names of settings
    RECORDS: ClassVar[Records]

    id: str
    terms: Callable[[], Terms]
    topics: TopicView
    store: Store
    epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Places] = field(default_factory=dict)
    due_ms: int = NEVER_MS
    changed_ms: int = -1
    is_dead: bool = False
    _topics_seen: int | None = None
    _pending: dict[bytes, Record] = field(default_factory=dict)
    _waiting: list[Done] = field(default_factory=list)  # for what is pending
    _is_writing: bool = False
    _is_stale: bool = False  # members, or what they want, have changed since the last epoch

    @property
    @abstractmethod
    def state(self) -> ConsumerState: ...

    @property
    def weight(self) -> int:
        """What it has in memory of its members. It looks at each of them."""
        said = sum(each.size for each in self.members.values())
        return said + PLACE_BYTES * sum(map(len, self.targets.values()))

    def weight_of(self, member_id: str) -> int:
        member = self.members.get(member_id)
        return member.size if member is not None else 0

    @property
    def is_empty(self) -> bool:
        return not self.members and not self.is_dead

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

    def _set(self, member: ConsumerMember, now: Assignment) -> None:
        if now != member.now:
            member.now = now
            self._put(self.RECORDS.current_record(self.id, member.id, now))

    def _touch(self, member: ConsumerMember, now_ms: int) -> None:
        member.deadline_ms = self._due(now_ms + self.terms().session_timeout_ms)

    def _check_size(self, is_known: bool) -> None:
        count, most = len(self.members), self.terms().size_max
        if count >= most and not is_known:
            raise GroupRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {self.id} has {count} members, wanted at most {most} "
                f"(group.{self.KIND}.max.size)",
            )

    def _check_epoch(self, member: ConsumerMember, epoch: int, has_own_only: bool) -> None:
        """The one before is right, too: the answer with the present epoch may have been lost. But
        it must have nothing that it was not given."""
        now = member.now
        if epoch == now.epoch:
            return
        if epoch != now.previous_epoch or epoch > now.epoch or not has_own_only:
            raise GroupRefused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"group {self.id}: member {member.id} is in epoch {now.epoch}, got {epoch}; "
                "it must give up its partitions and join again",
            )

    def _enter(self, member: ConsumerMember) -> None:
        self.members[member.id] = member

    def _forget(self, member: ConsumerMember) -> None:
        del self.members[member.id]
        self.targets.pop(member.id, None)
        for each in self.RECORDS.member_tombstones(self.id, member.id):
            self._put(each)

    def _remove(self, members: Iterable[ConsumerMember]) -> None:
        for each in members:
            self._forget(each)
        self._is_stale = True
        self._refresh()

    # Epoch and target

    def _refresh(self) -> None:
        """A new epoch and its target, if members, what they want, or those topics changed."""
        has_changed, self._is_stale = self._is_stale, False
        if not has_changed and self._topics_seen == self.topics.topics_version:
            return
        self._look_at_topics()
        facts = {name: self.topics.topic_facts(name) for name in self._wanted_names()}
        there = {name: each for name, each in facts.items() if each is not None}
        metadata_hash = _hash_of(there)
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

    # DeleteGroups

    def delete(self) -> None:
        if not self.is_empty:
            raise GroupRefused(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {self.id} is {self.state.value} with {len(self.members)} members",
            )
        self.is_dead = True

    def tombstones(self) -> list[Record]:
        tombstones = self.RECORDS.member_tombstones
        members = [one for each in self.members for one in tombstones(self.id, each)]
        return [*members, *self.RECORDS.group_tombstones(self.id)]

    # Time

    def tick(self, now_ms: int) -> None:
        """Whoever is silent, or does not give up what it was told to, is out."""
        late = [
            each
            for each in self.all()
            if each.deadline_ms <= now_ms or each.revoke_deadline_ms <= now_ms
        ]
        if late:
            self._remove(late)
            self._save(lambda error: None)  # nobody asked; what failed is written with the next
        self.due_ms = min(
            (min(each.deadline_ms, each.revoke_deadline_ms) for each in self.all()),
            default=NEVER_MS,
        )

    def postpone(self, by_ms: int, now_ms: int) -> None:
        """The process stood still so long: signs of life wait unread, and nobody is late yet."""
        end_ms = now_ms + min(by_ms, self.terms().session_timeout_ms)
        for each in self.all():
            each.deadline_ms = max(each.deadline_ms, end_ms)
            each.revoke_deadline_ms = max(each.revoke_deadline_ms, end_ms)

    def _due(self, at_ms: int) -> int:
        self.due_ms = min(self.due_ms, at_ms)
        return at_ms

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

    def unload(self, why: GroupRefused) -> None:
        """It is another broker's: whoever waits is told, and nothing is stored here any more."""
        self.is_dead, self.due_ms = True, NEVER_MS
        self.store = lambda records, done: done(why)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each(why)

    def supersede(self, tombstones: Iterable[Record]) -> None:
        """What another group of this name has on disk goes with the first write of this one."""
        for each in tombstones:
            self._put(each)

    def _put(self, record: Record) -> None:
        self._pending[record.key] = record

    def _save(self, done: Done) -> None:
        """Calls `done` when all that changed up to here is on disk."""
        if not self._pending and not self._is_writing:
            done(None)
            return
        self._waiting.append(done)
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        written, self._pending = self._pending, {}
        waiting, self._waiting = self._waiting, []
        self._is_writing = True

        def stored(error: ApplianceError | None) -> None:
            self._is_writing = False
            if error is not None:
                self._pending = {**written, **self._pending}
            self._written()
            if self._waiting and not self._is_writing:
                self._write()
            for each in waiting:
                each(error)

        self.store(list(written.values()), stored)


    def _written(self) -> None:  # noqa: B027  # a group may have nothing to do then
        """A write has come to its end."""


def _hash_of(topics: Topics) -> int:
    """64 bits that are others when a topic comes, goes, or gets more partitions."""
    digest = hashlib.blake2b(digest_size=8)
    for name, facts in sorted(topics.items()):
        digest.update(f"{name} {facts.id.hex} {facts.partitions}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
