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
from appliance.errors import Refused
from appliance.process import event_log

log = event_log.named("replication")

LOOK_S = 0.005
HAND_OVER_S = 10.0  # a stop waits so long for followers and for an election
TOLD_S = 1.0  # and for ZooKeeper, before the first clients are refused


async def hand_over(cluster: Cluster, roles: ReplicaRoles) -> None:
    """Where nobody else is in sync there is nobody to wait for: what it led waits for it."""
    end_s = time.monotonic() + HAND_OVER_S
    if roles.led() and len(cluster.brokers) > 1 and cluster.has_session:
        await tell_of_stop(cluster)
    roles.end_leading()
    if len(cluster.brokers) < 2:
        return
    await until(lambda: all(is_ready(log) for _, log in roles.to_hand_over()), end_s)
    if not cluster.has_session:
        log.warning("stops without a session with ZooKeeper: what others lack of what it led is on "
                    "this broker alone", partitions=len(roles.to_hand_over()))  # fmt: skip
        return
    if await cluster.leave(max(0.1, end_s - time.monotonic())):
        await until(lambda: not roles.to_hand_over(), end_s)
    if count := len(roles.to_hand_over()):
        log.warning("stops as a leader: others are elected when it is gone", partitions=count)


async def tell_of_stop(cluster: Cluster) -> None:
    """Where that fails clients find the next leaders later. It is a courtesy to them, no more."""
    with suppress(Refused, asyncio.TimeoutError):
        await asyncio.wait_for(cluster.tell_of_stop(), TOLD_S)
        await asyncio.sleep(HEARD_S)


def is_ready(log: Log) -> bool:
    """Whether another one may lead: all of the ISR have what this log has, also what was
    acknowledged by acks=1, and so has who is to join it. While the session may be over the log
    rests, and its followers wait: it leads on, for them alone, or another one is elected."""
    if log.role != "leader":
        return False
    end_offset = log.log_end_offset  # nothing is taken any more
    others = [each for each in log.replicas() if each.is_in_sync or each.is_joining]
    return all(each.end_offset >= end_offset for each in others)


async def until(is_so: Callable[[], bool], end_s: float) -> None:
    """Or until that time of `time.monotonic()`."""
    while time.monotonic() < end_s:
        if is_so():
            return
        await asyncio.sleep(LOOK_S)
