"""The registration of this broker. Each start and each new session is another life: the version of
`/brokers/lives/N`, and Kafka's broker epoch.

    1. the former life ends: the version is raised, so that nobody writes it into an ISR any more
    2. it resigns from the replicas that it has lost (rule 8 of `docs/replication.md`)
    3. `/brokers/ids/N` says that the new life has begun

Only after 3 it can be chosen. Who has the id in another session is a stranger, and nothing is
touched; a node of an own former session (`zookeeper.session` in the data directory, as in
`zookeeper/registration.py`) is replaced in one change.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from appliance.cluster import election, forms, paths
from appliance.cluster.forms import Key, LivingBroker
from appliance.cluster.reading import Reading
from appliance.cluster.session import ChangeRefused, Session
from appliance.cluster.table import TopicNews
from appliance.config.listeners import Listeners, Protocols
from appliance.process import event_log
from appliance.zookeeper.nodes import NodeIdTaken, address_in
from appliance.zookeeper.registration import remember, remembered

log = event_log.named("cluster")
BeforeLife = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True)
class Member:
    """The broker that is part of the cluster."""

    node_id: int
    cluster_id: str
    listeners: Listeners  # as clients and other brokers are told
    protocols: Protocols
    rack: str
    data_dir: Path


async def nothing(former: int, life: int) -> None:
    pass


class Lives:
    def __init__(
        self, session: Session, reading: Reading, member: Member, before_life: BeforeLife
    ) -> None:
        self._session, self._reading, self._member = session, reading, member
        self.before_life = before_life
        self._sessions = remembered(member.data_dir)  # of nodes that may be there, and are ours
        self.own_sessions = {*self._sessions}  # all that were ever known to be
        self.node_id = member.node_id
        self._lives = f"{paths.LIVES}/{member.node_id}"
        self._id = f"{paths.IDS}/{member.node_id}"
        self.cluster_id = member.cluster_id
        self.resigned: list[TopicNews] = []  # that nobody else knows yet

    async def begin(self, lost: Callable[[], Collection[Key]]) -> int:
        """Another life. NodeIdTaken: the id is a stranger's. `lost` is asked when the life has been
        kept in each directory, for that shows which of them are copies of before."""
        number = self._session.number
        await self._reading.make_folders()
        await self._agree_on_cluster()
        await self._owner()  # before anything is touched
        self._sessions |= {number}
        self.own_sessions.add(number)
        remember(self._member.data_dir, self._sessions)
        life = await self._raise()
        for key in lost():
            await self.resign(key)
        await self._register(life)
        self._sessions = frozenset({number})
        remember(self._member.data_dir, self._sessions)
        log.info("registered", id=self._member.node_id, life=life, session=f"{number:#x}")
        return life

    async def is_ours(self, watch: Any) -> bool:
        """Whether the node is still there in this session. `watch` is called when it changes."""
        stat = await self._session.exists(self._id, watch)
        return bool(stat) and stat.ephemeralOwner == self._session.number

    async def _agree_on_cluster(self) -> None:
        fields = {"version": "1", "id": self._member.cluster_id}
        try:
            await self._session.create(paths.CLUSTER_ID, forms.as_json(fields), makepath=True)
        except NodeExistsError:
            found = await self._reading.node(paths.CLUSTER_ID, lambda data, stat: cluster_in(data))
            self.cluster_id = found or self._member.cluster_id

    async def _owner(self) -> Any:
        """The version of an own former node, None without one."""
        try:
            data, stat = await self._session.get(self._id)
        except NoNodeError:
            return None
        if stat.ephemeralOwner not in {*self._sessions, self._session.number}:
            raise NodeIdTaken(
                f"{self._session.root}{self._id} in ZooKeeper is taken by {address_in(data)}, "
                f"session {stat.ephemeralOwner:#x}. Give one of the two another node.id; if "
                "that one has died, its node goes at the end of its session"
            )
        return stat.version

    async def _raise(self) -> int:
        while True:
            with suppress(NodeExistsError):
                await self._session.create(self._lives, b"")
            _, stat = await self._session.get(self._lives)
            await self.before_life(int(stat.version), int(stat.version) + 1)
            try:
                await self._session.change().set(self._lives, b"", stat.version).commit()
            except ChangeRefused as refused:
                if not isinstance(refused.error, BadVersionError):
                    raise
                continue  # a former try whose answer was lost
            return int(stat.version) + 1

    async def resign(self, key: Key, unless_last_of: Collection[int] | None = None) -> None:
        """From the ISR and the eligible of a partition. `unless_last_of`: not where none of these
        would be left there."""
        name, number = key
        while True:
            topic = await self._reading.topic_node(name)
            state = await self._reading.state(key)
            if topic is None or state is None or self.node_id not in (*state.isr, *state.eligible):
                return
            after = election.without(state, self.node_id)
            left = {*after.isr, *after.eligible}
            if unless_last_of is not None and left.isdisjoint(unless_last_of):
                return
            change = self._session.change().check(paths.topic_id(topic.topic_id))
            change.set(paths.state(*key), forms.state_node(after), state.version)
            try:
                await change.commit()
            except ChangeRefused as refused:
                if not isinstance(refused.error, (BadVersionError, NoNodeError)):
                    raise
                continue
            states = {number: replace(after, version=state.version + 1)}
            self.resigned.append(TopicNews(name, topic.topic_id, states=states))
            log.warning("resigned from a lost replica", topic=name, partition=number,
                        in_sync_was=list(state.isr))  # fmt: skip
            return

    async def _register(self, life: int) -> None:
        member = self._member
        broker = LivingBroker(
            member.node_id, life, member.listeners, member.protocols, member.rack
        )
        data = forms.broker_node(broker, time.time_ns() // 1_000_000)
        while True:
            version = await self._owner()
            change = self._session.change().check(self._lives, life)
            if version is not None:
                change.delete(self._id, version)
            try:
                await change.create(self._id, data, ephemeral=True).commit()
                return
            except ChangeRefused as refused:
                if not isinstance(refused.error, (NodeExistsError, NoNodeError)):
                    raise
                # it came or went just now


def cluster_in(data: bytes) -> str:
    fields = forms.as_fields(data, paths.CLUSTER_ID)
    return forms.Reader(paths.CLUSTER_ID, fields).text("id")
