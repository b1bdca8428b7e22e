"""How fast followers may get what they lack: Kafka's limits, for moves and brokers that come back.

    leader.replication.throttled.rate, follower.replication.throttled.rate          of a broker
    leader.replication.throttled.replicas, follower.replication.throttled.replicas  of a topic

A rate holds for the partitions that the topic names for this broker: PARTITION:BROKER,..., or * for
all. Who is in sync is never held back: it would leave the ISR, and acks=all waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from appliance.config.dynamic_broker_config import (
    FOLLOWER_RATE,
    LEADER_RATE,
    BrokerConfigs,
)
from appliance.config.setting import LONG_MAX

AS_LEADER = "leader.replication.throttled.replicas"
AS_FOLLOWER = "follower.replication.throttled.replicas"
EVERY = "*"


def rates(configs: BrokerConfigs) -> tuple[int, int]:
    """Bytes a second, of what leaders give and of what followers get; 0: as fast as it can be."""
    found = [configs.number(each) for each in (LEADER_RATE, FOLLOWER_RATE)]
    leader, follower = (0 if each == LONG_MAX else max(each, 1) for each in found)
    return leader, follower


def is_slow(configs: Mapping[str, str], setting: str, partition: int, node_id: int) -> bool:
    named = configs.get(setting, "")
    return named == EVERY or f"{partition}:{node_id}" in named.split(",")
