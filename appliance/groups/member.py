"""What members ask, what they are answered, and what a group remembers of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from appliance.errors import ApplianceError
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode

NEVER_MS = (1 << 63) - 1

Protocols = Sequence[tuple[str, bytes]]  # name and metadata, in the order of preference

MEMBER_BYTES = 1024  # of a member's objects, beside what it says


class Join(NamedTuple):
    """A JoinGroup request."""

    member_id: str  # empty: new
    new_member_id: str  # what a new one is to be called; empty when it has an id
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_member_id: bool = False  # a new member is told its id and joins again with it
    may_skip_assignment: bool = False  # a leader that was only restarted need not assign again


    @property
    def size(self) -> int:
        """What there will be in memory of it."""
        names = (self.member_id or self.new_member_id, self.instance_id or "", self.client_id)
        return size_of_member(names, self.protocols)


def size_of_member(names: Iterable[str], protocols: Protocols = ()) -> int:
    said = sum(len(name) + len(metadata) for name, metadata in protocols)
    return MEMBER_BYTES + sum(map(len, names)) + said


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    error: int = 0
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: Sequence[JoinedMember] = ()  # for the leader
    skip_assignment: bool = False


class Sync(NamedTuple):
    """A SyncGroup request; only the leader's has assignments."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class Synced(NamedTuple):
    error: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


Stored = Callable[[ApplianceError | None, int], None]


class Store(Protocol):
    """Makes the group's record durable, then calls back: with the error, if there was one, and the
    time."""

    def __call__(self, value: GroupMetadataValue, done: Stored) -> None: ...


AnswerJoin = Callable[[Joined], None]
AnswerSync = Callable[[Synced], None]


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    protocols: Protocols = ()
    assignment: bytes = b""
    deadline_ms: int = NEVER_MS  # of its session; means nothing while it is parked
    is_new: bool = True
    join: AnswerJoin | None = None
    sync: AnswerSync | None = None

    @property
    def size(self) -> int:
        names = (self.id, self.instance_id or "", self.client_id)
        return size_of_member(names, self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    def answer_sync(self, synced: Synced) -> None:
        if self.sync is not None:
            answer, self.sync = self.sync, None
            answer(synced)

    def is_late(self, now_ms: int) -> bool:
        is_parked = self.join is not None or self.sync is not None
        return self.deadline_ms <= now_ms and (self.is_new or not is_parked)


@dataclass(slots=True)
class Rebalance:
    """The time that members have to join."""

    deadline_ms: int
    # Of an empty group: it waits a little for more members, so that ten consumers that start
    # together make one rebalance and not ten. Each newcomer makes it wait again, up to `left_ms`.
    is_first: bool = False
    left_ms: int = 0
    has_newcomer: bool = False


class Members:
    """Who is in a group, what all of them support, and who is parked in JoinGroup."""

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
            found = (name for name, each in self._supporters.items() if each == count)
            self._common = frozenset(found)
        return self._common

    def select_protocol(self) -> str:
        """Everybody votes for the first in its own list that all know; most votes win."""
        common = self.common_protocols()
        votes = Counter(next(name for name, _ in each.protocols if name in common) for each in self)
        return votes.most_common(1)[0][0]

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
