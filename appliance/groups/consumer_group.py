"""One group of the newer protocol (KIP-848): who is in it, and who has which partition.

No clock, no I/O; time, disk and answers come and go as in `group.py`. Here the broker assigns.
Three numbers follow each other:

    epoch         counts the changes of members, of what they want, and of the topics that they want
    target_epoch  the epoch for which `targets` says who is to have what; the two move together
    member epoch  the target that the member has reached; see `consumer_member.py`

Invariants:
1. `owners` has one member for each partition that somebody may be reading, and a partition enters a
   member's assignment only when it has no other owner.
2. No answer tells what is not on disk: a change is written before whoever asked hears of it.
3. One write of a group is on its way at a time. Heartbeats that come meanwhile wait in `_queued` as
   they are, and are answered together: a thousand members that join take a few targets, not a
   thousand. Other changes wait in `_pending`, by key. What could not be written stays there, so the
   disk never skips a change.
4. `due_ms` is never later than the first deadline; a heartbeat only moves its member's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups import consumer_records as records
from appliance.groups import topic_pattern
from appliance.groups.assignors import ASSIGNORS
from appliance.groups.consumer_member import (
    AWAY,
    JOINING,
    NOWHERE,
    Assignment,
    Beat,
    Beaten,
    ConsumerMember,
    MemberState,
    Place,
    Places,
    Subscription,
    next_assignment,
)
from appliance.groups.member import NEVER_MS
from appliance.groups.records import Partition
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.internal_topic import Record
from appliance.wire import ErrorCode


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


Done = Callable[[ApplianceError | None], None]
Store = Callable[[list[Record], Done], None]
AnswerBeat = Callable[[Beaten], None]
Queued = tuple[Beat, int, AnswerBeat]  # with the time at which it came


@dataclass
class ConsumerGroup:
    id: str
    terms: Callable[[], Terms]
    topics: TopicView
    store: Store
    epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)  # instance id to member id
    targets: dict[str, Places] = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    patterns: dict[str, frozenset[str]] = field(default_factory=dict)  # the topics that match
    due_ms: int = NEVER_MS
    changed_ms: int = -1
    is_dead: bool = False
    _topics_seen: int | None = None
    _pending: dict[bytes, Record] = field(default_factory=dict)
    _waiting: list[Done] = field(default_factory=list)  # for what is pending
    _is_writing: bool = False
    _is_stale: bool = False  # members, or what they want, have changed since the last epoch
    _queued: list[Queued] = field(default_factory=list)  # heartbeats that came during a write

    @property
    def state(self) -> ConsumerState:
        if self.is_dead:
            return ConsumerState.DEAD
        if not self.members:
            return ConsumerState.EMPTY
        arrived = MemberState.STABLE, self.target_epoch
        is_stable = all((each.now.state, each.now.epoch) == arrived for each in self.all())
        return ConsumerState.STABLE if is_stable else ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not (self.members or self._queued or self.is_dead)

    def all(self) -> Iterable[ConsumerMember]:
        return self.members.values()

    # ConsumerGroupHeartbeat

    def consumer_heartbeat(self, asked: Beat, now_ms: int, answer: AnswerBeat) -> None:
        if self._is_writing:
            self._queued.append((asked, now_ms, answer))
            if asked.member_id in self.members:
                self._touch(self.members[asked.member_id], now_ms)
            return
        self._answer_all([(asked, now_ms, answer)])

    def _answer_all(self, beats: Sequence[Queued]) -> None:
        """One epoch, one target and one write, however many of them join or leave."""
        begun: list[tuple[Beat, int, AnswerBeat, ConsumerMember | None]] = []
        for asked, now_ms, answer in beats:
            try:
                begun.append((asked, now_ms, answer, self._begin(asked, now_ms)))
            except GroupRefused as error:
                answer(Beaten(error.kafka_code, str(error)))
        self._refresh()
        told = [
            (answer, self._beaten(asked, member, now_ms) if member else _gone(asked))
            for asked, now_ms, answer, member in begun
        ]

        def stored(error: ApplianceError | None) -> None:
            for answer, beaten in told:
                answer(Beaten(error.kafka_code, str(error)) if error else beaten)

        self._save(stored)

    def _begin(self, asked: Beat, now_ms: int) -> ConsumerMember | None:
        """None: it leaves."""
        if asked.epoch < 0:
            self._leave(asked)
            return None
        self._check(asked)
        member = self._member(asked) if asked.epoch > JOINING else self._joining(asked)
        self._hear(member, member.subscription.after(asked))
        self._touch(member, now_ms)
        return member

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

    def _hear(self, member: ConsumerMember, said: Subscription) -> None:
        """What it says of itself now; what that changes for all comes with the next `_refresh`."""
        before, member.subscription = member.subscription, said
        is_new = member.id not in self.members
        if is_new:
            self._enter(member)
        if is_new or said != before:
            self._put(records.member_record(self.id, member.id, said))
        if is_new or (said.topics, said.pattern) != (before.topics, before.pattern):
            self._is_stale = True

    def _touch(self, member: ConsumerMember, now_ms: int) -> None:
        classic = member.subscription.classic
        time_ms = classic.session_timeout_ms if classic else self.terms().session_timeout_ms
        member.deadline_ms = self._due(now_ms + time_ms)

    def _check_size(self, member_id: str, instance_id: str | None) -> None:
        count, most = len(self.members), self.terms().size_max
        is_known = member_id in self.members or instance_id in self.static
        if count >= most and not is_known:
            raise GroupRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {self.id} has {count} members, wanted at most {most} "
                "(group.consumer.max.size)",
            )

    def _check(self, asked: Beat) -> None:
        """Whatever is refused is refused before anything is changed."""
        terms = self.terms()
        if asked.epoch == JOINING:
            self._check_size(asked.member_id, asked.instance_id)
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
        member = ConsumerMember(member_id, old.subscription)
        self._enter(member)
        self._set(member, old.now._replace(epoch=JOINING, previous_epoch=JOINING))
        self.targets[member_id] = target
        self._put(records.member_record(self.id, member_id, member.subscription))
        self._put(records.target_record(self.id, member_id, target))
        return member

    def _member(self, asked: Beat) -> ConsumerMember:
        member = self._known(asked.member_id, asked.instance_id)
        self._check_epoch(member, asked)
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

    def _check_epoch(self, member: ConsumerMember, asked: Beat) -> None:
        now = member.now
        if asked.epoch == now.epoch:
            return
        # The answer with the present epoch was lost, if it has nothing that it was not given.
        has_own_only = asked.owned is not None and asked.owned <= now.assigned
        if asked.epoch != now.previous_epoch or asked.epoch > now.epoch or not has_own_only:
            raise GroupRefused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"group {self.id}: member {member.id} is in epoch {now.epoch}, got {asked.epoch}; "
                "it must give up its partitions and join again",
            )

    def _leave(self, asked: Beat) -> None:
        member = self._known(asked.member_id, asked.instance_id)
        if asked.epoch == AWAY:
            # it comes back, or its session ends
            self._set(member, member.now._replace(epoch=AWAY, revoking=NOWHERE))
            member.revoke_deadline_ms = NEVER_MS
        else:
            self._forget(member)
            self._is_stale = True

    # Members

    def _enter(self, member: ConsumerMember) -> None:
        self.members[member.id] = member
        if member.subscription.instance_id is not None:
            self.static[member.subscription.instance_id] = member.id

    def _forget(self, member: ConsumerMember) -> None:
        for place in member.now.held:
            del self.owners[place]
        del self.members[member.id]
        if member.subscription.instance_id is not None:
            del self.static[member.subscription.instance_id]
        self.targets.pop(member.id, None)
        for each in records.member_tombstones(self.id, member.id):
            self._put(each)

    def _remove(self, members: Iterable[ConsumerMember]) -> None:
        for each in members:
            self._forget(each)
        self._is_stale = True
        self._refresh()

    def _set(self, member: ConsumerMember, now: Assignment) -> None:
        if now == member.now:
            return
        for place in member.now.held - now.held:
            del self.owners[place]
        for place in now.held - member.now.held:
            holder = self.owners.setdefault(place, member.id)
            assert holder == member.id, f"{self.id}: {place} is {holder}'s, not {member.id}'s"
        member.now = now
        member.since = {each: member.since.get(each, now.epoch) for each in now.assigned}
        self._put(records.current_record(self.id, member.id, now))

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

    def _refresh(self) -> None:
        """A new epoch and its target, if members, what they want, or those topics changed."""
        has_changed, self._is_stale = self._is_stale, False
        if not has_changed and self._topics_seen == self.topics.topics_version:
            return
        self._match_patterns()
        facts = {name: self.topics.topic_facts(name) for name in self._wanted_names()}
        there = {name: each for name, each in facts.items() if each is not None}
        metadata_hash = _hash_of(there)
        if not has_changed and metadata_hash == self.metadata_hash:
            return
        self.epoch += 1
        self.metadata_hash = metadata_hash
        self._put(records.epoch_record(self.id, self.epoch, metadata_hash))
        self._assign(there)

    def _match_patterns(self) -> None:
        version = self.topics.topics_version
        is_stale, self._topics_seen = self._topics_seen != version, version
        used = {each.subscription.pattern for each in self.all()} - {""}
        for pattern in self.patterns.keys() - used:
            del self.patterns[pattern]
            self._put(records.pattern_tombstone(self.id, pattern))
        for pattern in used if is_stale else used - self.patterns.keys():
            found = topic_pattern.matching(pattern, self.topics.topic_names())
            if found != self.patterns.get(pattern):
                self.patterns[pattern] = found
                value = records.PatternValue(sorted(found), version, -1)
                self._put(records.pattern_record(self.id, pattern, value))

    def _wanted_names(self) -> frozenset[str]:
        return frozenset[str]().union(*(self.wanted_by(each) for each in self.all()))

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        said = member.subscription
        return self.patterns.get(said.pattern, frozenset()).union(said.topics)

    def _assign(self, topics: Mapping[str, TopicFacts]) -> None:
        # static members keep their place in the order when they come back under a new id
        order = sorted(self.all(), key=lambda each: each.subscription.instance_id or each.id)
        ids = {name: each.id for name, each in topics.items()}
        wanted = {
            each.id: frozenset(ids[name] for name in self.wanted_by(each) if name in ids)
            for each in order
        }
        counts = {each.id: each.partitions for each in topics.values()}
        targets = ASSIGNORS[self.assignor](wanted, counts, self.targets)
        for member_id, places in targets.items():
            if places != self.targets.get(member_id):
                self._put(records.target_record(self.id, member_id, places))
        self.targets = targets
        self.target_epoch = self.epoch
        self._put(records.target_epoch_record(self.id, self.epoch))

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

    def subscribed(self) -> frozenset[str]:
        return self._wanted_names()

    def delete(self) -> None:
        if self.members or self._queued:
            raise GroupRefused(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {self.id} is {self.state.value} with {len(self.members)} members",
            )
        self.is_dead = True

    def tombstones(self) -> list[Record]:
        members = [one for each in self.members for one in records.member_tombstones(self.id, each)]
        patterns = [records.pattern_tombstone(self.id, each) for each in self.patterns]
        return [*members, *patterns, *records.group_tombstones(self.id)]

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

    def stop(self) -> None:
        """Nobody waits here but for the disk."""

    def _due(self, at_ms: int) -> int:
        self.due_ms = min(self.due_ms, at_ms)
        return at_ms

    # Disk

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
            queued, self._queued = self._queued, []
            if queued:
                self._answer_all(queued)
            if self._waiting and not self._is_writing:
                self._write()
            for each in waiting:
                each(error)

        self.store(list(written.values()), stored)

    def restore(self, found: records.StoredConsumerGroup, now_ms: int) -> None:
        """What a restart finds. Members go on in their epochs, each with a new session."""
        self.epoch, self.target_epoch = found.epoch or 0, found.target_epoch
        self.metadata_hash, self.patterns = found.metadata_hash, found.patterns
        for member_id, said in found.members.items():
            member = ConsumerMember(member_id, said, found.now.get(member_id, Assignment()))
            self._touch(member, now_ms)
            if member.now.state is MemberState.UNREVOKED:
                member.revoke_deadline_ms = self._due(now_ms + said.rebalance_timeout_ms)
            self._enter(member)
            self.targets[member_id] = found.targets.get(member_id, NOWHERE)
            self.owners.update(dict.fromkeys(member.now.held, member_id))
            member.since = dict.fromkeys(member.now.assigned, member.now.epoch)


def _gone(asked: Beat) -> Beaten:
    return Beaten(member_id=asked.member_id, epoch=asked.epoch)


def _hash_of(topics: Mapping[str, TopicFacts]) -> int:
    """64 bits that are others when a topic comes, goes, or gets more partitions."""
    digest = hashlib.blake2b(digest_size=8)
    for name, facts in sorted(topics.items()):
        digest.update(f"{name} {facts.id.hex} {facts.partitions}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
