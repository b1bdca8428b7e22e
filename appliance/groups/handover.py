"""How a partition goes from one member of a group to another, and a task of Kafka Streams.

It takes three steps, each in an answer to a heartbeat: the old owner is told to stop, it says that
it has stopped, the new one is told to begin. `next_assignment` is one member's part in that:

    STABLE      it has what the target says
    UNREVOKED   it was told to give up some of it, and has not yet said that it did
    UNRELEASED  it waits for what others have not yet given up

Its epoch is the target's once it has given up all that is not its own any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar
from uuid import UUID

Place = tuple[UUID, int]  # topic id and partition
Places = frozenset[Place]
Item = TypeVar("Item")  # a place, or a task

NOWHERE: Places = frozenset()


class MemberState(IntEnum):
    """As the records of consumer groups and share groups number them."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


@dataclass(frozen=True, slots=True)
class Assignment(Generic[Item]):
    """What a member has, and how far it is."""

    epoch: int = 0
    previous_epoch: int = 0  # the answer with the present one may have been lost
    state: MemberState = MemberState.STABLE
    assigned: frozenset[Item] = frozenset()
    revoking: frozenset[Item] = frozenset()  # it was told to give them up

    @property
    def held(self) -> frozenset[Item]:
        """What others may have to wait for."""
        return self.assigned | self.revoking


NOTHING: Assignment[Any] = Assignment()


def next_assignment(
    now: Assignment[Item],
    target: frozenset[Item],
    target_epoch: int,
    owned: frozenset[Item] | None,
    is_free: Callable[[Item], bool],
) -> Assignment[Item]:
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
