"""Partitions that a cluster refuses for a while, as one whose disk cannot be read.

At first a refusal ends the round: the next one may find another leader. Who is refused for longer
holds up no other. It is asked again with each refresh of topics.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from appliance.mirror.site import Topic, TopicPartition


class Unserved:
    """Of one cluster, by the time of the first refusal since the last good answer."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, float] = {}

    def serves(self, partition: TopicPartition) -> None:
        self._since.pop(partition, None)

    def forget_gone(self, topics: Mapping[str, Topic]) -> None:
        """`topics` are those of the cluster now."""
        self._since = {
            each: since
            for each, since in self._since.items()
            if each.topic in topics and each.partition in topics[each.topic].leaders
        }

    def lasts(self, partition: TopicPartition, patience_ms: int) -> bool:
        """Told of each refusal."""
        now = time.monotonic()
        return now - self._since.setdefault(partition, now) >= patience_ms / 1000
