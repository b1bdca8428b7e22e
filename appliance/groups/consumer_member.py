"""One member of a consumer group: what it asks, what it has, and what comes next for it.

A partition that is to go from one member to another goes in three steps, each in an answer to a
heartbeat: the old owner is told to stop, it says that it has stopped, the new one is told to begin.
`next_assignment` is the member's part in that:

    STABLE      it has what the target says
    UNREVOKED   it was told to give up partitions, and has not yet said that it did
    UNRELEASED  it waits for partitions that others have not yet given up

Its epoch is the target's once it has given up all that is not its own any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from appliance.groups.member import NEVER_MS, size_of_member

Place = tuple[UUID, int]  # topic id and partition
Places = frozenset[Place]

NOWHERE: Places = frozenset()

TOPIC_BYTES = 64  # of a text as an object
PLACE_BYTES = 100  # of a partition that a member has

# Epochs that say something else than how far a member is
JOINING, LEAVING, AWAY = 0, -1, -2


class Beat(NamedTuple):
    """A ConsumerGroupHeartbeat request. None: as it was."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int  # -1: as it was
    topics: Sequence[str] | None
    pattern: str | None
    assignor: str | None
    owned: Places | None

    @property
    def is_full(self) -> bool:
        """It tells all of itself, and wants to be told all."""
        subscribes = self.topics is not None or self.pattern is not None
        is_whole = self.rebalance_timeout_ms >= 0 and subscribes and self.owned is not None
        return self.epoch == JOINING or is_whole


    @property
    def size(self) -> int:
        """What there will be in memory of it, beside partitions."""
        names = (self.member_id, self.instance_id or "", self.rack_id or "", self.client_id,
                 self.assignor or "", self.pattern or "")  # fmt: skip
        topics = sum(len(each) + TOPIC_BYTES for each in self.topics or ())
        return size_of_member(names) + topics


class Beaten(NamedTuple):
    """The answer to it."""

    error: int = 0
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: Places | None = None  # None: as it was


class MemberState(IntEnum):
    """As the records number them."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class Assignment(NamedTuple):
    """What a member has, and how far it is."""

    epoch: int = 0
    previous_epoch: int = 0  # the answer with the present one may have been lost
    state: MemberState = MemberState.STABLE
    assigned: Places = NOWHERE
    revoking: Places = NOWHERE  # it was told to give them up

    @property
    def held(self) -> Places:
        """What nobody else may have."""
        return self.assigned | self.revoking


class Classic(NamedTuple):
    """What a member of the older protocol says beside that (`mixed_group.py`)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """What a member says of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()  # sorted
    pattern: str = ""
    assignor: str | None = None
    classic: Classic | None = None

    def after(self, asked: Beat) -> Subscription:
        topics = self.topics if asked.topics is None else tuple(sorted(set(asked.topics)))
        timeout_ms = asked.rebalance_timeout_ms
        return Subscription(
            asked.instance_id or self.instance_id,
            asked.rack_id or self.rack_id,
            asked.client_id,
            asked.client_host,
            timeout_ms if timeout_ms >= 0 else self.rebalance_timeout_ms,
            topics,
            self.pattern if asked.pattern is None else asked.pattern,
            asked.assignor or self.assignor,
        )


UNSAID, NOTHING = Subscription(), Assignment()


@dataclass(slots=True)
class ConsumerMember:
    id: str
    subscription: Subscription = UNSAID
    now: Assignment = NOTHING
    deadline_ms: int = NEVER_MS  # of its session
    revoke_deadline_ms: int = NEVER_MS  # until when it must have given up partitions
    since: dict[Place, int] = field(default_factory=dict)  # the epoch in which it got each

    @property
    def size(self) -> int:
        """As `Beat.size`."""
        said = self.subscription
        names = (self.id, said.instance_id or "", said.rack_id or "", said.client_id,
                 said.assignor or "", said.pattern)  # fmt: skip
        topics = sum(len(each) + TOPIC_BYTES for each in said.topics)
        return size_of_member(names, said.classic.protocols if said.classic else ()) + topics


def next_assignment(
    now: Assignment,
    target: Places,
    target_epoch: int,
    owned: Places | None,
    is_free: Callable[[Place], bool],
) -> Assignment:
    """`owned` is what the member says it has; None: as before, so it has all it had."""
    if now.state is MemberState.STABLE and now.epoch == target_epoch:
        return now
    epoch = now.epoch
    if now.state is MemberState.UNREVOKED:
        if owned is None or owned & now.revoking:
            return now
        epoch += 1
    kept = now.assigned & target
    revoking = now.assigned - kept
    if revoking and (owned is None or owned & revoking):
        return Assignment(epoch, now.epoch, MemberState.UNREVOKED, kept, revoking)
    missing = target - kept
    given = frozenset(filter(is_free, missing))
    state = MemberState.STABLE if given == missing else MemberState.UNRELEASED
    if (target_epoch, state, kept | given) == (now.epoch, now.state, now.assigned):
        return now
    return Assignment(target_epoch, now.epoch, state, kept | given)
