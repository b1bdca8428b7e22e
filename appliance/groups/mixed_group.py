"""A group of the newer protocol that may also have members of the older one: it goes over to it.

The first member of the newer protocol takes a group of the older one along, with everybody who is
in it and what they have. From then on the broker assigns. To a member of the older protocol that
looks like a rebalance of its own: a heartbeat tells it to join again, it is never the leader, and
SyncGroup gives it what it may have now. Its generation is its epoch.

    must join again   its epoch is behind, it was told to give up partitions, or those that it
                      waits for are free
    join              tells what it still has, and takes the next step of `next_assignment`
    sync              what it has now

Once the last one has left, the group is like any other. When instead the last one of the newer
protocol is gone, and that is on disk, the others go back to a group of the older one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups import consumer_protocol
from appliance.groups import consumer_records as records
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.consumer_member import Classic, ConsumerMember, Subscription
from appliance.groups.consumer_protocol import CONSUMER
from appliance.groups.group import Group
from appliance.groups.handover import NOWHERE, Assignment, MemberState, Places
from appliance.groups.member import (
    NEVER_MS,
    AnswerJoin,
    AnswerSync,
    Join,
    Joined,
    Member,
    Sync,
    Synced,
)
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode


@dataclass
class MixedGroup(ConsumerGroup):
    # The way in

    def take_over(self, group: Group, now_ms: int) -> None:
        """Its members, as they are; `group` itself is not touched."""
        if group.protocol_type != CONSUMER or len(group.members) > self.terms().size_max:
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {self.id} is not a consumer group: it has {len(group.members)} members of "
                f"protocol type {group.protocol_type}.",
            )
        self.epoch = self.target_epoch = group.generation
        for each in group.members:
            classic = Classic(each.session_timeout_ms, tuple(each.protocols))
            said = Subscription(
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                topics=tuple(sorted(self._read(classic).topics)),
                classic=classic,
            )
            member = ConsumerMember(each.id, said)
            self._enter(member)
            self._put(records.member_record(self.id, member.id, said))
            had = self._places(consumer_protocol.assigned(each.assignment)) - self.owners.keys()
            self._set(member, Assignment(self.epoch, self.epoch, assigned=frozenset(had)))
            self.targets[member.id] = member.now.assigned
            self._put(records.target_record(self.id, member.id, member.now.assigned))
            self._touch(member, now_ms)

    def _read(self, classic: Classic) -> consumer_protocol.Subscription:
        wanted = consumer_protocol.read(classic.protocols[0][1])
        if wanted is None:
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {self.id} is not a consumer group: what its members want cannot be read.",
            )
        return wanted

    def _places(self, by_name: Mapping[str, list[int]]) -> Places:
        facts = {name: self.topics.topic_facts(name) for name in by_name}
        return frozenset(
            (fact.id, index)
            for name, fact in facts.items()
            if fact is not None
            for index in by_name[name]
        )

    # The way back

    @property
    def is_to_go_back(self) -> bool:
        is_on_disk = not self._pending and not self._is_writing
        is_older = all(each.subscription.classic is not None for each in self.all())
        return bool(self.members) and not self.is_dead and is_on_disk and is_older

    def give_back(self, group: Group, now_ms: int) -> None:
        """Its members, with what they have, to a new group. Its generation is the epoch of those
        that are farthest: they hear of a rebalance and give up in order what they have. Those that
        are behind are told that their generation is over."""
        generation = max(each.now.epoch for each in self.all())
        group.take_back([self._as_member(each) for each in self.all()], generation, now_ms)
        self.is_dead, self.due_ms = True, NEVER_MS

    def _as_member(self, member: ConsumerMember) -> Member:
        said, classic = member.subscription, member.subscription.classic
        assert classic is not None, f"{self.id}: {member.id} is of the newer protocol"
        return Member(
            member.id,
            said.instance_id,
            said.client_id,
            said.client_host,
            classic.session_timeout_ms,
            said.rebalance_timeout_ms,
            classic.protocols,
            self._assignment(member, classic),
            is_new=False,
        )

    # JoinGroup

    def join(self, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
        try:
            classic = self._check_protocols(asked)
            if asked.needs_member_id and not asked.member_id and asked.instance_id is None:
                answer(Joined(ErrorCode.MEMBER_ID_REQUIRED, asked.new_member_id))
                return
            joined = self._join(asked, classic, now_ms)
        except GroupRefused as error:
            answer(Joined(error.kafka_code, asked.member_id))
            return

        def stored(error: ApplianceError | None) -> None:
            answer(Joined(error.kafka_code, asked.member_id) if error else joined)

        self._save(stored)

    def _check_protocols(self, asked: Join) -> Classic:
        """Consumers only, and with a protocol that all the others of the older kind know."""
        others = [
            {name for name, _ in each.subscription.classic.protocols}
            for each in self.all()
            if each.subscription.classic is not None and each.id != asked.member_id
        ]
        names = {name for name, _ in asked.protocols}
        is_readable = bool(names) and consumer_protocol.read(asked.protocols[0][1]) is not None
        if asked.protocol_type != CONSUMER or not is_readable or not names.intersection(*others):
            raise GroupRefused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.id} has members of the newer protocol of consumers, got protocol "
                f"type {asked.protocol_type} with {sorted(names)}",
            )
        return Classic(asked.session_timeout_ms, tuple(asked.protocols))

    def _join(self, asked: Join, classic: Classic, now_ms: int) -> Joined:
        member = self._joining_classic(asked)
        read = self._read(classic)
        said = Subscription(
            instance_id=asked.instance_id,
            client_id=asked.client_id,
            client_host=asked.client_host,
            rebalance_timeout_ms=asked.rebalance_timeout_ms,
            topics=tuple(sorted(read.topics)),
            classic=classic,
        )
        self._hear(member, said)
        self._refresh()
        self._reconcile(member, self._places(read.owned()), now_ms)
        if member.now.state is not MemberState.UNREVOKED:
            member.revoke_deadline_ms = NEVER_MS
        self._touch(member, now_ms)
        return Joined(
            member_id=member.id,
            generation=member.now.epoch,
            protocol_type=CONSUMER,
            protocol_name=classic.protocols[0][0],
        )

    def _joining_classic(self, asked: Join) -> ConsumerMember:
        holder = self.static.get(asked.instance_id or "")
        if holder is not None and not asked.member_id:
            return self._replace(self.members[holder], asked.new_member_id)
        member_id = asked.member_id or asked.new_member_id
        if holder is not None or member_id in self.members:
            return self._known(member_id, asked.instance_id)
        self._check_size(is_known=False)
        return ConsumerMember(member_id)

    # SyncGroup

    def sync(self, asked: Sync, now_ms: int, answer: AnswerSync) -> None:
        try:
            member, classic = self._classic(asked.member_id, asked.instance_id, asked.generation)
            given = asked.protocol_type, asked.protocol_name
            ours = CONSUMER, classic.protocols[0][0]
            if any(each not in (None, own) for each, own in zip(given, ours, strict=True)):
                raise GroupRefused(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"member {member.id} has protocol type and name {ours}, got {given}",
                )
            if member.now.epoch < self.epoch and member.now.state is not MemberState.UNREVOKED:
                self._call_back(member, now_ms)
        except GroupRefused as error:
            answer(Synced(error.kafka_code))
            return
        self._touch(member, now_ms)
        synced = Synced(0, *ours, self._assignment(member, classic))

        def stored(error: ApplianceError | None) -> None:
            answer(Synced(error.kafka_code) if error else synced)

        self._save(stored)

    def _assignment(self, member: ConsumerMember, classic: Classic) -> bytes:
        of_topic: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(member.now.assigned, key=lambda each: each[1]):
            of_topic.setdefault(topic_id, []).append(index)
        names = {each: self.topics.topic_name(each) for each in of_topic}
        places = {name: of_topic[each] for each, name in names.items() if name is not None}
        return consumer_protocol.assignment(self._read(classic).version, places)

    # Heartbeat, LeaveGroup, OffsetCommit

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        member, _ = self._classic(member_id, instance_id, generation)
        self._touch(member, now_ms)
        self._refresh()
        self._save(lambda error: None)  # nobody waits; what failed is written with the next
        if self._must_join(member):
            self._call_back(member, now_ms)

    def _must_join(self, member: ConsumerMember) -> bool:
        now = member.now
        if now.state is MemberState.UNRELEASED and now.epoch == self.epoch:
            missing = self.targets.get(member.id, NOWHERE) - now.assigned
            return self.owners.keys().isdisjoint(missing)
        return now.epoch < self.epoch or now.state is MemberState.UNREVOKED

    def _call_back(self, member: ConsumerMember, now_ms: int) -> None:
        """To join again, within the time that it has for a rebalance."""
        if member.revoke_deadline_ms == NEVER_MS:
            time_ms = member.subscription.rebalance_timeout_ms
            member.revoke_deadline_ms = self._due(now_ms + time_ms)
        raise GroupRefused(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"group {self.id} is in epoch {self.epoch}: member {member.id} must join again",
        )

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> None:
        given = member_id or self.static.get(instance_id or "", "")
        member, _ = self._classic(given, instance_id, None)
        self._remove([member])
        self._save(lambda error: None)  # as with a member that times out

    def _classic(
        self, member_id: str, instance_id: str | None, generation: int | None
    ) -> tuple[ConsumerMember, Classic]:
        member = self._known(member_id, instance_id)
        classic = member.subscription.classic
        if classic is None:
            raise GroupRefused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {self.id}: member {member_id} is of the newer protocol",
            )
        if generation not in (None, member.now.epoch):
            raise GroupRefused(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.id}: member {member_id} is in generation {member.now.epoch}, "
                f"got {generation}",
            )
        return member, classic
