"""The consumer groups of a topic over REST, with what each has left to read of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple, TypedDict

from appliance.admin import groups, zookeeper_groups
from appliance.admin.group_rows import MemberRow
from appliance.admin.groups import GroupFacts
from appliance.admin.rights import DESCRIBE_TOPIC, GROUP
from appliance.admin.route import Call, get
from appliance.admin.topic_lookup import topic_of
from appliance.groups.group import Group

TURN_GROUPS = 50


class TopicGroup(TypedDict):
    group: str
    protocol: str
    state: str
    members: int  # that have a partition of this topic
    partitions: int  # of the topic, with a commit or a member that wants them
    unread_partitions: int  # of a topic that it reads: without a member
    lag_records: int
    no_commit_records: int
    no_commit_partitions: int
    lag_seconds: float | None
    unknown_partitions: int


class TopicConsumers(TypedDict):
    groups: list[TopicGroup]  # the largest lag first


class Found(NamedTuple):
    facts: GroupFacts
    members: list[MemberRow]
    unread: int


async def list_consumers(call: Call) -> TopicConsumers:
    topic, described = topic_of(call).name, call.rights.described(GROUP)
    call.broker.groups.availability.check_loaded()
    measured = {each.group: each for each in call.broker.lag.snapshot().groups}
    rows = []
    for number, name in enumerate(names_of(call)):
        behind = call.broker.lag.records_of(name, (topic,)) if name in described else None
        if behind is not None and behind.topics and (found := found_of(call, name, topic)):
            lag = measured.get(name)
            readers = [each for each in found.members if each["partitions"].get(topic)]
            rows.append(TopicGroup(
                group=name,
                protocol=found.facts.protocol,
                state=found.facts.state,
                members=len(readers),
                partitions=behind.partitions,
                unread_partitions=found.unread,
                lag_records=behind.records,
                no_commit_records=behind.without_commit.records,
                no_commit_partitions=behind.without_commit.partitions,
                lag_seconds=lag.of_topics((topic,)).seconds if lag else None,
                unknown_partitions=behind.unknown_partitions,
            ))  # fmt: skip
        if number % TURN_GROUPS == TURN_GROUPS - 1:
            await asyncio.sleep(0)
    rows.sort(key=lambda row: (-row["lag_records"], row["group"]))
    return {"groups": rows}


def names_of(call: Call) -> Iterator[str]:
    broker = call.broker
    yield from [each.id for each in broker.groups.table.groups.values() if not each.is_dead]
    yield from [each.name for each in zookeeper_groups.all_in(broker)]


def found_of(call: Call, name: str, topic: str) -> Found | None:
    """None: it went meanwhile."""
    broker = call.broker
    if elsewhere := zookeeper_groups.found_in(broker, name):
        left = zookeeper_groups.unread(broker, elsewhere)
        members = zookeeper_groups.member_rows(elsewhere)
        facts = groups.facts_in_zookeeper(elsewhere)
    else:
        group = broker.groups.table.groups.get(name)
        if group is None:
            return None
        members = groups.member_rows(broker, group)
        is_read = members or not isinstance(group, Group)
        owners = groups.owners_of(members)
        left = groups.unread(broker, group, owners) if is_read else []
        facts = groups.facts_of(group)
    return Found(facts, members, sum(each["topic"] == topic for each in left))


ROUTES = [
    get(
        "/topics/{topic}/consumers",
        list_consumers,
        TopicConsumers,
        "Consumer groups of a topic, with their lag.",
        rights=(DESCRIBE_TOPIC,),
        asks="only groups with DESCRIBE",
    ),
]
