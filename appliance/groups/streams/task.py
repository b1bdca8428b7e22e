"""A task: one number of a subtopology, and in which role a member has it.

An active task reads, counts and writes; a standby task keeps a copy of its state on another
process; a warm-up task gets such a copy, in order to become the active one. The number is that of
the partitions which it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

TaskId = tuple[str, int]  # subtopology and number


class Role(IntEnum):
    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


class Task(NamedTuple):
    role: Role
    subtopology: str
    number: int

    @property
    def id(self) -> TaskId:
        return self.subtopology, self.number


Tasks = frozenset[Task]

NO_TASKS: Tasks = frozenset()


def tasks_of(role: Role, rows: Iterable[Any]) -> Tasks:
    """Of the rows of a message or a record."""
    return frozenset(
        Task(role, row.subtopology_id, number) for row in rows for number in row.partitions
    )


def numbers(tasks: Iterable[Task], role: Role) -> dict[str, list[int]]:
    """By subtopology, in a fixed order."""
    found: dict[str, list[int]] = {}
    for each in sorted(tasks):
        if each.role is role:
            found.setdefault(each.subtopology, []).append(each.number)
    return found


def rows(tasks: Iterable[Task], role: Role, row: Any) -> list[Any]:
    return [row(*each) for each in numbers(tasks, role).items()]
