"""What ZooKeeper, if there is one, knows of this broker while it serves: that it is one of a
cluster, or where it is found.

The library for ZooKeeper takes a start 50 ms, and few want it: it is imported where it is wanted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from appliance.broker.broker import Broker
from appliance.catalog.fact_rows import FactRows
from appliance.catalog.facts import Values
from appliance.config import NO_ENSEMBLE, SettingInvalid
from appliance.config.topic_config import Configs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, NotLeader
from appliance.groups.zookeeper_groups import ZooKeeperGroups
from appliance.topics.topic import Topic
from appliance.topics.topics import Moving, NewTopic

if TYPE_CHECKING:
    from appliance.broker.in_cluster import InCluster
    from appliance.zookeeper.consumer_nodes import ConsumerNodes
    from appliance.zookeeper.registration import Registration

Result = TypeVar("Result")


class TopicsOfCluster(ApplianceError):
    """A broker without a cluster cannot serve these."""


class NotJoined:
    """A cluster of which nothing was heard yet: its clients are told to ask again."""

    async def hear_of(self, name: str) -> None:
        raise self._refusal(name)

    async def hear_of_id(self, topic_id: uuid.UUID) -> None:
        raise self._refusal(f"the topic with id {topic_id}")

    async def create(self, wanted: NewTopic) -> Topic:
        raise self._refusal(wanted.name)

    async def create_partitions(
        self, topic: Topic, total: int, replicas: Sequence[Sequence[int]]
    ) -> None:
        raise self._refusal(topic.name)

    async def delete(self, name: str, topic_id: uuid.UUID | None) -> None:
        raise self._refusal(name)

    async def configure(self, topic: Topic, after: Callable[[Configs], Configs]) -> None:
        raise self._refusal(topic.name)

    async def reassign(
        self, name: str, wanted: Mapping[int, Sequence[int] | None]
    ) -> None:
        raise self._refusal(name)

    def moving(self) -> Mapping[str, Mapping[int, Moving]]:
        return {}

    async def elect(self, keys: Collection[Key], unclean: bool = False) -> Mapping[Key, int]:
        raise self._refusal("an election")

    async def tried(self, job: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        raise self._refusal("users, rules and settings")

    async def publish(self, kind: str, values: Values) -> None:
        raise self._refusal(kind)

    def _refusal(self, name: str) -> NotLeader:
        return NotLeader(f"{name}: this broker has not joined its cluster yet, ask again")


async def is_to_join(broker: Broker) -> bool:
    """Before clients are let in: from now on the cluster decides of topics."""
    if not broker.config.is_in_cluster:
        check_alone(broker)
        return False
    check_secrets(broker)
    from appliance.broker import one_box

    if not await one_box.is_taken_in(broker):
        return False
    broker.topics.cluster = broker.facts.cluster = NotJoined()
    return True


def check_secrets(broker: Broker) -> None:
    """Before anything is changed for a cluster in which this broker's users could not be."""
    config = broker.config.zookeeper
    if config.has_login or config.may_show_secrets or FactRows(broker.catalog).cluster():
        return
    owners = [each for each in broker.owners_of_facts() if each is not broker.login_secrets]
    if found := sum(len(each.facts()) for each in owners if each.is_secret):
        raise SettingInvalid(
            f"zookeeper.auth.file: got none, and {found} users and tokens of this broker are to be "
            "the cluster's, in ZooKeeper, where everybody who reaches it could read them. Set it, "
            "the same at all brokers, zookeeper.auth.mechanism=certificate, or "
            "zookeeper.secrets.unprotected=true"
        )


def check_alone(broker: Broker) -> None:
    """For a start without a cluster."""
    found = [each.name for each in broker.topics.values() if each.is_replicated]
    if found:
        raise TopicsOfCluster(
            f"{broker.config.data_dir} has {len(found)} topics of a cluster, {found[0]} among "
            "them: start it with zookeeper.connect and zookeeper.format=cluster, or, if it is to "
            "be a box of its own again, say so once: appliance leave-cluster"
        )


@asynccontextmanager
async def joined(broker: Broker, let_in: Callable[[], None]) -> AsyncIterator[InCluster]:
    """`let_in` is called when clients can be told what the cluster has."""
    from appliance.broker.in_cluster import InCluster

    cluster = InCluster(broker)
    try:
        await cluster.join(let_in)
        async with groups_in(cluster.consumers, broker):
            yield cluster
    finally:
        await cluster.leave()


@asynccontextmanager
async def groups_in(consumers: ConsumerNodes, broker: Broker) -> AsyncIterator[None]:
    """Those that live in ZooKeeper are shown with the broker's own."""
    groups = ZooKeeperGroups(consumers, broker.is_group_here)
    broker.knows_groups_in(groups)
    looking = asyncio.create_task(groups.run())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait({looking})


@asynccontextmanager
async def registered(broker: Broker) -> AsyncIterator[Registration | None]:
    config = broker.config
    if config.zookeeper.ensemble == NO_ENSEMBLE or config.is_in_cluster:
        yield None
        return
    from appliance.zookeeper.registration import Identity, Registration

    told = broker.configs.in_force.config.advertised_listeners
    us = Identity(config.node_id, broker.cluster_id, told, config.protocols, config.data_dir)
    registration = Registration(config.zookeeper, us)
    broker.topics.tell(registration)
    await registration.start()
    try:
        async with groups_in(registration.consumers, broker):
            yield registration
    finally:
        await registration.close()
