"""Topics of one box become a cluster's: as they are, with this broker as their only replica.

Before the broker registers, so nothing of them is led yet. Each topic comes with the states of its
partitions in one change; their epochs are those of the logs, and the election raises them. All
can be done again after a kill: what is there under the same id is passed over.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from appliance.catalog import kafka_uuid
from appliance.cluster import forms, paths, producer_id_blocks
from appliance.cluster.forms import NOBODY, ClusterTopic, PartitionState
from appliance.cluster.reading import Reading, in_parts
from appliance.cluster.session import ChangeRefused, Session
from appliance.cluster.topic_writes import checked, checked_config
from appliance.config import NO_ENSEMBLE, ZooKeeperConfig
from appliance.errors import ApplianceError, Refused
from appliance.protocol.errors import ErrorCode
from appliance.zookeeper.nodes import Json

PARTITIONS_MAX = 2000  # of a topic: ZooKeeper takes a megabyte at a time
SHOWN_MAX = 5
Result = TypeVar("Result")


@dataclass(frozen=True)
class OwnTopic:
    name: str
    topic_id: bytes
    epochs: Sequence[int]  # of the last record, by partition
    configs: Mapping[str, str]
    wanted_factor: int = 0  # replicas, when so many brokers live; 0: it stays as it is


class NamesTaken(ApplianceError):
    """The cluster has other topics of these names. Nothing was changed."""


class Away(ApplianceError):
    """ZooKeeper does not answer. What was done of it can be done again."""


async def topics_in(config: ZooKeeperConfig, names: Sequence[str]) -> dict[str, ClusterTopic]:
    """Those of them that the cluster has."""

    async def read(session: Session) -> dict[str, ClusterTopic]:
        reading = Reading(session)
        await session.sync()
        found = await in_parts(reading.topic_node(each) for each in names)
        return {each.name: each for each in found if each is not None}

    return await _in_session(config, read)


@dataclass(frozen=True)
class OneBox:
    node_id: int
    cluster_id: str  # as long as it was alone
    topics: Sequence[OwnTopic]
    next_producer_id: int


async def take_in(config: ZooKeeperConfig, box: OneBox) -> bool:
    """In a session of its own. Whether nobody has led any of it as the cluster's yet: else this
    directory is a copy from before."""
    return await _in_session(config, lambda session: _take_in(session, box))


async def _in_session(
    config: ZooKeeperConfig, work: Callable[[Session], Awaitable[Result]]
) -> Result:
    if config.ensemble == NO_ENSEMBLE:
        raise Away("no ZooKeeper is named")
    session = Session(config, lambda: None)
    session.start()
    try:
        await asyncio.wait_for(session.connected(), config.connection_timeout_ms / 1000)
        return await work(session)
    except (asyncio.TimeoutError, KazooException) as error:
        raise Away(f"ZooKeeper does not answer, or refuses: {error!r}") from error
    finally:
        await session.close()


async def _take_in(session: Session, box: OneBox) -> bool:
    reading, node_id, topics = Reading(session), box.node_id, box.topics
    await reading.make_folders()
    await session.sync()
    await _forget_registration(session, box)
    found = await in_parts(reading.topic_node(each.name) for each in topics)
    known = dict(zip((each.name for each in topics), found, strict=True))
    _check(node_id, topics, known, reading.troubles)
    await producer_id_blocks.skip_to(session, node_id, box.next_producer_id)
    for each in topics:
        if known[each.name] is None:
            await _put(session, node_id, each)
    keys = [(each.name, number) for each in found if each for number in range(len(each.partitions))]
    states = await in_parts(reading.state(each) for each in keys)
    return all(each is not None and each.version == 0 for each in states)


async def _forget_registration(session: Session, box: OneBox) -> None:
    """What this broker left as one that was only to be found here, in either form (nodes.py)."""
    ours = Json(box.node_id, box.cluster_id)
    for name in await session.children(paths.TOPICS):
        where = paths.topic(name)
        with suppress(NoNodeError):
            data, _ = await session.get(where)
            children = {*await session.children(where)}
            if ours.is_ours(data) or (not data and children <= {str(box.node_id)}):
                question = session.client.delete_async
                for below in await _below(session, where):
                    await session.ask(question, session.root + below)


async def _below(session: Session, where: str) -> list[str]:
    """And itself, the deepest first."""
    found = []
    for each in await session.children(where):
        found += await _below(session, f"{where}/{each}")
    return [*found, where]


def _check(
    node_id: int,
    topics: Sequence[OwnTopic],
    known: Mapping[str, ClusterTopic | None],
    troubles: Mapping[str, str],
) -> None:
    """All, before anything is changed."""
    wrong = []
    for each in topics:
        there = known[each.name]
        if there is None and (why := troubles.get(paths.topic(each.name))):
            wrong.append(f"{each.name}: {why}. If brokers are only to be found there, by others, "
                         "set zookeeper.format=original or json, as they have it")  # fmt: skip
        elif there is not None and there.topic_id != each.topic_id:
            ours, theirs = (kafka_uuid.text_of(uuid.UUID(bytes=one))
                            for one in (each.topic_id, there.topic_id))  # fmt: skip
            wrong.append(f"{each.name} is {ours} here and {theirs} in the cluster")
        elif there is not None and {*there.partitions} != {(node_id,)}:
            brokers = sorted({node for replicas in there.partitions for node in replicas})
            wrong.append(f"{each.name} is on brokers {brokers} by the cluster")
        elif len(each.epochs) > PARTITIONS_MAX:
            wrong.append(f"{each.name} has {len(each.epochs)} partitions, wanted at most "
                         f"{PARTITIONS_MAX}")  # fmt: skip
    if wrong:
        raise NamesTaken(
            f"{len(wrong)} topics of this broker cannot become the cluster's, and nothing was "
            f"changed: {'; '.join(wrong[:SHOWN_MAX])}"
        )


async def _put(session: Session, node_id: int, own: OwnTopic) -> None:
    replicas = tuple((node_id,) for _ in own.epochs)
    topic = ClusterTopic(own.name, own.topic_id, replicas, wanted_factor=own.wanted_factor)
    change = session.change().create(paths.topic(own.name), checked(topic))
    change.create(paths.topic_id(own.topic_id), own.name.encode())
    change.create(paths.partitions(own.name), b"")
    for number, epoch in enumerate(own.epochs):
        state = PartitionState(NOBODY, 0, epoch, (node_id,))
        change.create(paths.partition(own.name, number), b"")
        change.create(paths.state(own.name, number), forms.state_node(state))
    if await session.exists(paths.config(own.name)):
        change.delete(paths.config(own.name))  # of a former topic of the name
    change.create(paths.config(own.name), checked_config(own.name, own.configs))
    try:
        await change.commit()
    except ChangeRefused as refused:
        if isinstance(refused.error, NodeExistsError):
            text = f"topic {own.name} came into the cluster just now: start again"
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, text) from refused
        raise
