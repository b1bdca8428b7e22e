"""A topology with the topics that there are: how many tasks, and which topics are to be made.

In this order, and at the first that is wrong the group is not ready, with a status that tells why:

    source topics       must be there
    repartition topics  have as many partitions as what is read upstream, unless they say so
    copartitioned ones  have equally many; a repartition topic that does not say how many follows
    changelogs          have one for each task
    internal topics     that are there have as many as that; the others are missing, to be made
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from appliance.groups.states import GroupRefused
from appliance.groups.streams.topology import (
    InternalTopic,
    Subtopology,
    Topology,
    partitions_of_repartition,
)

SHOWN_MAX = 10  # topics that a status names

CountOf = Callable[[str], int | None]  # partitions of a topic; None: it is not there


class StatusCode(IntEnum):
    """As heartbeats number them."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: StatusCode
    text: str


class NewTopic(NamedTuple):
    topic: InternalTopic
    partitions: int


@dataclass(frozen=True)
class TopicsOfTopology:
    status: Status | None = None  # None: all are as they must be
    task_counts: Mapping[str, int] = field(default_factory=dict)  # by subtopology
    partitions: Mapping[str, int] = field(default_factory=dict)  # of internal topics
    missing: tuple[NewTopic, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.status is None


class _NotReady(Exception):
    def __init__(self, code: StatusCode, text: str) -> None:
        self.status = Status(code, text)


def topics_of(topology: Topology, count_of: CountOf, tasks_max: int) -> TopicsOfTopology:
    try:
        return _found(topology, count_of, tasks_max)
    except _NotReady as why:
        return TopicsOfTopology(why.status)
    except GroupRefused as why:  # another broker has let it in
        return TopicsOfTopology(Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(why)))


def _found(topology: Topology, count_of: CountOf, tasks_max: int) -> TopicsOfTopology:
    _check_sources(topology, count_of)
    counts = {name: count for name in topology.topics if (count := count_of(name)) is not None}
    wanted = dict(partitions_of_repartition(topology, counts.__getitem__))
    for one in topology.subtopologies:
        for group in one.copartitioned:
            _even(topology, group, counts, wanted)
    counts = {**counts, **wanted}
    tasks = {
        each.id: max((counts[name] for name in each.read), default=0)
        for each in topology.subtopologies
    }
    if sum(tasks.values()) > tasks_max:
        text = (f"The topics make {sum(tasks.values())} tasks, wanted at most {tasks_max} "
                "(group.streams.max.tasks)")  # fmt: skip
        raise _NotReady(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    for one in topology.subtopologies:
        wanted.update((each.name, tasks[one.id]) for each in one.changelogs)
    missing = _missing(topology, count_of, wanted)
    if not missing:
        return TopicsOfTopology(None, tasks, wanted)
    text = f"Internal topics are missing: {_names(each.topic.name for each in missing)}"
    status = Status(StatusCode.MISSING_INTERNAL_TOPICS, text)
    return TopicsOfTopology(status, tasks, wanted, missing)


def _check_sources(topology: Topology, count_of: CountOf) -> None:
    names = {name for each in topology.subtopologies for name in each.source_topics}
    made = topology.repartition_topics.keys()
    missing = [name for name in names - made if count_of(name) is None]
    if missing:
        text = f"Source topics {_names(missing)} are missing."
        raise _NotReady(StatusCode.MISSING_SOURCE_TOPICS, text)


def _even(
    topology: Topology, group: frozenset[str], counts: Mapping[str, int], wanted: dict[str, int]
) -> None:
    """Topics of one copartition group."""
    says = topology.repartition_topics
    sources = {name: counts[name] for name in group if name not in says}
    fixed = {name: says[name] for name in group if says.get(name)}
    _check_equal(sources or fixed)
    for name, count in fixed.items() if sources else ():
        given = next(iter(sources.values()))
        if count != given:
            text = (f"Number of partitions [{count}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{given}] of the source topic.")  # fmt: skip
            raise _NotReady(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    given = max((sources or fixed or {name: wanted[name] for name in group}).values(), default=0)
    wanted.update((name, given) for name in group if name in says and not says[name])


def _check_equal(counts: Mapping[str, int]) -> None:
    if len(set(counts.values())) > 1:
        shown = [f"{name}({count})" for name, count in sorted(counts.items())[:SHOWN_MAX]]
        text = f"Following topics do not have the same number of partitions: [{', '.join(shown)}]"
        raise _NotReady(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)


def _missing(
    topology: Topology, count_of: CountOf, wanted: Mapping[str, int]
) -> tuple[NewTopic, ...]:
    missing = {}
    for each in topology.internal_topics:
        count = count_of(each.name)
        if count is None:
            missing[each.name] = NewTopic(each, wanted[each.name])
        elif count != wanted[each.name]:
            text = (f"Existing topic {each.name} has different number of partitions: expected "
                    f"{wanted[each.name]}, found {count}")  # fmt: skip
            raise _NotReady(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    return tuple(missing[name] for name in sorted(missing))


def _names(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return f"{', '.join(found[:SHOWN_MAX])}{more}"


def topics_of_task(subtopology: Subtopology, number: int, count_of: CountOf) -> Iterable[str]:
    """Those of which the task reads the partition of its number."""
    return [name for name in subtopology.read if number < (count_of(name) or 0)]
