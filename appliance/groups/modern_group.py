"""What groups have in common in which the broker assigns: of consumers (KIP-848), share groups, and
those of Kafka Streams (`streams/group.py`).

No clock, no I/O; time, disk and answers come and go as in `group.py`. Three numbers follow each
other:

    epoch         counts the changes of members, of what they want, and of the topics that they want
    target_epoch  the epoch for which `targets` says who is to have what; the two move together
    member epoch  the target that the member has reached; see `handover.py`

`partitions_group.py` is about what is assigned in the first two: partitions of topics.

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
from typing import Any, ClassVar, NamedTuple, Protocol
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups.member import NEVER_MS
from appliance.groups.states import GroupRefused, ModernState
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


class Handed(Protocol):
    """How far a member is."""

    @property
    def epoch(self) -> int: ...

    @property
    def previous_epoch(self) -> int: ...


class ModernMember(Protocol):
    deadline_ms: int  # of its session
    revoke_deadline_ms: int  # until when it must have given up what it was told to

    @property
    def id(self) -> str: ...

    @property
    def now(self) -> Handed: ...

    @property
    def size(self) -> int: ...


class Tombstones(Protocol):
    """How a kind of group goes: `consumer_records`, `share_records`, or `streams/records`."""

    def member_tombstones(self, group: str, member: str) -> list[Record]: ...

    def group_tombstones(self, group: str) -> list[Record]: ...


Done = Callable[[ApplianceError | None], None]
Store = Callable[[list[Record], Done], None]
Topics = Mapping[str, TopicFacts]


@dataclass
class ModernGroup(ABC):
    KIND: ClassVar[str]  # as in the names of settings
    RECORDS: ClassVar[Tombstones]

    id: str
    terms: Callable[[], Terms]
    topics: TopicView
    store: Store
    epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 0
    # of a kind of their own in each kind of group
    members: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, frozenset[Any]] = field(default_factory=dict)
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
    def state(self) -> ModernState: ...

    @property
    @abstractmethod
    def weight(self) -> int:
        """What it has in memory of its members. It looks at each of them."""

    def weight_of(self, member_id: str) -> int:
        member: ModernMember | None = self.members.get(member_id)
        return member.size if member is not None else 0

    @property
    def is_empty(self) -> bool:
        return not self.members and not self.is_dead

    def all(self) -> Iterable[Any]:
        return self.members.values()

    @abstractmethod
    def subscribed(self) -> frozenset[str]:
        """The topics that its members read."""

    # Members

    def _touch(self, member: Any, now_ms: int) -> None:
        member.deadline_ms = self._due(now_ms + self.terms().session_timeout_ms)

    def _check_size(self, is_known: bool) -> None:
        count, most = len(self.members), self.terms().size_max
        if count >= most and not is_known:
            raise GroupRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {self.id} has {count} members, wanted at most {most} "
                f"(group.{self.KIND}.max.size)",
            )

    def _check_epoch(self, member: ModernMember, epoch: int, has_own_only: bool) -> None:
        """The one before is right, too: the answer with the present epoch may have been lost. But
        it must have nothing that it was not given."""
        now = member.now
        if epoch == now.epoch:
            return
        if epoch != now.previous_epoch or epoch > now.epoch or not has_own_only:
            raise GroupRefused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"group {self.id}: member {member.id} is in epoch {now.epoch}, got {epoch}; "
                "it must give up all that it has and join again",
            )

    def _enter(self, member: Any) -> None:
        self.members[member.id] = member

    def _forget(self, member: Any) -> None:
        del self.members[member.id]
        self.targets.pop(member.id, None)
        for each in self.RECORDS.member_tombstones(self.id, member.id):
            self._put(each)

    def _remove(self, members: Iterable[Any]) -> None:
        for each in members:
            self._forget(each)
        self._is_stale = True
        self._refresh()

    @abstractmethod
    def _refresh(self) -> None:
        """A new epoch and its target, if members, what they want, or those topics changed."""

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


def hash_of(topics: Topics) -> int:
    """64 bits that are others when a topic comes, goes, or gets more partitions."""
    digest = hashlib.blake2b(digest_size=8)
    for name, facts in sorted(topics.items()):
        digest.update(f"{name} {facts.id.hex} {facts.partitions}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
