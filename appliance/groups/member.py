"""What members ask, what they are answered, and what a group remembers of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from appliance.errors import ApplianceError
from appliance.groups.records import GroupMetadataValue

NEVER_MS = (1 << 63) - 1

Protocols = Sequence[tuple[str, bytes]]  # name and metadata, in the order of preference


class Join(NamedTuple):
    """A JoinGroup request."""

    member_id: str  # empty: new
    new_member_id: str  # what a new one is to be called
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_member_id: bool = False  # a new member is told its id and joins again with it
    may_skip_assignment: bool = False  # a leader that was only restarted need not assign again


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
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    deadline_ms: int = NEVER_MS  # of its session; means nothing while it is parked
    is_new: bool = True
    join: AnswerJoin | None = None
    sync: AnswerSync | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

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
