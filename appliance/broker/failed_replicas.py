"""Replicas whose disk fails while the broker runs: others lead them, and wait for them no more.

They leave the ISR at once. Then a new life begins: what they had fetched in the former one must not
bring them back, and a leader cannot know that it counts no more (rule 8 of docs/replication.md).
Failures come in rows, as each partition meets the disk by itself, and each new life has all that is
led here elected anew: so there is one life for all that fail within a while.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

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
        self._known: set[Key] = set()
        self._renewed_s = -RENEWED_S

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            failed = self._failed()
            self._known &= failed  # what is opened again may fail again
            if failed - self._known and self._cluster.life:
                await self._give_up(failed - self._known)

    def _failed(self) -> set[Key]:
        return {
            (topic.name, number)
            for topic in self._topics.values()
            if topic.is_replicated
            for number, log in enumerate(topic.logs)
            if log is not None and log.failed is not None
        }

    async def _give_up(self, keys: set[Key]) -> None:
        names = ", ".join(f"{topic}-{number}" for topic, number in sorted(keys)[:10])
        events.error("replicas failed: others are to lead them", count=len(keys), which=names)
        try:
            await self._cluster.resign(sorted(keys))
        except ApplianceError as error:
            events.error("replicas that failed are still in the ISR", error=error)
            return  # it is tried again
        self._known |= keys
        since_s = time.monotonic() - self._renewed_s
        await asyncio.sleep(max(TOGETHER_S, RENEWED_S - since_s))
        self._known |= self._failed()
        await self._cluster.renew()
        self._renewed_s = time.monotonic()
