"""Replicas over REST: of the whole cluster in numbers, and of a topic's partitions one by one.

All is as this broker has it from ZooKeeper; how far followers are is known to their leader alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from appliance._log import Log
from appliance.admin.rights import DESCRIBE_CLUSTER, DESCRIBE_TOPIC
from appliance.admin.route import Call, get
from appliance.admin.topic_lookup import topic_of
from appliance.broker.broker import Broker
from appliance.broker.members import NOBODY, Placement
from appliance.topics.topic import Topic

if TYPE_CHECKING:
    from appliance.cluster.cluster import Cluster

SLICE = 500  # partitions between two turns of the event loop, about a millisecond
SHOWN = 100  # partitions that are not well

Verdict = Literal["ok", "behind", "too few in sync", "no leader"]


class FollowerRow(TypedDict):
    node_id: int
    end_offset: int  # what it has on disk; -1: it has not fetched yet
    lag: int  # records
    behind_ms: int  # since it had everything
    is_in_sync: bool


class ReplicaRow(TypedDict):
    topic: str
    partition: int
    verdict: Verdict
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    eligible: list[int]  # outside of the ISR, with all that counts
    offline: list[int]  # on brokers that are not there
    least: int  # that must be in sync for a record to count
    followers: list[FollowerRow]  # none where another broker leads


class TopicReplicas(TypedDict):
    partitions: list[ReplicaRow]


class BrokerRow(TypedDict):
    node_id: int
    address: str | None  # None: it is not there
    rack: str
    is_leaving: bool
    leads: int
    preferred: int  # partitions of which it is the first replica
    replicas: int
    in_sync: int
    reasons: list[str]  # why it cannot follow others, by its own word


class ReplicasAnswer(TypedDict):
    node_id: int  # of the broker that tells it
    zookeeper: str | None  # None: it is no cluster
    session: str
    controller: int | None
    brokers: list[BrokerRow]
    verdicts: dict[Verdict, int]  # partitions
    troubles: list[ReplicaRow]


Least = Callable[[str, int], int]  # of a partition


def verdict_of(found: Placement, least: int) -> Verdict:
    if found.leader == NOBODY:
        return "no leader"
    if len(found.isr) < least:
        return "too few in sync"
    return "behind" if len(found.isr) < len(found.replicas) else "ok"


def replica_row(broker: Broker, topic: Topic, index: int, least: Least) -> ReplicaRow:
    found = broker.members.placement(topic, index)
    wanted = least(topic.name, index)
    log = topic.logs[index] if found.leader == broker.node_id else None
    return {
        "topic": topic.name,
        "partition": index,
        "verdict": verdict_of(found, wanted),
        "leader": None if found.leader == NOBODY else found.leader,
        "leader_epoch": found.leader_epoch,
        "replicas": [*found.replicas],
        "in_sync": [*found.isr],
        "eligible": [*found.eligible],
        "offline": [*found.offline],
        "least": wanted,
        "followers": [] if log is None else followers(log),
    }


def followers(log: Log) -> list[FollowerRow]:
    end = log.log_end_offset
    return [
        {
            "node_id": each.node,
            "end_offset": each.end_offset,
            "lag": end - max(0, each.end_offset),
            "behind_ms": each.lag_ms,
            "is_in_sync": each.is_in_sync,
        }
        for each in log.replicas()
    ]


def least_of(call: Call) -> Least:
    here = call.process.cluster
    return (lambda topic, index: 1) if here is None else here.cluster.least_in_sync


async def topic_replicas(call: Call) -> TopicReplicas:
    topic, least = topic_of(call), least_of(call)
    rows = []
    for index in range(len(topic.logs)):
        rows.append(replica_row(call.broker, topic, index, least))
        if index % SLICE == SLICE - 1:
            await asyncio.sleep(0)
    return {"partitions": rows}


async def list_replicas(call: Call) -> ReplicasAnswer:
    node_id, here = call.process.config.node_id, call.process.cluster
    if here is None:
        return {"node_id": node_id, "zookeeper": None, "session": "", "controller": None,
                "brokers": [], "verdicts": {}, "troubles": []}  # fmt: skip
    described, least = call.described_topics(), here.cluster.least_in_sync
    counts: Mapping[str, Counter[int]] = {name: Counter() for name in COUNTED}
    verdicts: Counter[Verdict] = Counter()
    troubles: list[ReplicaRow] = []
    async for topic, index, found in placements(call.broker):
        count(counts, found)
        verdict = verdict_of(found, least(topic.name, index))
        verdicts[verdict] += 1
        if verdict != "ok" and len(troubles) < SHOWN and topic.name in described:
            troubles.append(replica_row(call.broker, topic, index, least))
    controller = here.cluster.controller_id
    reasons = await here.cluster.reasons.of_all()
    return {
        "node_id": node_id,
        "zookeeper": str(call.process.config.zookeeper.ensemble),
        "session": here.status,
        "controller": None if controller == NOBODY else controller,
        "brokers": brokers(here.cluster, counts, reasons),
        "verdicts": {**verdicts},
        "troubles": troubles,
    }


COUNTED = ("leads", "preferred", "replicas", "in_sync")


def count(counts: Mapping[str, Counter[int]], found: Placement) -> None:
    counts["leads"][found.leader] += 1
    counts["preferred"].update(found.replicas[:1])
    counts["replicas"].update(found.replicas)
    counts["in_sync"].update(found.isr)


async def placements(broker: Broker) -> AsyncIterator[tuple[Topic, int, Placement]]:
    number = 0
    for topic in [*broker.topics.values()]:
        for index in range(len(topic.logs)):
            number += 1
            if number % SLICE == 0:
                await asyncio.sleep(0)
            yield topic, index, broker.members.placement(topic, index)


def brokers(
    cluster: Cluster,
    counts: Mapping[str, Counter[int]],
    reasons: Mapping[int, Sequence[str]],
) -> list[BrokerRow]:
    """Those that are not there, too, if they have replicas."""
    rows: list[BrokerRow] = []
    for node in sorted({*cluster.brokers, *counts["replicas"]}):
        known = cluster.brokers.get(node)
        listener = next(iter(known.listeners), None) if known else None
        rows.append({
            "node_id": node,
            "address": str(listener.address) if listener else None,
            "rack": known.rack if known else "",
            "is_leaving": node in cluster.leaving,
            "leads": counts["leads"][node],
            "preferred": counts["preferred"][node],
            "replicas": counts["replicas"][node],
            "in_sync": counts["in_sync"][node],
            "reasons": [*reasons.get(node, ())],
        })  # fmt: skip
    return rows


ROUTES = [
    get(
        "/replicas",
        list_replicas,
        ReplicasAnswer,
        "The cluster in numbers: what each broker leads and has, and the partitions that are not "
        "well.",
        rights=(DESCRIBE_CLUSTER,),
        asks="partitions only of topics with DESCRIBE",
    ),
    get(
        "/topics/{topic}/replicas",
        topic_replicas,
        TopicReplicas,
        "Who leads each partition of a topic, who has it, and how far the followers are.",
        rights=(DESCRIBE_TOPIC,),
    ),
]
