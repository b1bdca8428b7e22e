"""Share sessions: which share partitions a member fetches, so that it need not name them each time.

A session is a member's on one broker. Its epoch goes up by one with every request, so that one that
comes twice, or late, is refused: acknowledgements must not be taken for others. Epoch 0 begins a
session, in place of the one before; -1 ends it. It ends as well when its member times out or its
connection closes. What its member had acquired is then anybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from appliance.protocol import ErrorCode
from appliance.share.states import ShareRefused

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1


class TopicPartition(NamedTuple):
    topic_id: UUID
    partition: int


class Member(NamedTuple):
    group: str
    id: str


@dataclass(eq=False)
class Waiter:
    """A fetch that waits, or is about to."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Session:
    member: Member
    connection: int
    epoch: int = 1  # of the next request
    is_open: bool = True
    fetches: int = 0  # so many have begun; none but the last waits
    waiter: Waiter | None = None
    partitions: dict[TopicPartition, None] = field(default_factory=dict)  # in order

    def step(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def in_turn(self) -> list[TopicPartition]:
        """Each request begins with another partition, so that none starves."""
        order = [*self.partitions]
        first = self.epoch % len(order) if order else 0
        return order[first:] + order[:first]


class ShareSessions:
    def __init__(self, sessions_max: int, partitions_max: int, partitions_all_max: int) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._partitions_all_max = partitions_all_max
        self._partitions = 0  # of all sessions
        self._sessions: dict[Member, Session] = {}
        self._of_connection: dict[int, set[Member]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, member: Member, connection: int, partitions: Iterable[TopicPartition]
    ) -> Session:
        self.close(member)
        if len(self._sessions) >= self._sessions_max:
            raise ShareRefused(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"there are {len(self._sessions)} share sessions, which is the limit "
                "(group.share.max.share.sessions)",
            )
        session = Session(member, connection)
        self._add(session, partitions)
        self._sessions[member] = session
        self._of_connection.setdefault(connection, set()).add(member)
        return session

    def all(self) -> list[Session]:
        return [*self._sessions.values()]

    def has_group(self, group: str) -> bool:
        return any(each.group == group for each in self._sessions)

    def of_connection(self, connection: int) -> list[Member]:
        return [*self._of_connection.get(connection, ())]

    def find(self, member: Member) -> Session:
        session = self._sessions.get(member)
        if session is None:
            raise ShareRefused(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"member {member.id} has no share session in group {member.group}",
            )
        return session

    def step(self, member: Member, epoch: int) -> Session:
        """The request that is due, and no other."""
        session = self.find(member)
        if session.epoch != epoch:
            raise ShareRefused(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"got share session epoch {epoch} of member {member.id}, wanted {session.epoch}",
            )
        session.step()
        return session

    def change(
        self,
        session: Session,
        added: Iterable[TopicPartition],
        forgotten: Iterable[TopicPartition],
    ) -> None:
        self._add(session, added)
        before = len(session.partitions)
        for each in forgotten:
            session.partitions.pop(each, None)
        self._partitions += len(session.partitions) - before

    def _add(self, session: Session, partitions: Iterable[TopicPartition]) -> None:
        added = dict.fromkeys(partitions)
        count = len(session.partitions.keys() | added.keys())
        if count > self._partitions_max:
            raise ShareRefused(
                ErrorCode.INVALID_REQUEST,
                f"got {count} partitions in one share session, wanted at most "
                f"{self._partitions_max} (group.share.max.session.partitions)",
            )
        total = self._partitions + count - len(session.partitions)
        if total > self._partitions_all_max:
            raise ShareRefused(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"there would be {total} partitions in share sessions, wanted at most "
                f"{self._partitions_all_max} (fetch.max.total.partitions)",
            )
        self._partitions = total
        session.partitions |= added

    def close(self, member: Member) -> Session | None:
        session = self._sessions.pop(member, None)
        if session is not None:
            session.is_open = False
            self._partitions -= len(session.partitions)
            own = self._of_connection[session.connection]
            own.discard(member)
            if not own:
                del self._of_connection[session.connection]
        return session
