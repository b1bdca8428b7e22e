"""Partitions whose leader is another one by now.

In a replicated cluster a former leader may still answer, or nobody where it was. Then metadata is
asked for again, and what has a new leader, or one at a new address, may be asked for there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from appliance.client.broker_partition import NO_BROKER
from appliance.client.cluster import Cluster
from appliance.client.connection import Address
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    PartitionUnknown,
    TopicUnknown,
)
from appliance.client.range_assignor import TopicPartition
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("client")

T = TypeVar("T")


def may_have_moved(of: TopicPartition, error: object) -> bool:
    """Partitions of a broker that is by itself stay there, but it may have another address."""
    if isinstance(error, BrokerRefused):
        return error.retriable and of.partition.broker == NO_BROKER
    return isinstance(error, BrokerUnavailable)


def followed(cluster: Cluster, of: TopicPartition, ask: Callable[[int], T]) -> T:
    """Asks the leader; once more, if it is another one by now."""
    try:
        return ask(cluster.leader(*of))
    except (BrokerUnavailable, BrokerRefused) as error:
        leaders = moved(cluster, [of]) if may_have_moved(of, error) else {}
        if of not in leaders:
            raise
    return ask(leaders[of])


def moved(cluster: Cluster, lost: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The leaders of those that are not where they were believed to be. Without an answer there
    are none: the caller has the error that made it ask."""
    before = {of: _place(cluster, of) for of in lost}
    for topic in {of.topic for of in before}:
        try:
            cluster.refresh(topic)
        except ApplianceError as error:
            log.warning("no metadata of leaders", topic=topic, error=error)
    now = {of: _place(cluster, of) for of in before}
    return {of: place[0] for of, place in now.items() if place and place != before[of]}


def _place(cluster: Cluster, of: TopicPartition) -> tuple[int, Address] | None:
    try:
        leader = cluster.leader(*of)
        return leader, cluster.address(leader)
    except (PartitionUnknown, TopicUnknown, BrokerUnavailable, BrokerRefused):
        return None
