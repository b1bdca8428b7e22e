"""How a task goes from one member of a streams group to another: the steps of one member.

As with partitions (`partition_handover.py`): the old owner is told to stop, it says that it has
stopped, the new one is told to begin. Here a task has a role, and it is not only another active
owner that keeps a member waiting: state is on the disk of a process, so no two roles of a task are
in one process at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from appliance.groups.streams.task import NO_TASKS, Task, Tasks


class MemberState(IntEnum):
    """As the records number them."""

    STABLE = 1
    UNREVOKED = 2  # it was told to give up tasks, and has not yet said that it did
    UNRELEASED = 3  # it waits for tasks that others have not yet given up


class Assignment(NamedTuple):
    """What a member has, and how far it is."""

    epoch: int = 0
    previous_epoch: int = 0  # the answer with the present one may have been lost
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS  # it was told to give them up

    @property
    def held(self) -> Tasks:
        return self.assigned | self.revoking


NOTHING = Assignment()


def next_assignment(
    now: Assignment,
    target: Tasks,
    target_epoch: int,
    owned: Tasks | None,
    is_free: Callable[[Task], bool],
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
