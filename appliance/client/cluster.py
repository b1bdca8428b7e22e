"""The brokers and their partitions; any thread may use it.

The brokers come from a configured list, or from a ZooKeeper in which they register. There is no
master: each appliance has its own partitions of a topic, a producer spreads over all of them and a
group consumes all of them. `partition` has the names of partitions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from kazoo.client import KazooClient

from appliance.client.broker_partition import NO_BROKER, BrokerPartition
from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.client.errors import BrokerUnavailable, NoBrokers, PartitionUnknown, TopicUnknown
from appliance.client.metadata import Metadata
from appliance.client.zookeeper import Registry


class Cluster:
    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._watchers: list[Callable[[], None]] = []
        self._lock = threading.Lock()  # of the watchers
        self._listed = [Address.parse(each) for each in config.broker_list.split(",") if each]
        self._metadata = Metadata(config, self._addresses)
        self._registry = Registry(config, self._tell) if config.zk_connect else None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._metadata.close()
        if self._registry:
            self._registry.close()

    @property
    def zookeeper(self) -> KazooClient | None:
        """A ZooKeeper client, connected below the path of `zk_connect`."""
        return self._registry.client if self._registry else None

    def watch(self, watcher: Callable[[], None]) -> None:
        """A thread of ours calls `watcher` after a possible change of brokers, topics or partitions
        in ZooKeeper. Brokers of a `broker_list` report no changes."""
        with self._lock:
            self._watchers.append(watcher)

    def _tell(self) -> None:
        with self._lock:
            watchers = [*self._watchers]
        for each in watchers:
            each()

    def _addresses(self) -> Collection[Address]:
        return self._registry.brokers.values() if self._registry else self._listed

    # metadata

    def brokers(self) -> dict[int, Address]:
        """The registered brokers, or those that metadata has listed."""
        return {**self._registry.brokers} if self._registry else self._metadata.brokers()

    def topics(self) -> list[str]:
        if self._registry:
            return [*self._registry.topics]
        return self._metadata.topics()

    def partitions(self, topic: str, may_create: bool = False) -> tuple[BrokerPartition, ...]:
        """All partitions of a topic, grouped by broker. TopicUnknown if there are none."""
        registered = self._registered(topic, may_create)
        if registered is not None:
            return registered
        return self._counted(topic, tuple(self._metadata.leaders(topic, may_create)))

    def _counted(
        self, topic: str, told: tuple[BrokerPartition, ...]
    ) -> tuple[BrokerPartition, ...]:
        """What brokers tell may be old, and each client asks at another time. All clients that see
        the topic's node in ZooKeeper count the same partitions, whose names are as in `told`."""
        numbers = self._registry.numbers(topic) if self._registry else frozenset()
        homes = {each.broker for each in told}
        if not numbers or len(homes) > 1:
            return told
        return tuple(BrokerPartition(home, n) for home in homes for n in sorted(numbers))

    def is_to_come(self, topic: str) -> bool:
        """Whether ZooKeeper has a topic of which only brokers can tell, and may not have heard."""
        return self._registry is not None and self._registry.partitions(topic) is None

    def _registered(self, topic: str, may_create: bool) -> tuple[BrokerPartition, ...] | None:
        """None if ZooKeeper has no count."""
        if self._registry is None:
            return None
        partitions = self._registry.partitions(topic)
        if partitions == () and may_create:
            made = self._metadata.leaders(topic, may_create=True)
            self._registry.wait_for(topic, made.values())
            partitions = self._registry.partitions(topic)
        if partitions == ():
            brokers = ", ".join(map(str, self._registry.brokers)) or "none"
            why = f"no broker of ZooKeeper has topic {topic!r}; brokers: {brokers}"
            raise TopicUnknown(why).at(topic=topic)
        return partitions

    def leader(self, topic: str, partition: BrokerPartition) -> int:
        """The broker to send to and to fetch from."""
        if self._registry and self._registry.has(topic, partition):
            return partition.broker
        partitions = self._registered(topic, may_create=False)
        if partitions is None:
            return self._metadata.leader(topic, partition)
        if partition not in partitions:
            names = ", ".join(map(str, partitions))
            why = f"{topic}: no partition {partition}, there are {names}"
            raise PartitionUnknown(why).at(topic=topic, partition=partition)
        return partition.broker

    def any_of(self, home: int) -> int:
        """A broker that can answer for the partitions of `home`: that broker itself, or any broker
        of a replicated cluster."""
        if home != NO_BROKER:
            return home
        for number in self.brokers():
            return number
        raise NoBrokers("no broker is known")

    # connections

    def address(self, broker: int) -> Address:
        known = self.brokers()
        if broker not in known:
            names = ", ".join(map(str, known)) or "none"
            raise BrokerUnavailable(f"broker {broker} is unknown, known are {names}")
        return known[broker]

    def connect(self, broker: int) -> Connection:
        """A new connection, which the caller owns."""
        return Connection(self.address(broker), self.config)

    def ask(self, broker: int, api: Any, request: Any) -> Any:
        """A short request, over a connection that all threads share."""
        return self._metadata.ask(self.address(broker), api, request)

    def topic_id(self, broker: int, topic: str) -> UUID | None:
        """The id of the broker's present topic of this name. Each appliance has its own topics
        with their own ids. None: the broker is too old for ids."""
        return self._metadata.topic_id(self.address(broker), topic)

    def refresh(self, topic: str | None = None) -> None:
        """Requests the metadata again, after a response has shown that it is old. ZooKeeper does
        not need this."""
        if self._registry is None or (topic and self._registry.partitions(topic) is None):
            self._metadata.refresh([topic] if topic else None)
