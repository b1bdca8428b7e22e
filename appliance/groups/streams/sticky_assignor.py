"""Who gets which task of a streams group: evenly, and where its state is.

    active   Each member gets as many as every other, one more or less. Those with state are given
             out first, evenly for themselves, so that nobody has all the disks' work. A task stays
             where it was, or goes to a member that has its state as a copy, or to one of the same
             process, unless that member has enough.
    standby  Each task with state gets as many as the group wants, on other processes, as far as
             there are; where there was a copy before, unless that member has more than its share,
             and then where there is least to do.

Members come in a fixed order. The same question always has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from appliance.groups.streams.task import NO_TASKS, Role, Task, TaskId, Tasks


@dataclass
class Work:
    """The tasks of a topology, and who had them."""

    stateful: Sequence[TaskId]
    stateless: Sequence[TaskId]
    processes: Mapping[str, str]  # by member
    before: Mapping[str, Tasks]
    standbys: int  # of each task with state


def assign(work: Work) -> dict[str, Tasks]:
    if not work.processes:
        return {}
    return _Assigning(work).run()


@dataclass
class _Assigning:
    work: Work
    active: dict[str, set[TaskId]] = field(default_factory=dict)
    standby: dict[str, set[TaskId]] = field(default_factory=dict)
    had: dict[TaskId, dict[str, Role]] = field(default_factory=dict)  # by member

    def run(self) -> dict[str, Tasks]:
        members = sorted(self.work.processes)
        self.active = {each: set() for each in members}
        self.standby = {each: set() for each in members}
        for member in members:
            for task in sorted(self.work.before.get(member, NO_TASKS)):
                self.had.setdefault(task.id, {}).setdefault(member, task.role)
        self._spread(self.work.stateful, len(self.work.stateful))
        total = len(self.work.stateful) + len(self.work.stateless)
        self._spread(self.work.stateless, total)
        if self.work.standbys:
            self._copy()
        return {
            each: frozenset(Task(Role.ACTIVE, *task) for task in self.active[each])
            | frozenset(Task(Role.STANDBY, *task) for task in self.standby[each])
            for each in members
        }

    def _spread(self, tasks: Sequence[TaskId], total: int) -> None:
        """Active tasks, so that with those given out so far `total` are spread evenly."""
        fewest, more = divmod(total, len(self.active))
        # so many members may have one more than the fewest
        left = more - sum(len(own) > fewest for own in self.active.values())
        open_tasks = list(tasks)
        for wanted in (Role.ACTIVE, None):
            still_open = []
            for task in open_tasks:
                found = next((each for each in self._holders(task, wanted)
                              if len(self.active[each]) < fewest + (left > 0)), None)
                if found is None:
                    still_open.append(task)
                    continue
                left -= len(self.active[found]) == fewest
                self.active[found].add(task)
            open_tasks = still_open
        heap = [(len(own), each) for each, own in self.active.items()]
        heapify(heap)
        for task in open_tasks:
            count, member = heap[0]
            self.active[member].add(task)
            heapreplace(heap, (count + 1, member))

    def _holders(self, task: TaskId, role: Role | None) -> Iterable[str]:
        """Who had it in that role. None: in any, or whose process had; who has least, first."""
        had = self.had.get(task, {})
        if role is not None:
            return [each for each, own in had.items() if own is role]
        processes = {self.work.processes[each] for each in had}
        near = [each for each, process in self.work.processes.items() if process in processes]
        return sorted(near, key=lambda each: (each not in had, len(self.active[each]), each))

    def _copy(self) -> None:
        """Copies stay where they were; new ones go where there is least to do; and who has more
        than its share gives some to who has less."""
        process = self.work.processes
        # the processes that have each task
        taken = {task: {process[member]} for member, own in self.active.items() for task in own}
        for task in self.work.stateful:
            for member, role in self.had.get(task, {}).items():
                if role is Role.STANDBY and len(taken[task]) <= self.work.standbys:
                    self._place(task, member, taken[task])
        least = _Least(self.active, self._load)
        for task in self.work.stateful:
            while len(taken[task]) <= self.work.standbys:
                found = least.find(self._outside(taken[task]))
                if found is None:
                    break
                self._place(task, found, taken[task])
                least.put(found)
        self._even_out(taken)

    def _place(self, task: TaskId, member: str, taken: set[str]) -> None:
        if self.work.processes[member] not in taken:
            self.standby[member].add(task)
            taken.add(self.work.processes[member])

    def _even_out(self, taken: Mapping[TaskId, set[str]]) -> None:
        process = self.work.processes
        total = sum(map(self._load, self.active))
        most = -(-total // len(self.active))
        least = _Least(self.active, self._load)
        for member in self.active:
            for task in sorted(self.standby[member]):
                if self._load(member) <= most:
                    break
                found = least.find(self._outside(taken[task] - {process[member]}))
                if found is not None and self._load(found) + 1 < self._load(member):
                    self.standby[member].remove(task)
                    taken[task].remove(process[member])
                    self._place(task, found, taken[task])
                if found is not None:
                    least.put(found)

    def _outside(self, processes: set[str]) -> Callable[[str], bool]:
        return lambda each: self.work.processes[each] not in processes

    def _load(self, member: str) -> int:
        return len(self.active[member]) + len(self.standby[member])


class _Least:
    """Members by what they have to do. Who was found and given something is put back with that; who
    gives something away meanwhile has too much, and is not looked for."""

    def __init__(self, members: Iterable[str], load: Callable[[str], int]) -> None:
        self._load = load
        self._heap = [(load(each), each) for each in members]
        heapify(self._heap)

    def find(self, suits: Callable[[str], bool]) -> str | None:
        """The one with least, which is to be `put` back."""
        others = []
        found = None
        while self._heap and found is None:
            each = heappop(self._heap)
            if suits(each[1]):
                found = each[1]
            else:
                others.append(each)
        for each in others:
            heappush(self._heap, each)
        return found

    def put(self, member: str) -> None:
        heappush(self._heap, (self._load(member), member))
