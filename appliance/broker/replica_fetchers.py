"""A thread for each leader that this broker follows, and the partitions that each fetches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from appliance._log import Log
from appliance.config import ReplicationConfig
from appliance.data_dir.partition_names import Key
from appliance.process import event_log
from appliance.replication._replica_fetcher import Fetcher

if TYPE_CHECKING:
    from appliance.cluster.forms import LivingBroker

events = event_log.named("replication")


class Followed(NamedTuple):
    topic_id: bytes
    log: Log
    leader: int
    unclean: int = -1  # the epoch of the last unclean election


class ReplicaFetchers:
    """On the event loop. A fetcher without partitions ends."""

    def __init__(self, node_id: int, config: ReplicationConfig) -> None:
        self._node_id = node_id
        self._config = config
        self._life = 0
        self._addresses: dict[int, tuple[str, int]] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._followed: dict[Key, Followed] = {}

    def follow(
        self, key: Key, topic_id: bytes, log: Log, leader: int, unclean: int = -1
    ) -> None:
        wanted = Followed(topic_id, log, leader, unclean)
        if self._followed.get(key) == wanted:
            return
        self.stop(key)
        self._followed[key] = wanted
        self._fetch(key)

    def stop(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        fetcher = None if followed is None else self._fetchers.get(followed.leader)
        if followed is not None and fetcher is not None:
            fetcher.remove(followed.topic_id, key[1])
            self._end_if_idle(followed.leader)

    def stop_topic(self, name: str) -> None:
        for key in [each for each in self._followed if each[0] == name]:
            self.stop(key)

    def _end_if_idle(self, leader: int) -> None:
        if not any(each.leader == leader for each in self._followed.values()):
            self._fetchers.pop(leader).stop(0)

    def brokers_are(self, brokers: Mapping[int, LivingBroker]) -> None:
        """Where they listen; one that moved is connected to anew."""
        found = {
            node: (each.listeners.all[0].address.host, each.listeners.all[0].address.port)
            for node, each in brokers.items()
        }
        moved = [node for node in self._fetchers if found.get(node, self._addresses.get(node))
                 != self._addresses.get(node)]  # fmt: skip
        self._addresses |= found
        for node in moved:
            self._fetchers.pop(node).stop(0)
        there = {*self._fetchers}
        for key, followed in self._followed.items():
            if followed.leader not in there:
                self._fetch(key)

    def life_is(self, life: int) -> None:
        self._life = life
        for each in self._fetchers.values():
            each.life = life

    def _fetch(self, key: Key) -> None:
        followed = self._followed[key]
        address = self._addresses.get(followed.leader)
        if address is None:
            return  # it is not registered, and will be fetched from when it is
        fetcher = self._fetchers.get(followed.leader)
        if fetcher is None:
            fetcher = Fetcher(followed.leader, *address, self._node_id, self._life, self._config)
            self._fetchers[followed.leader] = fetcher
            fetcher.start()
        fetcher.add(followed.topic_id, key[0], key[1], followed.log, followed.unclean)

    def running(self) -> list[Fetcher]:
        return [*self._fetchers.values()]

    def close(self) -> None:
        """Blocks until all threads have ended."""
        fetchers = [*self._fetchers.values()]
        self._fetchers.clear()
        self._followed.clear()
        for each in fetchers:
            each.stop(0)
        for each in fetchers:
            each.stop()
