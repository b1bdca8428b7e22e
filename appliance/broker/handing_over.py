"""Before a broker of a cluster stops: others lead what it led, and have all of it, while it still
has its session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from appliance._log import Log
from appliance.broker.replica_roles import ReplicaRoles
from appliance.cluster.cluster import HEARD_S, Cluster
from appliance.data_dir.partition_names import Key
from appliance.errors import Refused
from appliance.process import event_log

log = event_log.named("replication")

LOOK_S = 0.005
HAND_OVER_S = 10.0  # a stop waits so long for followers and for an election
TOLD_S = 1.0  # and for ZooKeeper, before the first clients are refused


async def hand_over(cluster: Cluster, roles: ReplicaRoles) -> None:
    """Where nobody else is in sync there is nobody to wait for: what it led waits for it."""
    if roles.led() and len(cluster.brokers) > 1 and cluster.has_session:
        await tell_of_stop(cluster)
    ends = roles.end_leading()
    if not ends or len(cluster.brokers) < 2 or not cluster.has_session:
        return

    def left() -> int:
        """What others could lead."""
        states = cluster.states
        return sum(key in states and len(states[key].isr) > 1 for key, _ in roles.led())

    end_s = time.monotonic() + HAND_OVER_S
    await until(lambda: all(is_ready(cluster, *each) for each in ends.items()), end_s)
    if await cluster.leave(max(0.1, end_s - time.monotonic())):
        await until(lambda: not left(), end_s)
    if count := left():
        log.warning("stops as a leader: others are elected when it is gone", partitions=count)


async def tell_of_stop(cluster: Cluster) -> None:
    """Where that fails clients find the next leaders later. It is a courtesy to them, no more."""
    with suppress(Refused, asyncio.TimeoutError):
        await asyncio.wait_for(cluster.tell_of_stop(), TOLD_S)
        await asyncio.sleep(HEARD_S)


def is_ready(cluster: Cluster, key: Key, log: Log) -> bool:
    """Whether another one may lead. While the session may be over the log rests, and its followers
    wait: it leads on, for them alone, or another one is elected."""
    return not cluster.leads(key) or (log.role == "leader" and has_all(log))


def has_all(log: Log) -> bool:
    """Whether all of the ISR have what this log has: also what was acknowledged by acks=1. Who
    joins it later has that, too: the log sees to it."""
    end_offset = log.log_end_offset  # nothing is taken any more
    others = [each for each in log.replicas() if each.is_in_sync or each.is_joining]
    return all(each.end_offset >= end_offset for each in others)


async def until(is_so: Callable[[], bool], end_s: float) -> None:
    """Or until that time of `time.monotonic()`."""
    while time.monotonic() < end_s:
        if is_so():
            return
        await asyncio.sleep(LOOK_S)
