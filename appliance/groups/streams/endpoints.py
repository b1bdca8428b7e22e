"""Where applications find each other's state: the partitions that each has, by its endpoint."""

from __future__ import annotations

from collections.abc import Iterable

from appliance.groups.streams.member import Places, StreamsMember
from appliance.groups.streams.task import Role, Tasks
from appliance.groups.streams.topics_of_topology import CountOf, topics_of_task
from appliance.groups.streams.topology import Topology


def partitions_of(
    topology: Topology, tasks: Tasks, role: Role, count_of: CountOf
) -> dict[str, list[int]]:
    """What tasks of that role read, by topic."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        subtopology = topology.by_id.get(task.subtopology)
        if task.role is role and subtopology is not None:
            for name in topics_of_task(subtopology, task.number, count_of):
                found.setdefault(name, set()).add(task.number)
    return {name: sorted(numbers) for name, numbers in sorted(found.items())}


def endpoints_of(
    topology: Topology, members: Iterable[StreamsMember], count_of: CountOf
) -> list[Places]:
    return [
        Places(
            each.said.endpoint,
            partitions_of(topology, each.now.assigned, Role.ACTIVE, count_of),
            partitions_of(topology, each.now.assigned, Role.STANDBY, count_of),
        )
        for each in members
        if each.said.endpoint is not None
    ]
