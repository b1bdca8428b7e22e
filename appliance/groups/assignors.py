"""Who reads what in a consumer group: the assignors that run here, in the broker.

Members come in a fixed order, each with the topics that it wants; topics with their partitions. The
same question always has the same answer.

    uniform  everybody gets as many as the others, one more or less, and keeps what it had
    range    partition by partition in the members' order, the same for every topic: members that
             want the same topics get the same numbers of each, so that streams can be joined
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from appliance.groups.handover import NOWHERE, Place, Places

Wanted = Mapping[str, frozenset[UUID]]  # by member
Counts = Mapping[UUID, int]  # partitions of each topic
Targets = Mapping[str, Places]

Held = dict[str, dict[UUID, set[int]]]


def assign_range(wanted: Wanted, counts: Counts, before: Targets) -> dict[str, Places]:
    assigned: dict[str, set[Place]] = {each: set() for each in wanted}
    for topic, members in _readers(wanted, counts).items():
        share, extra = divmod(counts[topic], len(members))
        first = 0
        for i, member in enumerate(members):
            last = first + share + (i < extra)
            assigned[member].update((topic, index) for index in range(first, last))
            first = last
    return {member: frozenset(places) for member, places in assigned.items()}


def assign_uniform(wanted: Wanted, counts: Counts, before: Targets) -> dict[str, Places]:
    readers = _readers(wanted, counts)
    held, free = _kept(wanted, counts, before, readers)
    load = {member: sum(map(len, of_topic.values())) for member, of_topic in held.items()}
    # what few may read first: it has the least choice
    for topic in sorted(free, key=lambda each: (len(readers[each]), each.int)):
        for index in sorted(free[topic]):
            member = min(readers[topic], key=load.__getitem__)
            held[member].setdefault(topic, set()).add(index)
            load[member] += 1
    _even_out(held, load, readers)
    return {
        member: frozenset((topic, index) for topic, own in of_topic.items() for index in own)
        for member, of_topic in held.items()
    }


def _readers(wanted: Wanted, counts: Counts) -> dict[UUID, list[str]]:
    """The members that want each topic, in their order; a topic that nobody wants has no row."""
    readers: dict[UUID, list[str]] = {}
    for member, topics in wanted.items():
        for topic in topics & counts.keys():
            readers.setdefault(topic, []).append(member)
    return readers


def _kept(
    wanted: Wanted, counts: Counts, before: Targets, readers: Collection[UUID]
) -> tuple[Held, dict[UUID, set[int]]]:
    """What members still may read of what they had, and what is left over."""
    free = {topic: set(range(counts[topic])) for topic in readers}
    held: Held = {}
    for member, topics in wanted.items():
        own = held[member] = {}
        for topic, index in before.get(member, NOWHERE):
            if topic in topics and index in free.get(topic, ()):
                free[topic].remove(index)
                own.setdefault(topic, set()).add(index)
    return held, free


def _even_out(held: Held, load: dict[str, int], readers: Mapping[UUID, list[str]]) -> None:
    """Moves partitions as long as one can go from a member to another that has two less. Each move
    makes the sum of the squares of all loads smaller, so it ends."""
    has_moved = True
    while has_moved:
        has_moved = False
        for topic, members in readers.items():
            while _move(topic, members, held, load):
                has_moved = True


def _move(topic: UUID, members: list[str], held: Held, load: dict[str, int]) -> bool:
    holders = [each for each in members if held[each].get(topic)]
    if not holders:
        return False
    most = max(holders, key=load.__getitem__)
    least = min(members, key=load.__getitem__)
    if load[most] - load[least] < 2:
        return False
    index = max(held[most][topic])
    held[most][topic].remove(index)
    held[least].setdefault(topic, set()).add(index)
    load[most] -= 1
    load[least] += 1
    return True


Assign = Callable[[Wanted, Counts, Targets], dict[str, Places]]

ASSIGNORS: Mapping[str, Assign] = {"uniform": assign_uniform, "range": assign_range}
