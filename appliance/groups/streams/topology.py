"""A topology: what an application reads, keeps and writes, as its members say it.

A subtopology is what has to run in one place. It reads source topics, and repartition topics that
other subtopologies write; for its state it has changelogs. What is wrong in itself, whatever topics
there are, is told to the member that says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from appliance.groups.consumer_member import TOPIC_BYTES
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode


class InternalTopic(NamedTuple):
    """One that the broker makes."""

    name: str
    partitions: int  # 0: as many as follow from what is read
    replication_factor: int  # 0: as the broker has it
    configs: tuple[tuple[str, str], ...]


class Subtopology(NamedTuple):
    id: str
    source_topics: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartitioned: tuple[frozenset[str], ...]  # must have equally many partitions

    @property
    def read(self) -> list[str]:
        return [*self.source_topics, *(each.name for each in self.repartition_sources)]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


@dataclass(frozen=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]  # sorted

    @cached_property
    def by_id(self) -> dict[str, Subtopology]:
        return {each.id: each for each in self.subtopologies}

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """The subtopologies that read a topic."""
        found: dict[str, list[str]] = {}
        for each in self.subtopologies:
            for name in each.read:
                found.setdefault(name, []).append(each.id)
        return found

    @property
    def internal_topics(self) -> Iterator[InternalTopic]:
        for each in self.subtopologies:
            yield from each.repartition_sources
            yield from each.changelogs

    @cached_property
    def repartition_topics(self) -> dict[str, int]:
        """How many partitions each wants; 0: it follows others."""
        return {each.name: each.partitions for one in self.subtopologies
                for each in one.repartition_sources}  # fmt: skip

    @cached_property
    def topics(self) -> frozenset[str]:
        """All that it needs."""
        return frozenset(self.readers).union(each.name for each in self.internal_topics)

    @cached_property
    def size(self) -> int:
        """What it takes in memory, about."""
        texts = [text for each in self.subtopologies for text in (each.id, *each.read)]
        texts += [each for one in self.subtopologies for each in one.repartition_sinks]
        for topic in self.internal_topics:
            texts += [topic.name, *(text for pair in topic.configs for text in pair)]
        groups = [each for one in self.subtopologies for each in one.copartitioned]
        of_groups = sum(len(each) + 1 for each in groups) * TOPIC_BYTES
        return sum(len(each) + TOPIC_BYTES for each in texts) + of_groups


def of_rows(said: Any) -> Topology:
    """Of a request, or a record, which have the same fields."""
    found = [_subtopology(each) for each in said.subtopologies]
    return Topology(said.epoch, tuple(sorted(found, key=lambda each: each.id)))


def _subtopology(said: Any) -> Subtopology:
    sources = tuple(said.source_topics)
    repartitioned = _internal(said.repartition_source_topics)
    return Subtopology(
        said.subtopology_id,
        sources,
        _internal(said.state_changelog_topics),
        tuple(said.repartition_sink_topics),
        repartitioned,
        tuple(_copartitioned(said, each, sources, repartitioned)
              for each in said.copartition_groups),
    )


def _internal(rows: Iterable[Any]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            each.name,
            each.partitions,
            each.replication_factor,
            tuple((pair.key, pair.value) for pair in each.topic_configs),
        )
        for each in rows
    )


def _copartitioned(
    said: Any, group: Any, sources: tuple[str, ...], repartitioned: tuple[InternalTopic, ...]
) -> frozenset[str]:
    """It names them by their places."""
    names = [*sources, *(each.name for each in repartitioned)]
    places = [*group.source_topics, *(len(sources) + i for i in group.repartition_source_topics)]
    own = all(0 <= i < len(sources) for i in group.source_topics)
    if not own or not all(0 <= i < len(repartitioned) for i in group.repartition_source_topics):
        raise invalid(
            f"Subtopology {said.subtopology_id}: a copartition group names topic "
            f"{[*group.source_topics, *group.repartition_source_topics]}, but there are "
            f"{len(sources)} source topics and {len(repartitioned)} repartition topics."
        )
    return frozenset(names[i] for i in places)


def invalid(text: str) -> GroupRefused:
    return GroupRefused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def check(topology: Topology, internal_topics_max: int) -> None:
    """Before anything of it is kept."""
    if topology.epoch < 0:
        raise invalid(f"Topology epoch must be non-negative, but it is {topology.epoch}.")
    if not topology.subtopologies:
        raise invalid("A topology must have subtopologies.")
    if len(topology.by_id) < len(topology.subtopologies):
        raise invalid("Two subtopologies have the same id.")
    _check_internal([*topology.internal_topics], internal_topics_max)
    for each in topology.subtopologies:
        _check_subtopology(each)
    partitions_of_repartition(topology, lambda name: 1)


def _check_internal(topics: list[InternalTopic], most: int) -> None:
    if len(topics) > most:
        raise invalid(
            f"got {len(topics)} internal topics, wanted at most {most} "
            "(group.streams.max.internal.topics)"
        )
    for each in topics:
        if each.partitions < 0 or each.replication_factor < -1:
            raise invalid(
                f"Internal topic {each.name}: got {each.partitions} partitions and replication "
                f"factor {each.replication_factor}."
            )


def _check_subtopology(each: Subtopology) -> None:
    if not each.read:
        raise invalid(f"Subtopology {each.id} does not contain any source topics.")
    for topic in each.changelogs:
        if topic.partitions != 0:
            raise invalid(
                f"Changelog topic {topic.name} must have an undefined partition count, but it is "
                f"set to {topic.partitions}."
            )


def partitions_of_repartition(
    topology: Topology, count_of: Callable[[str], int]
) -> Mapping[str, int]:
    """How many partitions each repartition topic has: what it says, or as many as the largest of
    what those read that write it. One may follow another, so each waits for what it follows."""
    says = topology.repartition_topics
    known = {name: count for name, count in says.items() if count}
    counts, waits = _followed(topology, says, count_of)
    followers: dict[str, list[str]] = {}
    for name, of in waits.items():
        for each in of:
            followers.setdefault(each, []).append(name)
    ready = [*known]
    while waits:
        while ready:
            for name in followers.get(name_known := ready.pop(), ()):
                counts[name].add(known[name_known])
                if name in waits:
                    waits[name].discard(name_known)
        found = {name: max(counts[name]) for name, of in waits.items() if counts[name] and not of}
        # in a loop those count that are known
        found = found or {name: max(counts[name]) for name in waits if counts[name]}
        if not found:
            raise invalid(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        known |= found
        ready = [*found]
        for name in found:
            del waits[name]
    return known


def _followed(
    topology: Topology, says: Mapping[str, int], count_of: Callable[[str], int]
) -> tuple[dict[str, set[int]], dict[str, set[str]]]:
    """Of each repartition topic that does not say how many it has: the partitions of what is read
    by those that write it, and the repartition topics among that."""
    wanted = {name for name, count in says.items() if not count}
    counts: dict[str, set[int]] = {}
    waits: dict[str, set[str]] = {}
    for one in topology.subtopologies:
        of_sources = {count_of(name) for name in one.source_topics if name not in says}
        repartitioned = says.keys() & one.read
        for name in wanted.intersection(one.repartition_sinks):
            counts.setdefault(name, set()).update(of_sources)
            waits.setdefault(name, set()).update(repartitioned)
    for name in sorted(wanted - counts.keys()):
        raise invalid(
            "Failed to compute number of partitions for all repartition topics, because "
            f"repartition source topic {name} is never used as a sink topic."
        )
    return counts, waits
