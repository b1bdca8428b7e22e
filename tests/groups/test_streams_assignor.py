"""Who gets which task: evenly, where it was, and copies on other processes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from appliance.groups.streams.sticky_assignor import Work, assign
from appliance.groups.streams.task import Role, Task, TaskId, Tasks

Targets = Mapping[str, Tasks]


def tasks(name: str, count: int) -> list[TaskId]:
    return [(name, number) for number in range(count)]


def count(targets: Targets, role: Role = Role.ACTIVE, name: str = "") -> dict[str, int]:
    return {member: sum(each.role is role and each.subtopology.startswith(name) for each in own)
            for member, own in targets.items()}  # fmt: skip


def processes(*counts: int) -> dict[str, str]:
    """So many members of each."""
    return {f"m{p}{n}": f"p{p}" for p, most in enumerate(counts) for n in range(most)}


def check(work: Work, targets: Targets) -> None:
    """What holds whatever was before."""
    active = Counter(each.id for own in targets.values() for each in own
                     if each.role is Role.ACTIVE)  # fmt: skip
    assert active == Counter([*work.stateful, *work.stateless])
    for name in ("", "s"):  # all, and those with state
        found = count(targets, name=name).values()
        assert max(found) - min(found) <= 1
    of_process: Counter[tuple[str, TaskId]] = Counter(
        (work.processes[member], each.id) for member, own in targets.items() for each in own)
    assert set(of_process.values()) <= {1}, "a process has a task once"
    copies = Counter(each.id for own in targets.values() for each in own
                     if each.role is Role.STANDBY)  # fmt: skip
    most = min(work.standbys, len(set(work.processes.values())) - 1)
    assert copies == Counter({each: most for each in work.stateful if most})


@pytest.mark.parametrize("seed", range(60))
def test_tasks_are_spread_evenly_whatever_was_before(seed: int) -> None:
    dice = random.Random(seed)
    before: Targets = {}
    for _ in range(6):
        own = processes(*(dice.randint(1, 3) for _ in range(dice.randint(1, 4))))
        work = Work(tasks("s0", dice.randint(0, 9)), tasks("n", dice.randint(0, 9)), own, before,
                    dice.randint(0, 2))  # fmt: skip
        targets = assign(work)
        check(work, targets)
        assert assign(work) == targets
        settled = assign(Work(work.stateful, work.stateless, own, targets, work.standbys))
        assert count(settled) == count(targets)
        moved = sum(len(own - settled[member]) for member, own in targets.items())
        assert moved == 0, "who asks again moves nothing"
        before = targets


def test_a_new_member_takes_no_more_than_its_share() -> None:
    work = Work(tasks("s", 6), [], processes(1, 1), {}, 0)
    before = assign(work)
    after = assign(Work(work.stateful, [], processes(1, 1, 1), before, 0))
    assert count(after) == {"m00": 2, "m10": 2, "m20": 2}
    assert all(after[each] <= before[each] for each in before)


def test_a_copy_takes_over_from_who_left() -> None:
    work = Work(tasks("s", 3), [], processes(1, 1, 1), {}, 1)
    before = assign(work)
    left = dict(work.processes)
    gone = left.pop("m00")
    assert gone == "p0"
    after = assign(Work(work.stateful, [], left, before, 1))
    for each in before["m00"]:
        if each.role is Role.ACTIVE:
            heir = next(m for m in left if Task(Role.STANDBY, *each.id) in before[m])
            assert each in after[heir]


def test_nobody_gets_nothing() -> None:
    assert assign(Work(tasks("s", 3), [], {}, {}, 1)) == {}
