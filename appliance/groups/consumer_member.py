"""One member of a consumer group: what it says of itself, what it asks, and what it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance.groups.handover import NOTHING, Assignment, Place, Places
from appliance.groups.member import NEVER_MS, size_of_member

TOPIC_BYTES = 64  # of a text as an object
PLACE_BYTES = 100  # of a partition that a member has

# Epochs that say something else than how far a member is
JOINING, LEAVING, AWAY = 0, -1, -2


class Rights(NamedTuple):
    """Which topics a member may see, in a generation of access rules."""

    generation: int
    may_describe: Callable[[str], bool]


EVERYTHING = Rights(0, lambda name: True)


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
    rights: Rights = EVERYTHING

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


UNSAID = Subscription()


@dataclass(slots=True)
class ConsumerMember:
    id: str
    subscription: Subscription = UNSAID
    now: Assignment[Place] = NOTHING
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
