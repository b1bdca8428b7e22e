"""Which groups are served.

None is before `__consumer_offsets` was read. After that all are, but for those of partitions that
cannot be opened: all of a group stands in one partition of it.

In a cluster those are served whose partition this broker leads, once it was read in that election.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from appliance.errors import NotLeader
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Write, partition_of
from appliance.topics.topic import OFFSETS, Topic, TopicUnavailable


class OffsetsTopicView(Protocol):
    def offsets_topic(self) -> Topic | None:
        """None before the first use."""
        ...

    @property
    def is_in_cluster(self) -> bool: ...


@dataclass(eq=False)
class Term:
    """A partition is led here, from an election on until that is over."""

    partition: int
    epoch: int
    groups: set[str] = field(default_factory=set)  # that stand there
    writes: dict[int, Write] = field(default_factory=dict)  # that are not on disk yet
    fault: str = ""  # why it cannot be read
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Availability:
    def __init__(self, topics: OffsetsTopicView) -> None:
        self.fault = ""  # why no group is served, or some are not; for people
        self.unread: frozenset[int] = frozenset()  # partitions whose groups are not known yet
        self.terms: dict[int, Term] | None = None  # of what is led here; None: no cluster
        self._topics = topics
        self._refusal: GroupRefused | None = None
        self.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group coordinator has not started")

    def refuse(self, code: ErrorCode, why: str) -> None:
        """All groups, from now on."""
        self._refusal = GroupRefused(code, why)

    def serve(self) -> None:
        self._refusal = None

    @property
    def is_loaded(self) -> bool:
        """Groups are served; some may not be."""
        return self._refusal is None

    def check_loaded(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def check(self, group_id: str) -> None:
        """Whether what there is of this group is known."""
        self.check_loaded()
        if self.terms is not None:
            self._check_led(group_id, self.terms)
            return
        topic = self._topics.offsets_topic() if self.unread else None
        if topic is None:
            return
        try:
            self.check_read(partition_of(group_id, len(topic.logs)))
        except TopicUnavailable as error:
            text = f"group {group_id}: {error}"
            raise GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from None

    def check_named(self, group_id: str) -> None:
        """The same where a group without a name is refused."""
        self.check(group_id)
        if not group_id:
            raise GroupRefused(ErrorCode.INVALID_GROUP_ID, "the group's id is empty")

    def check_read(self, partition: int) -> None:
        """Of `__consumer_offsets`: raises until it is known what groups have there."""
        if partition in self.unread:
            raise TopicUnavailable(f"{OFFSETS}-{partition} is not served, or is not read yet")

    def unread_names(self) -> str:
        """Partitions of which nobody knows what groups have there. Empty: all are known."""
        return ", ".join(f"{OFFSETS}-{each}" for each in sorted(self.unread))

    # In a cluster

    def term(self, group_id: str) -> Term | None:
        """In which this broker is the group's coordinator; None: another one is."""
        topic, terms = self._topics.offsets_topic(), self.terms
        if topic is None or terms is None:
            return None
        return terms.get(partition_of(group_id, len(topic.logs)))

    def check_led(self, group_id: str) -> None:
        """That no other broker is its coordinator, and what there is of it is known."""
        if self.terms is not None:
            self._check_led(group_id, self.terms)

    def _check_led(self, group_id: str, terms: dict[int, Term]) -> None:
        topic = self._topics.offsets_topic()
        if topic is None:
            raise not_here(group_id, OFFSETS)
        number = partition_of(group_id, len(topic.logs))
        term = terms.get(number)
        if term is None:
            raise not_here(group_id, f"{OFFSETS}-{number}")
        if term.fault:
            text = f"group {group_id}: {term.fault}"
            raise GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        if number in self.unread:
            text = f"group {group_id}: {OFFSETS}-{number} is led here, and is being read"
            raise GroupRefused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)

    def of_partition(self, groups: Collection[str], partition: int) -> set[str]:
        """Those that stand there."""
        topic = self._topics.offsets_topic()
        count = 0 if topic is None else len(topic.logs)
        return {each for each in groups if count and partition_of(each, count) == partition}

    def check_term(self, partition: int) -> Term:
        """In which what groups have in transactions there is known."""
        term = (self.terms or {}).get(partition)
        if term is None:
            raise NotLeader(f"{OFFSETS}-{partition} is led by another broker")
        if partition in self.unread or term.fault:
            raise TopicUnavailable(f"{OFFSETS}-{partition} is led here, and not read yet")
        return term

    def enter(self, group_id: str) -> None:
        """The group is in memory from now on."""
        if (term := self.term(group_id)) is not None:
            term.groups.add(group_id)

    def leave(self, group_id: str) -> None:
        if (term := self.term(group_id)) is not None:
            term.groups.discard(group_id)

    def tell_faults(self) -> None:
        faults = [f"{OFFSETS}-{n} ({each.fault})" for n, each in sorted((self.terms or {}).items())
                  if each.fault]  # fmt: skip
        told = f"groups whose offsets are in {', '.join(faults)} are not served"
        self.fault = told if faults else ""


def not_here(group_id: str, place: str) -> GroupRefused:
    text = f"group {group_id}: {place}, where it stands, is led by another broker"
    return GroupRefused(ErrorCode.NOT_COORDINATOR, text)
