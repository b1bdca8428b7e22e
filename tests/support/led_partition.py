"""A broker that leads a partition of a cluster, by what it is told of that; no ZooKeeper."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.broker.inter_broker_security import InterBrokerSecurity
from appliance.broker.replica_fetchers import ReplicaFetchers
from appliance.broker.replica_roles import ReplicaRoles
from appliance.cluster.forms import ClusterTopic, PartitionState
from appliance.topics.replicated_topics import ReplicatedTopics, Wanted

ID, KEY, LIFE, EPOCH = uuid.UUID(int=7), ("t", 0), 4, 5


def cluster(replicas: tuple[int, ...] = (1, 2), in_sync: tuple[int, ...] = (1, 2)) -> Any:
    """What it says of a partition that broker 1 leads."""
    return SimpleNamespace(
        member=SimpleNamespace(node_id=1),
        topics={"t": ClusterTopic("t", ID.bytes, (replicas,))},
        states={KEY: PartitionState(1, LIFE, EPOCH, in_sync)},
        leads=lambda key: key == KEY,
        least_in_sync=lambda topic, number: 1,
    )


async def leading(broker: Broker, known: Any) -> tuple[ReplicaRoles, Log]:
    shown = ReplicatedTopics(broker.topics, broker.change, lambda name: None)
    await shown.agree(lambda: Wanted("t", ID, 1, frozenset([0]), {}, {}))
    fetchers = ReplicaFetchers(1, broker.config.replication, InterBrokerSecurity(broker.config))
    roles = ReplicaRoles(broker.topics, fetchers, {})
    roles.cluster = known
    roles.apply_all()
    return roles, broker.topics["t"].log(0)
