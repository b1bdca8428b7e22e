"""Replicas whose disk fails while the broker runs: others lead them, and wait for them no more.

They leave the ISR at once. Then a new life begins: what they had fetched in the former one must not
bring them back, and a leader cannot know that it counts no more (rule 8 of docs/replication.md).
Failures come in rows, as each partition meets the disk by itself, and each new life has all that is
led here elected anew: so there is one life for all that fail within a while.

What failed for want of room has all that ever counted, and is opened again by itself, but not in
the life in which it failed: it may lack what others fetched from it in that election, and would
write something else there. Where nobody else who lives could lead it stays in the ISR, and leads
again: when all disks are full at once, one replica must be left.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from appliance._log import Log
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.topics.topics import Topics

if TYPE_CHECKING:
    from appliance.cluster.cluster import Cluster

events = event_log.named("replication")

LOOK_S = 0.25
TOGETHER_S = 1.0  # a disk that failed fails for all that write to it
RENEWED_S = 10.0  # at most one new life in so long


class FailedReplicas:
    """On the event loop."""

    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self._cluster = cluster
        self._topics = topics
        self._known: dict[Key, Log] = {}  # that others lead, or will
        self._outlived: dict[Key, Log] = {}  # another life has begun since they failed
        self._renewed_s = -RENEWED_S

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            failed = self._failed()
            # By the log: what is opened again may fail again, between two looks.
            self._known = common(self._known, failed)
            self._outlived = common(self._outlived, failed)
            if len(self._outlived) < len(failed) and self._cluster.life:
                await self._give_up()

    def may_reopen(self, key: Key, log: Log) -> bool:
        """One that failed."""
        topic = self._topics.get(key[0])
        is_replicated = topic is not None and topic.is_replicated
        return not is_replicated or self.is_over(key, log)

    def is_over(self, key: Key, log: Log) -> bool:
        """It failed, and another life has begun since, in which nobody counts on it."""
        return self._outlived.get(key) is log

    def _new(self) -> dict[Key, Log]:
        failed = self._failed()
        return {key: failed[key] for key in failed if self._known.get(key) is not failed[key]}

    def _failed(self) -> dict[Key, Log]:
        return {
            (topic.name, number): log
            for topic in self._topics.values()
            if topic.is_replicated
            for number, log in enumerate(topic.logs)
            if log is not None and log.failed is not None
        }

    async def _give_up(self) -> None:
        try:
            await self._resign()
            since_s = time.monotonic() - self._renewed_s
            await asyncio.sleep(max(TOGETHER_S, RENEWED_S - since_s))
            await self._resign()
        except ApplianceError as error:
            events.error("replicas that failed are still in the ISR", error=error)
            return  # it is tried again
        outlived = dict(self._known)
        await self._cluster.renew()
        self._outlived = outlived
        self._renewed_s = time.monotonic()

    async def _resign(self) -> None:
        new = self._new()
        if not new:
            return
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(new)[:10])
        events.error("replicas failed: others are to lead them", count=len(new), which=names)
        whole = {key for key, log in new.items() if log.waits_for_room}
        await self._cluster.resign(sorted(new), whole)
        self._known |= new


def common(known: dict[Key, Log], failed: dict[Key, Log]) -> dict[Key, Log]:
    return {key: log for key, log in known.items() if failed.get(key) is log}
