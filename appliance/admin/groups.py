"""Consumer groups over REST: list, describe, reset offsets, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypedDict

from appliance.access.acls import Operation
from appliance.admin.body_schema import row_of
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
from appliance.groups.lag import GroupLag
from appliance.groups.member import Member
from appliance.groups.modern_group import ModernGroup
from appliance.groups.partition_handover import Places
from appliance.groups.records import Partition
from appliance.process.detached_tasks import outcome


class GroupRow(TypedDict):
    group: str
    protocol: str  # classic, consumer, share
    state: str
    members: int
    topics: list[str]  # with committed offsets, or in a subscription
    lag_records: int
    no_commit_records: int  # part of the lag: from the log's start in partitions without a commit
    no_commit_partitions: int
    lag_seconds: float | None  # age of the oldest unconsumed record; None: unknown yet


class GroupList(TypedDict):
    total: int  # before `limit`
    groups: list[GroupRow]


class MemberRow(TypedDict):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None  # of the newer protocol
    partitions: dict[str, list[int]]
    target: dict[str, list[int]] | None  # target assignment, in the newer protocol


class OffsetRow(TypedDict):
    topic: str
    partition: int
    committed: int | None  # None: no commit
    no_commit_yet: bool  # the lag counts from the log's start: auto.offset.reset is the consumer's
    metadata: str
    committed_ms: int | None  # None: unknown for share groups
    start: int | None  # None: the partition no longer exists
    end: int | None  # end for the group's readers
    lag_records: int | None
    lag_seconds: float | None
    lost_records: int | None  # part of the lag: deleted before they were read
    member_id: str | None  # of the reader


class GroupAnswer(GroupRow):
    assignor: str
    generation: int
    member_rows: list[MemberRow]
    offsets: list[OffsetRow]
    unread: list[dict[str, str | int]]  # partitions of its topics without a reader
    allowed: list[str]  # operations of who asks; its topics are those with DESCRIBE


class LagSampleRow(TypedDict):
    at_ms: int
    records: int
    seconds: float | None


class LagAnswer(TypedDict):
    interval_s: int
    topics: dict[str, list[LagSampleRow]]  # oldest first


def protocol_of(group: AnyGroup) -> str:
    if isinstance(group, Group):
        return "classic"
    return "consumer" if isinstance(group, ConsumerGroup) else "share"


def assignor_of(group: AnyGroup) -> str:
    if isinstance(group, Group):
        return group.protocol_name or ""
    return group.assignor if isinstance(group, ConsumerGroup) else ""


async def list_groups(call: Call) -> GroupList:
    groups = call.broker.groups
    groups.availability.check_loaded()
    described = call.rights.described(GROUP)
    text, states = call.params["q"].lower(), call.params["state"].lower()
    found = [
        each
        for each in sorted(groups.table.groups.values(), key=lambda each: each.id)
        if not each.is_dead
        and each.id in described
        and text in each.id.lower()
        and (not states or each.state.value.lower() == states)
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


def group_row(call: Call, group: AnyGroup, lag: GroupLag | None) -> GroupRow:
    """The present records, the measured seconds, of topics that may be described."""
    described = call.described_topics()
    found = call.broker.lag.records_of(group.id, described)
    if lag is not None and not described.is_everything:
        lag = lag.of_topics(described)
    return {
        "group": group.id,
        "protocol": protocol_of(group),
        "state": group.state.value,
        "members": len([*group.members]),
        "topics": sorted(found.topics),
        "lag_records": found.records,
        "no_commit_records": found.without_commit.records,
        "no_commit_partitions": found.without_commit.partitions,
        "lag_seconds": None if lag is None else lag.seconds,
    }


async def get_group(call: Call) -> GroupAnswer:
    broker, described = call.broker, call.described_topics()
    group = broker.groups.table.get(call.path["group"])
    lag = await broker.lag.of_group(group.id)
    members = member_rows(broker, group)
    for each in members:
        each["partitions"] = of_described(each["partitions"], described)
        each["target"] = each["target"] and of_described(each["target"], described)
    owners = {
        Partition(topic, partition): each["member_id"]
        for each in members
        for topic, partitions in each["partitions"].items()
        for partition in partitions
    }
    is_classic = isinstance(group, Group)
    rows = offset_rows(broker, group.id, lag, owners)
    left = unread(broker, group, owners) if members or not is_classic else []
    return {
        **group_row(call, group, lag),
        "assignor": assignor_of(group),
        "generation": group.generation if isinstance(group, Group) else group.epoch,
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
    }


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
    committed = broker.groups.offsets.of_group(group_id)
    measured = {Partition(each.topic, each.partition): each for each in lag.partitions}
    rows: list[OffsetRow] = []
    for place in sorted({*committed, *measured}):
        own, each = committed.get(place), measured.get(place)
        log = broker.topics.served_log(place.topic, place.partition)
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": each.committed if each else own.value.offset if own else None,
                "no_commit_yet": each is not None and each.committed is None,
                "metadata": own.value.metadata if own else "",
                "committed_ms": own.value.commit_timestamp if own else None,
                "start": None if log is None else log.log_start_offset,
                "end": each.end if each else None,
                "lag_records": each.records if each else None,
                "lag_seconds": each.seconds if each else None,
                "lost_records": each.lost if each else None,
                "member_id": owners.get(place),
            }
        )
    return rows


def get_lag(call: Call) -> LagAnswer:
    broker, described = call.broker, call.described_topics()
    group = broker.groups.table.get(call.path["group"])
    found = broker.lag.history(group.id)
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
    for place in sorted(call.broker.groups.offsets.of_group(group_id)):
        found.setdefault(place.topic, []).append(place.partition)
    described = call.described_topics()
    return [{"topic": name, "partitions": found[name]} for name in found if name in described]


ROUTES = [
    get(
        "/groups",
        list_groups,
        GroupList,
        "Consumer groups with members and lag.",
        version=lambda call: call.broker.groups.table.version,
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
