"""From one box to a cluster, and back: whose the topics are.

A broker that is to join a cluster, and has topics of its own, takes them in with it at the start,
before clients are let in: ZooKeeper first, then one change of the catalog. A kill between leaves
topics in ZooKeeper that the next start finds there, and passes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from appliance.broker import kept_lives
from appliance.broker.broker import Broker
from appliance.cluster.forms import ClusterTopic
from appliance.cluster.taking_in import Away, OneBox, OwnTopic, take_in, topics_in
from appliance.data_dir import data_format
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.topics.reconciliation import PRODUCER_IDS_MARGIN
from appliance.topics.topic import Topic
from appliance.topics.topic_rows import TopicRow

log = event_log.named("cluster")
SHOWN_MAX, EPOCHS_MARGIN = 5, 1_000_000


class ReplicasElsewhere(ApplianceError):
    """This directory has not all that the cluster has."""


async def is_taken_in(broker: Broker) -> bool:
    """Whether all of its topics are the cluster's now. False: ZooKeeper does not answer, and it
    serves as one box until it is started again. NamesTaken: it cannot be."""
    own = [each for each in broker.topics.values() if not each.is_replicated]
    if not own:
        return True
    rows = broker.topics.rows
    next_id = await asyncio.to_thread(rows.next_producer_id)
    config = broker.config.zookeeper
    topics = [_own_topic(each, broker.config.replication.factor) for each in own]
    box = OneBox(broker.node_id, broker.cluster_id, topics, next_id)
    try:
        is_new_there = await take_in(config, box)
    except Away as error:
        broker.kept_from_cluster = (
            f"{len(own)} topics are this broker's own and not the cluster's yet: {error}. It "
            "serves as one box until it is started again while ZooKeeper answers"
        )
        log.warning(broker.kept_from_cluster)
        return False
    if is_new_there and len(own) == len(broker.topics):
        await asyncio.to_thread(kept_lives.trust, broker.log_dir)
    taken = [TopicRow(each.name, each.id, len(each.logs)) for each in own]
    await asyncio.to_thread(rows.replicate, taken)
    for topic in own:
        topic.here = frozenset(range(len(topic.logs)))
        for each in topic.open_logs:
            each.hold()
    log.info("topics of one box are the cluster's now", count=len(own),
             partitions=sum(len(each.logs) for each in own))  # fmt: skip
    return True


def _own_topic(topic: Topic, factor: int) -> OwnTopic:
    """The broker's own topics get more replicas by themselves when more brokers live, those of
    people by their word. A log that is not open says nothing: it is led when it is, by an epoch
    that is far above all others of its topic."""
    known = max((each.leader_epoch for each in topic.open_logs), default=0) + EPOCHS_MARGIN
    epochs = [known if each is None else each.leader_epoch for each in topic.logs]
    wanted_factor = factor if topic.is_internal else 0
    return OwnTopic(topic.name, topic.id.bytes, epochs, topic.configs, wanted_factor)


async def leave(broker: Broker, keeps_what_is_here: bool) -> tuple[int, int]:
    """Offline: topics of a cluster become this broker's own. How many, and how many of their
    partitions are empty then, because they were given up."""
    topics = [each for each in broker.topics.values() if each.is_replicated]
    known: Mapping[str, ClusterTopic] = {}
    if not keeps_what_is_here and topics:
        names = [each.name for each in topics]
        known = await topics_in(broker.config.zookeeper, names)
    return await asyncio.to_thread(_leave, broker, topics, known, keeps_what_is_here)


def _leave(
    broker: Broker, topics: list[Topic], known: Mapping[str, ClusterTopic], keeps: bool
) -> tuple[int, int]:
    missing = [f"{each.name}-{number}" for each in topics for number in range(len(each.logs))
               if number not in (each.here or ())]  # fmt: skip
    if not keeps:
        _check_alone(broker.node_id, topics, missing, known)
    seen = (one.producer_id for each in broker.log_dir.logs().values() for one in each.producers())
    broker.topics.rows.leave_cluster(max(seen, default=-1) + 1 + PRODUCER_IDS_MARGIN)
    now_ms = broker.clock.now_ms()
    data_format.take(broker.config.data_dir, now_ms, broker.log_dir.needs)
    return len(topics), len(missing)


def _check_alone(
    us: int, topics: Sequence[Topic], missing: list[str], known: Mapping[str, ClusterTopic]
) -> None:
    others = [
        f"{name} on {[*replicas]}"
        for each in topics if each.name in known and known[each.name].topic_id == each.id.bytes
        for name, replicas in (
            (f"{each.name}-{number}", replicas)
            for number, replicas in enumerate(known[each.name].partitions))
        if {*replicas} - {us}
    ]  # fmt: skip
    if not missing and not others:
        return
    raise ReplicasElsewhere(
        f"of the cluster's partitions {len(missing)} are not in this directory"
        f"{some_of(missing)}, and {len(others)} have replicas elsewhere{some_of(others)}. Move "
        "them here first (kafka-reassign-partitions), or give up what is not here: "
        "--keep-what-is-here"
    )


def some_of(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > SHOWN_MAX else ""
    return f" ({', '.join(names[:SHOWN_MAX])}{more})" if names else ""
