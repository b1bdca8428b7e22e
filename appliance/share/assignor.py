"""Who reads what in a share group, as Kafka's `simple` assignor shares it out.

A partition may have many readers, so the question is how many. Each gets as few as leave nobody
without: one, or several where there are more members than partitions. Members get as many
partitions as the others, one more or less, and keep what they had where that fits. Where not all
want the same topics, each topic is shared out for itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from appliance.groups.assignors import Targets, Wanted
from appliance.groups.handover import NOWHERE, Place, Places

SIMPLE = "simple"


def assign_simple(wanted: Wanted, places: Places, before: Targets) -> dict[str, Places]:
    """`places`: what may be given out at all."""
    held: dict[str, set[Place]] = {each: set() for each in wanted}
    for members, pool in _pools(wanted, places):
        _share_out(members, pool, before, held)
    return {member: frozenset(own) for member, own in held.items()}


def _pools(wanted: Wanted, places: Places) -> Iterator[tuple[Sequence[str], Sequence[Place]]]:
    ordered = sorted(places)
    if len(set(wanted.values())) == 1:
        (topics,) = set(wanted.values())
        yield list(wanted), [each for each in ordered if each[0] in topics]
        return
    of_topic: dict[UUID, list[Place]] = {}
    for place in ordered:
        of_topic.setdefault(place[0], []).append(place)
    for topic, pool in of_topic.items():
        yield [member for member, topics in wanted.items() if topic in topics], pool


def _share_out(
    members: Sequence[str],
    pool: Sequence[Place],
    before: Targets,
    held: Mapping[str, set[Place]],
) -> None:
    if not members or not pool:
        return
    readers = -(-len(members) // len(pool))
    needs = dict.fromkeys(pool, readers)
    room = _room(members, readers * len(pool))

    def give(place: Place, member: str) -> None:
        held[member].add(place)
        needs[place] -= 1
        room[member] -= 1

    for member in members:
        for place in sorted(before.get(member, NOWHERE) & needs.keys()):
            if room[member] and needs[place]:
                give(place, member)
    for place in pool:
        # Where all with room have the place already it has a reader less, and is still read.
        free = [each for each in members if room[each] and place not in held[each]]
        for member in heapq.nlargest(needs[place], free, key=room.__getitem__):
            give(place, member)


def _room(members: Sequence[str], count: int) -> dict[str, int]:
    """`count` in whole parts that differ by one at most."""
    bounds = [-(-count * i // len(members)) for i in range(len(members) + 1)]
    return {member: bounds[i + 1] - bounds[i] for i, member in enumerate(members)}
