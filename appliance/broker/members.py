"""Who is there beside this broker, and where each partition is: what Metadata and its like tell.

`Members` is a broker of its own: it is the only one, and leads all. `ClusterMembers` is one of a
cluster, as ZooKeeper has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from appliance._log import Log
from appliance.config import Address, BrokerConfig
from appliance.errors import Refused
from appliance.protocol import ErrorCode
from appliance.topics.topic import DEFAULT, Topic

if TYPE_CHECKING:  # its library takes a start 50 ms, and few want it
    from appliance.cluster.cluster import Cluster

NOBODY = -1  # leads it


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Placement(NamedTuple):
    """A partition: who leads it, and who has it."""

    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int] = ()
    eligible: Sequence[int] = ()
    offline: Sequence[int] = ()


class Members(Protocol):
    @property
    def controller_id(self) -> int: ...

    def nodes(self, listener: int) -> list[Node]:
        """As who came by that listener is to find them."""
        ...

    def placement(self, topic: Topic, index: int) -> Placement: ...

    async def handed_over(self, topics: Collection[str] | None) -> None:
        """Before clients are told leaders: waits for those that a controlled stop brings about."""
        ...

    def leader_of(self, name: str, partition: int) -> int | None:
        """-1: nobody leads it now. None: there is no such partition, for certain."""
        ...

    def check_factor(self, name: str, factor: int) -> None: ...

    def check_replicas(self, name: str, index: int, replicas: Sequence[int]) -> None: ...

    def factor_of(self, name: str) -> int: ...


class Told(Protocol):
    """Of the broker."""

    node_id: int
    told: list[Address]
    config: BrokerConfig


class OneBroker:
    def __init__(self, us: Told) -> None:
        self._us = us

    @property
    def controller_id(self) -> int:
        return self._us.node_id

    def nodes(self, listener: int) -> list[Node]:
        told = self._us.told[listener]
        return [Node(self._us.node_id, told.host, told.port, None)]

    def placement(self, topic: Topic, index: int) -> Placement:
        if topic.is_replicated:  # the cluster was not heard yet
            return Placement(NOBODY, NOBODY, [])
        return ours(self._us.node_id, topic.logs[index])

    async def handed_over(self, topics: Collection[str] | None) -> None:
        return

    def leader_of(self, name: str, partition: int) -> int | None:
        return self._us.node_id

    def check_factor(self, name: str, factor: int) -> None:
        if factor not in (1, DEFAULT):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{name}: got replication factor {factor}, wanted 1, or -1 for the broker's "
                "default: there is one broker",
            )

    def check_replicas(self, name: str, index: int, replicas: Sequence[int]) -> None:
        node = self._us.node_id
        if [*replicas] != [node]:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{name}-{index}: got brokers {[*replicas[:10]]}, wanted [{node}], the only one",
            )

    def factor_of(self, name: str) -> int:
        return 1


class ClusterMembers:
    def __init__(self, us: Told, cluster: Cluster) -> None:
        self._us = us
        self._cluster = cluster

    @property
    def controller_id(self) -> int:
        return self._cluster.controller_id

    def nodes(self, listener: int) -> list[Node]:
        name = self._us.config.listeners.all[listener].name
        found = []
        for each in self._cluster.brokers.values():
            told = next((one for one in each.listeners if one.name == name), None)
            if each.node_id == self._us.node_id or told is None:
                continue
            found.append(Node(each.node_id, told.address.host, told.address.port,
                              each.rack or None))  # fmt: skip
        own = self._us.told[listener]
        rack = self._us.config.rack or None
        return sorted([*found, Node(self._us.node_id, own.host, own.port, rack)])

    def placement(self, topic: Topic, index: int) -> Placement:
        if not topic.is_replicated:
            return ours(self._us.node_id, topic.logs[index])
        known, state = self._cluster.topics.get(topic.name), self._cluster.states.get(
            (topic.name, index))  # fmt: skip
        replicas = known.partitions[index] if known and index < len(known.partitions) else ()
        living = {*self._cluster.brokers, self._us.node_id}
        offline = [each for each in replicas if each not in living]
        if state is None:
            return Placement(NOBODY, NOBODY, replicas, (), (), offline)
        leader = state.leader if state.leader in living else NOBODY
        return Placement(leader, state.leader_epoch, replicas, state.isr, state.eligible, offline)

    async def handed_over(self, topics: Collection[str] | None) -> None:
        await self._cluster.handed_over(topics)

    def leader_of(self, name: str, partition: int) -> int | None:
        cluster = self._cluster
        known, state = cluster.topics.get(name), cluster.states.get((name, partition))
        if known is None or partition >= len(known.partitions):
            # a ZooKeeper without topics is another one, or was emptied
            return None if cluster.has_read_all and cluster.topics else NOBODY
        is_there = state is not None and state.leader in {*cluster.brokers, self._us.node_id}
        return state.leader if state is not None and is_there else NOBODY

    def check_factor(self, name: str, factor: int) -> None:
        living = len(self._cluster.brokers)
        if factor != DEFAULT and not 1 <= factor <= living:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{name}: got replication factor {factor}, wanted 1 to {living}, or -1 for the "
                f"default: {living} brokers live",
            )

    def check_replicas(self, name: str, index: int, replicas: Sequence[int]) -> None:
        known = self._cluster.brokers
        if not replicas or len({*replicas}) < len(replicas) or {*replicas} - {*known}:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{name}-{index}: got brokers {[*replicas[:10]]}, wanted different ones out of "
                f"{sorted(known)[:10]}",
            )

    def factor_of(self, name: str) -> int:
        known = self._cluster.topics.get(name)
        return len(known.partitions[0]) if known else 1


def ours(node: int, log: Log | None) -> Placement:
    """Of a partition that is on this broker alone; None: it is not served."""
    if log is None:
        return Placement(NOBODY, NOBODY, [node], offline=[node])
    return Placement(node, log.leader_epoch, [node], [node])
