"""The partitions that a group's members have, or want: every one is read, or is about to be.

Assigned without being wanted is what a member has not given up yet; wanted without being assigned
is what nobody reads yet. Both can hold records that the group has still to read.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from appliance.groups import consumer_protocol
from appliance.groups.consumer_protocol import CONSUMER
from appliance.groups.group import Group
from appliance.groups.modern_group import ModernGroup, TopicFacts
from appliance.groups.records import Partition
from appliance.groups.streams.group import StreamsGroup


class Topics(Protocol):
    def topic_facts(self, name: str) -> TopicFacts | None: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...


def subscribed_partitions(group: Group | ModernGroup, topics: Topics) -> frozenset[Partition]:
    """None of a topic that is no more, or that members want before it is made."""
    wanted = _assigned(group, topics)
    for name in group.subscribed() or ():
        facts = topics.topic_facts(name)
        if facts is not None:
            wanted.update(Partition(name, each) for each in range(facts.partitions))
    return frozenset(wanted)


def _assigned(group: Group | ModernGroup, topics: Topics) -> set[Partition]:
    if isinstance(group, Group):
        if group.protocol_type != CONSUMER:
            return set()  # what it assigns are no partitions: connectors, for example
        return {
            Partition(name, each)
            for member in group.members
            for name, partitions in consumer_protocol.assigned(member.assignment).items()
            for each in partitions
        }
    if isinstance(group, StreamsGroup):
        return {
            Partition(name, each)
            for member in group.all()
            for name, numbers in group.partitions_of(member.now.assigned).items()
            for each in numbers
        }
    assigned: set[Partition] = set()
    for member in group.all():
        for topic_id, each in member.now.assigned:
            name = topics.topic_name(topic_id)
            if name is not None:
                assigned.add(Partition(name, each))
    return assigned
