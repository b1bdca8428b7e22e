"""What members ask, what they are answered, and what a group remembers of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from appliance.errors import ApplianceError
from appliance.groups.records import GroupMetadataValue

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
