"""Who is in a classic group, what all of them support, and who is parked in JoinGroup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from appliance.groups import consumer_protocol
from appliance.groups.member import AnswerJoin, Join, Joined, JoinedMember, Member, Synced
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode


class Members:
    def __init__(self, group_id: str) -> None:
        self.static: dict[str, str] = {}  # instance id to member id
        self.leader_id: str | None = None  # the first that came, as long as it is there
        self.joining = 0  # parked in JoinGroup
        self.bytes = 0  # what members say, and are called
        self.assigned_bytes = 0
        self._group_id = group_id
        self._by_id: dict[str, Member] = {}
        self._supporters: Counter[str] = Counter()  # of each protocol
        self._common: frozenset[str] | None = None  # protocols of all; None: not known now

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def find(self, member_id: str, instance_id: str | None) -> Member:
        if instance_id is not None:
            holder = self.static.get(instance_id)
            if holder is not None and holder != member_id:
                raise GroupRefused(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"group {self._group_id}: instance {instance_id} is member {holder}, "
                    f"not {member_id!r}",
                )
        member = self._by_id.get(member_id)
        if member is None or (instance_id is not None and member.instance_id != instance_id):
            raise GroupRefused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {self._group_id} has no member {member_id!r} with instance {instance_id}",
            )
        return member

    def size_of(self, member_id: str) -> int:
        member = self._by_id.get(member_id)
        return member.size if member is not None else 0

    def of_instance(self, instance_id: str) -> Member:
        return self._by_id[self.static[instance_id]]

    # Coming and going

    def enter(self, member: Member, asked: Join) -> None:
        self._enter(member)
        self.take(member, asked)

    def restore(self, value: GroupMetadataValue.MemberMetadata, protocol: str) -> Member:
        # version 0 of the record had no rebalance timeout; clients of its time took the session's
        has_timeout = value.rebalance_timeout >= 0
        member = Member(
            value.member_id,
            value.group_instance_id,
            value.client_id,
            value.client_host,
            value.session_timeout,
            value.rebalance_timeout if has_timeout else value.session_timeout,
            [(protocol, value.subscription)],
            value.assignment,
            is_new=False,
        )
        self.adopt(member)
        self.assigned_bytes += len(value.assignment)
        return member

    def rows(
        self, protocol: str | None, assigned: Mapping[str, bytes] | None
    ) -> list[GroupMetadataValue.MemberMetadata]:
        """As they are, or with the assignments that are about to hold."""
        return [
            GroupMetadataValue.MemberMetadata(
                member_id=each.id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout=each.rebalance_timeout_ms,
                session_timeout=each.session_timeout_ms,
                subscription=each.metadata(protocol),
                assignment=each.assignment if assigned is None else assigned[each.id],
            )
            for each in self
        ]

    def adopt(self, member: Member) -> None:
        """One that is known from elsewhere."""
        self._enter(member)
        self._support(member, 1)

    def _enter(self, member: Member) -> None:
        self.bytes += member.size
        self._by_id[member.id] = member
        self._common = None
        self.leader_id = self.leader_id or member.id
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def take(self, member: Member, asked: Join) -> None:
        """What a member says of itself each time it joins."""
        is_same = [name for name, _ in member.protocols] == [name for name, _ in asked.protocols]
        if not is_same:
            self._support(member, -1)
        self.bytes -= member.size
        member.client_id, member.client_host = asked.client_id, asked.client_host
        member.session_timeout_ms = asked.session_timeout_ms
        member.rebalance_timeout_ms = asked.rebalance_timeout_ms
        member.protocols = asked.protocols
        self.bytes += member.size
        if not is_same:
            self._support(member, 1)

    def remove(self, member: Member, error: int) -> None:
        """Its parked calls get the error."""
        self.answer_join(member, Joined(error, member.id))
        member.answer_sync(Synced(error))
        self._support(member, -1)
        self.bytes -= member.size
        del self._by_id[member.id]
        # records of an earlier version may have two members of one instance
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if member.id == self.leader_id:
            self.leader_id = next(iter(self._by_id), None)

    def elect_leader(self) -> None:
        """The one that led before, if it is back."""
        leader = self._by_id.get(self.leader_id or "")
        if leader is None or leader.join is None:
            self.leader_id = next(each.id for each in self if each.join is not None)

    # Waiting

    def park_join(self, member: Member, answer: AnswerJoin) -> None:
        if member.join is not None:  # its client asked again: no answer may be left out
            self.answer_join(member, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.id))
        member.join = answer
        self.joining += 1

    def answer_join(self, member: Member, joined: Joined) -> None:
        if member.join is not None:
            self.joining -= 1
            answer, member.join = member.join, None
            answer(joined)

    def answer_syncs(self, error: int) -> None:
        """There is no assignment any more."""
        synced = Synced(error)
        self.assigned_bytes = 0
        for each in self:
            each.assignment = b""
            each.answer_sync(synced)

    # What they have in common

    def common_protocols(self) -> frozenset[str]:
        if self._common is None:
            count = len(self)
            supporters = self._supporters.items()
            self._common = frozenset(name for name, each in supporters if each == count)
        return self._common

    def select_protocol(self) -> str:
        """Everybody votes for the first in its own list that all know; most votes win."""
        common = self.common_protocols()
        votes = Counter(next(name for name, _ in each.protocols if name in common) for each in self)
        return votes.most_common(1)[0][0]

    def subscribed(self, protocol: str) -> frozenset[str] | None:
        """The topics that consumers want; None where one does not tell."""
        wanted: set[str] = set()
        for each in self:
            topics = consumer_protocol.topics(each.metadata(protocol))
            if topics is None:
                return None
            wanted |= topics
        return frozenset(wanted)

    def rebalance_timeout_ms(self) -> int:
        return max((each.rebalance_timeout_ms for each in self), default=0)

    def for_leader(self, protocol: str | None) -> list[JoinedMember]:
        return [JoinedMember(each.id, each.instance_id, each.metadata(protocol)) for each in self]

    def _support(self, member: Member, by: int) -> None:
        self._common = None
        for name in {name for name, _ in member.protocols}:
            self._supporters[name] += by
            if not self._supporters[name]:
                del self._supporters[name]
