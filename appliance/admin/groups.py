"""Consumer groups over REST: list, describe, reset offsets, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from appliance.access.acls import Operation
from appliance.admin import zookeeper_groups
from appliance.admin.body_schema import row_of
from appliance.admin.group_rows import (
    GroupAnswer,
    GroupList,
    GroupRow,
    LagAnswer,
    LagSampleRow,
    MemberRow,
    OffsetRow,
)
from appliance.admin.offset_reset import Reset, ResetAnswer, Which, reset
from appliance.admin.rights import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    GROUP,
    READ_GROUP,
    TOPIC,
    Described,
)
from appliance.admin.route import ADMIN, Call, Param, delete, get, post
from appliance.broker.broker import Broker
from appliance.groups import consumer_protocol
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.consumer_member import ConsumerMember
from appliance.groups.group import Group
from appliance.groups.group_table import AnyGroup
from appliance.groups.handover import Places
from appliance.groups.lag import GroupLag
from appliance.groups.member import Member
from appliance.groups.modern_group import ModernGroup
from appliance.groups.records import Partition
from appliance.groups.streams.group import StreamsGroup
from appliance.groups.streams.member import StreamsMember
from appliance.groups.streams.task import Role, numbers
from appliance.groups.zookeeper_groups import PROTOCOL as ZOOKEEPER
from appliance.process.detached_tasks import outcome
from appliance.zookeeper.group_in_zookeeper import GroupInZooKeeper


def protocol_of(group: AnyGroup) -> str:
    if isinstance(group, Group):
        return "classic"
    if isinstance(group, StreamsGroup):
        return "streams"
    return "consumer" if isinstance(group, ConsumerGroup) else "share"


def assignor_of(group: AnyGroup) -> str:
    if isinstance(group, Group):
        return group.protocol_name or ""
    return group.assignor if isinstance(group, (ConsumerGroup, StreamsGroup)) else ""


async def list_groups(call: Call) -> GroupList:
    groups = call.broker.groups
    groups.availability.check_loaded()
    described = call.rights.described(GROUP)
    text, states = call.params["q"].lower(), call.params["state"].lower()
    facts = [facts_of(each) for each in groups.table.groups.values() if not each.is_dead]
    facts += [facts_in_zookeeper(each) for each in zookeeper_groups.all_in(call.broker)]
    found = [
        each
        for each in sorted(facts)
        if each.id in described
        and text in each.id.lower()
        and (not states or each.state.lower() == states)
    ]
    rows = []
    measured = {each.group: each for each in call.broker.lag.snapshot().groups}
    for number, each in enumerate(found):
        rows.append(group_row(call, each, measured.get(each.id)))
        if number % 50 == 49:
            await asyncio.sleep(0)
    if call.params["order"] != "group":
        rows.sort(key=lambda row: row["lag_records"], reverse=True)
    first = call.params["offset"]
    return {"total": len(rows), "groups": rows[first : first + call.params["limit"]]}


class GroupFacts(NamedTuple):
    id: str
    protocol: str
    state: str
    members: int


def facts_of(group: AnyGroup) -> GroupFacts:
    return GroupFacts(group.id, protocol_of(group), group.state.value, len([*group.members]))


def facts_in_zookeeper(group: GroupInZooKeeper) -> GroupFacts:
    state = zookeeper_groups.state_of(group)
    return GroupFacts(group.name, ZOOKEEPER, state, len(group.members))


def group_row(call: Call, group: GroupFacts, lag: GroupLag | None) -> GroupRow:
    """The present records, the measured seconds, of topics that may be described."""
    described = call.described_topics()
    found = call.broker.lag.records_of(group.id, described)
    if lag is not None and not described.is_everything:
        lag = lag.of_topics(described)
    return {
        "group": group.id,
        "protocol": group.protocol,
        "state": group.state,
        "members": group.members,
        "topics": sorted(found.topics),
        "lag_records": found.records,
        "no_commit_records": found.without_commit.records,
        "no_commit_partitions": found.without_commit.partitions,
        "lag_seconds": None if lag is None else lag.seconds,
        "unknown_partitions": found.unknown_partitions,
    }


async def get_group(call: Call) -> GroupAnswer:
    broker = call.broker
    if elsewhere := zookeeper_groups.found_in(broker, call.path["group"]):
        members = zookeeper_groups.member_rows(elsewhere)
        left = zookeeper_groups.unread(broker, elsewhere)
        facts = facts_in_zookeeper(elsewhere)
        return await group_answer(call, facts, members, left, zookeeper_groups.ASSIGNOR, 0)
    group = broker.groups.table.get(call.path["group"])
    members = member_rows(broker, group)
    is_classic = isinstance(group, Group)
    left = unread(broker, group, owners_of(members)) if members or not is_classic else []
    generation = group.generation if isinstance(group, Group) else group.epoch
    return await group_answer(
        call, facts_of(group), members, left, assignor_of(group), generation
    )


def owners_of(members: list[MemberRow]) -> dict[Partition, str]:
    return {
        Partition(topic, partition): each["member_id"]
        for each in members
        for topic, partitions in each["partitions"].items()
        for partition in partitions
    }


async def group_answer(
    call: Call, group: GroupFacts, members: list[MemberRow], left: list[dict[str, str | int]],
    assignor: str, generation: int,
) -> GroupAnswer:  # fmt: skip
    broker, described = call.broker, call.described_topics()
    lag = await broker.lag.of_group(group.id)
    for each in members:
        each["partitions"] = of_described(each["partitions"], described)
        each["target"] = each["target"] and of_described(each["target"], described)
    rows = offset_rows(broker, group.id, lag, owners_of(members))
    return {
        **group_row(call, group, lag),
        "assignor": assignor,
        "generation": generation,
        "member_rows": members,
        "offsets": [each for each in rows if each["topic"] in described],
        "unread": [each for each in left if str(each["topic"]) in described],
        "allowed": call.rights.allowed(GROUP, group.id),
    }


def of_described(partitions: dict[str, list[int]], described: Described) -> dict[str, list[int]]:
    return {topic: numbers for topic, numbers in partitions.items() if topic in described}


def member_rows(broker: Broker, group: AnyGroup) -> list[MemberRow]:
    if isinstance(group, Group):
        return [classic_member(each) for each in group.members]
    if isinstance(group, StreamsGroup):
        return [streams_member(group, each) for each in group.all()]
    return [modern_member(broker, group, each) for each in group.members.values()]


def classic_member(member: Member) -> MemberRow:
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "epoch": None,
        "partitions": consumer_protocol.assigned(member.assignment),
        "target": None,
        "tasks": None,
    }


def modern_member(broker: Broker, group: ModernGroup, member: ConsumerMember) -> MemberRow:
    said = member.subscription
    return {
        "member_id": member.id,
        "instance_id": said.instance_id,
        "client_id": said.client_id,
        "host": said.client_host,
        "epoch": member.now.epoch,
        "partitions": by_name(broker, member.now.assigned),
        "target": by_name(broker, group.targets.get(member.id, frozenset())),
        "tasks": None,
    }


def streams_member(group: StreamsGroup, member: StreamsMember) -> MemberRow:
    said, assigned = member.said, member.now.assigned
    return {
        "member_id": member.id,
        "instance_id": said.instance_id,
        "client_id": said.client_id,
        "host": said.client_host,
        "epoch": member.now.epoch,
        "partitions": group.partitions_of(assigned),
        "target": group.partitions_of(group.targets.get(member.id, frozenset())),
        "tasks": {
            role.name.lower(): [f"{each}_{number}" for each, own in numbers(assigned, role).items()
                                for number in own]
            for role in Role
        },
    }  # fmt: skip


def by_name(broker: Broker, places: Places) -> dict[str, list[int]]:
    """Without deleted topics, which have no name."""
    found: dict[str, list[int]] = {}
    for topic_id, partition in sorted(places):
        name = broker.topics.name_of(topic_id)
        if name is not None:
            found.setdefault(name, []).append(partition)
    return found


def offset_rows(
    broker: Broker, group_id: str, lag: GroupLag, owners: dict[Partition, str]
) -> list[OffsetRow]:
    """Also deleted partitions with committed offsets, and partitions of members without a
    commit."""
    committed = zookeeper_groups.committed_in(broker, group_id)
    measured = {Partition(each.topic, each.partition): each for each in lag.partitions}
    rows: list[OffsetRow] = []
    for place in sorted({*committed, *measured}):
        own, each = committed.get(place), measured.get(place)
        is_known = each is not None and each.end is not None
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": each.committed if each else own.offset if own else None,
                "no_commit_yet": each is not None and is_known and each.committed is None,
                "metadata": own.metadata if own else "",
                "committed_ms": own.at_ms if own else None,
                "start": each.start if each else None,
                "end": each.end if each else None,
                "end_unknown": each is not None and not is_known,
                "lag_records": each.records if each and is_known else None,
                "lag_seconds": each.seconds if each else None,
                "lost_records": each.lost if each and is_known else None,
                "member_id": owners.get(place),
            }
        )
    return rows


def get_lag(call: Call) -> LagAnswer:
    broker, described = call.broker, call.described_topics()
    name = call.path["group"]
    if zookeeper_groups.found_in(broker, name) is None:
        broker.groups.table.get(name)  # one that is not there is refused
    found = broker.lag.history(name)
    return {
        "interval_s": found.interval_s,
        "topics": {
            topic: [row_of(LagSampleRow, each) for each in samples]
            for topic, samples in found.topics.items()
            if topic in described
        },
    }


def unread(
    broker: Broker, group: AnyGroup, owners: Iterable[Partition]
) -> list[dict[str, str | int]]:
    topics = group.subscribed() or frozenset()
    owned = set(owners)
    return [
        {"topic": name, "partition": number}
        for name in sorted(topics)
        if name in broker.topics
        for number in range(len(broker.topics[name].logs))
        if Partition(name, number) not in owned
    ]


async def delete_group(call: Call) -> None:
    elsewhere = call.broker.zookeeper_groups
    if elsewhere is not None and elsewhere.find(call.path["group"]):
        return await elsewhere.delete(call.path["group"])
    await outcome(call.broker.groups.table.delete(call.path["group"]))


async def reset_offsets(call: Call) -> ResetAnswer:
    body: Reset = call.body
    if body["to"] == "group" and "group" in body:
        call.rights.check(Operation.DESCRIBE, GROUP, body["group"])
    group_id = call.path["group"]
    if "topics" not in body and not call.rights.may_every(Operation.READ, TOPIC):
        body = {**body, "topics": committed_in(call, group_id)}
    for each in body.get("topics", []):
        call.rights.check(Operation.READ, TOPIC, each["topic"])
    return await reset(call.broker, group_id, body)


def committed_in(call: Call, group_id: str) -> list[Which]:
    """What a reset without topics is about, without those that may not be described."""
    found: dict[str, list[int]] = {}
    for place in sorted(zookeeper_groups.committed_in(call.broker, group_id)):
        found.setdefault(place.topic, []).append(place.partition)
    described = call.described_topics()
    return [{"topic": name, "partitions": found[name]} for name in found if name in described]


ROUTES = [
    get(
        "/groups",
        list_groups,
        GroupList,
        "Consumer groups with members and lag.",
        version=lambda call: call.broker.groups_version,
        params=(
            Param("q", str, "Only groups whose id contains this text.", ""),
            Param("state", str, "Only groups in this state.", ""),
            Param("order", str, "By id, or largest lag first.", "group", choices=("group", "lag")),
            Param("offset", int, "Number to skip.", 0, minimum=0),
            Param("limit", int, "Largest number.", 1000, minimum=1, maximum=10_000),
        ),
        rights=(),
        asks="only groups with DESCRIBE",
    ),
    get(
        "/groups/{group}",
        get_group,
        GroupAnswer,
        "One group: members, offsets, lag.",
        rights=(DESCRIBE_GROUP,),
        asks="only topics with DESCRIBE",
    ),
    get(
        "/groups/{group}/lag",
        get_lag,
        LagAnswer,
        "Lag over the last hour, by topic.",
        rights=(DESCRIBE_GROUP,),
        asks="only topics with DESCRIBE",
    ),
    delete(
        "/groups/{group}",
        delete_group,
        None,
        "Delete a group with its offsets.",
        role=ADMIN,
        rights=(DELETE_GROUP,),
    ),
    post(
        "/groups/{group}/reset",
        reset_offsets,
        ResetAnswer,
        "Reset committed offsets; a dry run unless dry_run is false.",
        body=Reset,
        rights=(READ_GROUP,),
        asks="READ on each topic",
    ),
]
