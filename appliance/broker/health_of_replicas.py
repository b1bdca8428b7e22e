"""What health says of a broker that is one of a cluster: of what it leads, and of its own part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.broker.finding import Finding, first_of
from appliance.cluster import reassignment
from appliance.process.spoken import some

if TYPE_CHECKING:
    from appliance.broker.in_cluster import InCluster
    from appliance.cluster.forms import PartitionState

# A leader whose life is over for so long has no successor: elections take less, also where the
# controller is gone with it.
ELECTED_S = 10.0


def of_replicas(here: InCluster) -> Iterator[Finding]:
    if not here.cluster.has_read_all:
        yield Finding(
            "failing", "replicas",
            "nothing was heard of the cluster since the start, because ZooKeeper does not answer: "
            "what is here may have been moved or deleted, so nothing of it is served until then",
        )  # fmt: skip
    if here.roles.is_paused:
        yield Finding(
            "failing", "replicas",
            "the session with ZooKeeper may be over, so that another broker may lead what this one "
            "led: until ZooKeeper answers it leads only what no other broker has",
        )  # fmt: skip
    for text in undecided(here):
        yield Finding("failing", "replicas", text, "the controller's work")
    yield from first_of("failing", "replicas", refused(here), "elections cannot be followed")
    lost = sorted(without_leader(here))
    yield from first_of("failing", "replicas", lost, "partitions have no leader")
    few, under, alone = [], [], []
    living = len(here.cluster.brokers)
    for (topic, partition), log in here.roles.led():
        state, known = here.cluster.states.get((topic, partition)), here.cluster.topics.get(topic)
        if state is None or known is None:
            continue
        # as in Kafka, who is being added is not missed until it came
        isr, count = len(state.isr), len(reassignment.before(known, partition))
        least = here.cluster.least_in_sync(topic, partition)
        if isr < least:
            few.append(f"{log.name}: {isr} of {count} replicas are in sync, wanted {least} "
                       "(min.insync.replicas): nothing counts until one returns")  # fmt: skip
        elif isr < count:
            under.append(f"{log.name}: {isr} of {count} replicas are in sync")
        wanted = min(here.broker.config.replication.factor, living)
        if len(known.partitions[partition]) < wanted and here.broker.topics[topic].is_internal:
            alone.append(f"{log.name} has {some(count, 'replica')}, and {living} brokers live: "
                         "appliance cluster replicate gives it more")  # fmt: skip
    yield from first_of("failing", "replicas", few, "partitions have too few replicas in sync")
    yield from first_of("degraded", "replicas", under, "partitions have replicas behind")
    yield from first_of("degraded", "replicas", alone, "topics of groups or transactions have few "
                        "replicas")  # fmt: skip
    yield from first_of("degraded", "replicas", unfollowed(here), "leaders cannot be followed")
    yield from first_of("degraded", "replicas", unlike_the_cluster(here), "topics are not as the "
                        "cluster has them")  # fmt: skip
    if text := facts_unlike(here):
        if here.roles.may_lead:
            yield Finding("degraded", "zookeeper", text)
        else:
            text = f"{text}; until they are, nothing is led here"
            yield Finding("failing", "zookeeper", text)
    unusable = [f"{path} in ZooKeeper: {why}" for path, why in sorted(here.facts.troubles.items())]
    yield from first_of("degraded", "zookeeper", unusable, "facts in ZooKeeper were passed over")
    nodes = [f"{path} in ZooKeeper: {why}" for path, why in sorted(here.cluster.troubles.items())]
    yield from first_of("degraded", "zookeeper", nodes, "nodes in ZooKeeper were passed over")


def reasons_of(here: InCluster) -> list[str]:
    """What no other broker can know, and why replicas of this one may lack something: told to who
    looks at the cluster as a whole."""
    dirs = here.broker.log_dir.directories
    offline = [f"{each.path} is offline: {each.why}" for each in dirs if each.logs is None]
    facts = [text] if (text := facts_unlike(here)) else []
    return [*unfollowed(here), *offline, *undecided(here), *refused(here),
            *unlike_the_cluster(here), *facts]  # fmt: skip


def unfollowed(here: InCluster) -> list[str]:
    troubles = here.fetchers.troubles.items()
    return sorted(f"{why} ({some(count, 'partition')})" for why, count in troubles)


def undecided(here: InCluster) -> list[str]:
    words = (
        "the controller's work fails here again and again, so that nobody is elected, and no topic "
        "is made or deleted"
    )
    return [f"{words}: {fault}"] if (fault := here.cluster.controller_fault) else []


def refused(here: InCluster) -> list[str]:
    """Of a log that has failed, or is not open, others tell."""
    found = [
        (log.name, why) for key, why in here.roles.refused.items()
        if (log := here.broker.topics.served_log(*key)) is not None and not log.failed
    ]  # fmt: skip
    return sorted(f"{name}: its election cannot be followed: {why}" for name, why in found)


def unlike_the_cluster(here: InCluster) -> list[str]:
    return [f"{name}: {why}" for name, why in sorted(here.topics.troubles.items())]


def facts_unlike(here: InCluster) -> str:
    found = here.facts.trouble
    return f"users, rules and settings are not as the cluster has them: {found}" if found else ""


def without_leader(here: InCluster) -> Iterator[str]:
    """Told by the controller, and by whoever has a replica."""
    cluster, us = here.cluster, here.broker.node_id
    for (topic, partition), state in cluster.states.items():
        known = cluster.topics.get(topic)
        if is_led(here, state) or known is None or partition >= len(known.partitions):
            continue
        replicas = known.partitions[partition]
        if us in replicas or cluster.is_controller:
            away = [each for each in replicas if each not in cluster.brokers]
            why = f"; not there: {away}" if away else ""
            if state.leader >= 0:
                why += f"; the life in which {state.leader} led it is over, and none was elected"
            yield (f"{topic}-{partition} has no leader: nobody can write to it or read it "
                   f"(replicas on {[*replicas]}{why})")  # fmt: skip


def is_led(here: InCluster, state: PartitionState) -> bool:
    """Also by who is gone since a moment: others are being elected."""
    return state.leader >= 0 and here.cluster.gone_s(state.leader, state.leader_life) < ELECTED_S
