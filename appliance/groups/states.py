"""The states of a classic group, as tables: what follows what, and what is refused when.

    Empty                no members; offsets may be there
    PreparingRebalance   members are asked to join, and those who did wait for the others
    CompletingRebalance  a generation has begun; members wait for the leader's assignment
    Stable               every member has its assignment, or can get it
    Dead                 deleted; nobody finds it any more

A group that is made for its first member is Empty for a moment. The functions of `group.py` that
make each transition:

    Empty, Stable, CompletingRebalance -> PreparingRebalance   Group._prepare_rebalance
    (what is left of a newer group) -> PreparingRebalance      Group.take_back
    PreparingRebalance -> CompletingRebalance, Empty           Group.begin_generation
    CompletingRebalance -> Stable                              Group._assigned
    Empty -> Dead                                              Group.delete

A group in which the broker assigns needs no table: its state follows from its members
(`ConsumerGroup`, `StreamsGroup`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from appliance.errors import Refused
from appliance.protocol import ErrorCode


class State(Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerState(Enum):
    """Of a group of the newer protocol, by the names that clients see."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"  # somebody has not yet what it is to have
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsState(Enum):
    """Of a group of Kafka Streams, by the names that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"  # topics are missing, or have the wrong number of partitions
    ASSIGNING = "Assigning"  # the first members wait for others
    RECONCILING = "Reconciling"  # somebody has not yet what it is to have
    STABLE = "Stable"
    DEAD = "Dead"


ModernState = ConsumerState | StreamsState


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE}),
    State.DEAD: frozenset(),
}


class Ask(Enum):
    """What a member of the group's current generation may ask."""

    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    COMMIT = "OffsetCommit"


# What a member is refused, by state; what is not here is allowed. An Empty group has no members, so
# it refuses them by not knowing them. A heartbeat during a rebalance counts as a sign of life all
# the same. In CompletingRebalance a member may beat, because it waits for the leader; but what it
# read belongs to partitions that may be another's now, so it may not commit.
REFUSED: Mapping[Ask, Mapping[State, ErrorCode]] = {
    Ask.SYNC: {State.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS},
    Ask.HEARTBEAT: {State.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS},
    Ask.COMMIT: {State.COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS},
}


class GroupRefused(Refused):
    """What was asked of a group may not be, or not now."""
