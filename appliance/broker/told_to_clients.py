"""What clients of a broker of a cluster are told of the others, as its data plane knows it: who
leads the partitions that are not here, and who is near to whom (KIP-392)."""

from __future__ import annotations

from collections.abc import Collection

from appliance.broker.broker import Broker
from appliance.cluster.cluster import Cluster
from appliance.data_dir.partition_names import Key
from appliance.topics.topic import Topic


class ToldToClients:
    def __init__(self, broker: Broker, cluster: Cluster) -> None:
        self._broker, self._cluster = broker, cluster

    def on_change(self, keys: Collection[Key]) -> None:
        for name in {name for name, number in keys if not self._is_here(name, number)}:
            self.show(name)

    def _is_here(self, name: str, partition: int) -> bool:
        topic = self._broker.topics.get(name)
        return topic is not None and partition in (topic.here or ())

    def show(self, name: str) -> None:
        topic = self._broker.topics.get(name)
        if topic is None or topic.here is None or len(topic.here) == len(topic.logs):
            return
        topic.leaders = [self._leader(topic, each) for each in range(len(topic.logs))]
        self._broker.topics.show(topic)

    def _leader(self, topic: Topic, partition: int) -> tuple[int, int] | None:
        if topic.here is None or partition in topic.here:
            return None
        found = self._broker.members.placement(topic, partition)
        return found.leader, found.leader_epoch

    def on_brokers(self) -> None:
        """To whom leaders send consumers that ask for somebody near."""
        config, plane = self._broker.config, self._broker.data_plane
        if plane is None or not config.replication.selector:
            return
        others = [it for it in self._cluster.brokers.values() if it.node_id != config.node_id]
        plane.put_racks(config.rack, {each.node_id: each.rack for each in others if each.rack})
