"""Groups that live in ZooKeeper as they are shown over REST: in the rows of all other groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from appliance.admin.group_rows import MemberRow
from appliance.broker.broker import Broker
from appliance.groups.records import Partition
from appliance.zookeeper.group_in_zookeeper import GroupInZooKeeper

ASSIGNOR = "range"  # the only one of the original design


class Committed(NamedTuple):
    offset: int
    metadata: str
    at_ms: int


def found_in(broker: Broker, name: str) -> GroupInZooKeeper | None:
    groups = broker.zookeeper_groups
    return None if groups is None else groups.find(name)


def all_in(broker: Broker) -> list[GroupInZooKeeper]:
    return [] if broker.zookeeper_groups is None else [*broker.zookeeper_groups.all()]


def state_of(group: GroupInZooKeeper) -> str:
    """In Kafka's words."""
    return "Stable" if group.members else "Empty"


def committed_in(broker: Broker, name: str) -> Mapping[Partition, Committed]:
    """Of a group in the broker, or in ZooKeeper."""
    if group := found_in(broker, name):
        return {
            Partition(*place): Committed(offset, "", at_ms)
            for place, (offset, at_ms) in group.offsets.items()
        }
    return {
        place: Committed(each.value.offset, each.value.metadata, each.value.commit_timestamp)
        for place, each in broker.groups.offsets.of_group(name).items()
    }


def member_rows(group: GroupInZooKeeper) -> list[MemberRow]:
    """Its host is in a consumer's name, in front of an id of its own."""
    owned: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), owner in sorted(group.owners.items()):
        owned.setdefault(owner, {}).setdefault(topic, []).append(partition)
    return [
        {
            "member_id": each,
            "instance_id": None,
            "client_id": "",
            "host": each.rpartition(":")[0],
            "epoch": None,
            "partitions": owned.get(each, {}),
            "target": None,
            "tasks": None,
        }
        for each in group.members
    ]


def unread(broker: Broker, group: GroupInZooKeeper) -> list[dict[str, str | int]]:
    """Partitions of topics that it reads, and that no member has."""
    topics = sorted({topic for topic, _ in group.owners})
    return [
        {"topic": name, "partition": number}
        for name in topics
        if name in broker.topics
        for number in range(len(broker.topics[name].logs))
        if (name, number) not in group.owners
    ]
