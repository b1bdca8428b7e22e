"""What a leader writes: its in-sync replicas, and with them who is eligible.

The write has conditions: the version of the state that was read, the life of this broker, and the
life of each that joins, in which it has caught up. A refused write is never repeated as it is: the
answer is the state of now. After a lost connection the outcome is read, in the session or the next
one: ZooKeeper takes nothing any more that was under way in a connection before.

When a broker dies the leaders of all its partitions write at once, while clients and elections wait
for ZooKeeper: so what is asked for at the same time goes together. If that is refused each goes
alone, and only those are refused that must be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.cluster import election, forms, paths
from appliance.cluster.forms import Key, PartitionState
from appliance.cluster.membership import Membership
from appliance.cluster.session import AWAY, Change, ChangeRefused, Session
from appliance.cluster.table import TopicNews
from appliance.cluster.telling import Telling
from appliance.cluster.view import View

OWN_LIFE = 0  # its place in the change
IN_A_CHANGE = 100  # states: a request of some 25 kB
AWAY_S = 0.05


@dataclass(frozen=True)
class IsrOutcome:
    is_written: bool
    state: PartitionState | None  # of now; None: the partition is gone


@dataclass(frozen=True)
class IsrWrite:
    key: Key
    topic_id: bytes
    state: PartitionState  # as it is to be, with the version that it has
    joining: Mapping[int, int]
    life: int  # of this broker


@dataclass(frozen=True)
class Together:
    """What goes in one change."""

    writes: list[IsrWrite]
    change: asyncio.Task[None]


class IsrWrites:
    def __init__(
        self,
        session: Session,
        view: View,
        telling: Telling,
        membership: Membership,
        node_id: int,
    ) -> None:
        self._session, self._view, self._telling = session, view, telling
        self._membership, self._node_id = membership, node_id
        self._next: Together | None = None  # nothing of it is sent yet

    async def write(
        self,
        key: Key,
        version: int,
        isr: Collection[int],
        joining: Mapping[int, int],
        min_insync: int,
    ) -> IsrOutcome:
        state, life = self._view.table.states.get(key), self._membership.life
        topic_id = self._view.table.topic_id(key[0])
        if state is None or state.version != version or not self._leads(state, life):
            return IsrOutcome(False, await self._read(key, topic_id))
        in_order = [each for each in state.isr if each in isr]
        in_order += sorted({*isr} - {*in_order})
        wanted = election.with_isr(state, tuple(in_order), min_insync)
        written = replace(wanted, version=version + 1)
        try:
            await self._change(key, topic_id, wanted, joining, life)
        except ChangeRefused as refused:
            if refused.number == OWN_LIFE:
                self._membership.end_life(life)
            return IsrOutcome(False, await self._read(key, topic_id))
        except AWAY:
            found = await self._read(key, topic_id)
            if found != written:
                return IsrOutcome(False, found)
        self._telling.tell(self._know(key, topic_id, written))
        return IsrOutcome(True, written)

    async def read(self, key: Key) -> PartitionState | None:
        """What became of a write whose task has ended by a fault."""
        return await self._read(key, self._view.table.topic_id(key[0]))

    def _leads(self, state: PartitionState, life: int) -> bool:
        return (state.leader, state.leader_life) == (self._node_id, life)

    async def _change(
        self,
        key: Key,
        topic_id: bytes,
        state: PartitionState,
        joining: Mapping[int, int],
        life: int,
    ) -> None:
        asked = IsrWrite(key, topic_id, state, joining, life)
        together = self._with_others(asked)
        try:
            await asyncio.shield(together.change)
        except ChangeRefused:
            if len(together.writes) == 1:
                raise
            await self._change_of([asked]).commit()  # it may be another one that was refused

    def _with_others(self, asked: IsrWrite) -> Together:
        together = self._next
        if together is None or len(together.writes) == IN_A_CHANGE:
            writes: list[IsrWrite] = []
            together = Together(writes, asyncio.create_task(self._commit(writes)))
            self._next = together
        together.writes.append(asked)
        return together

    async def _commit(self, writes: list[IsrWrite]) -> None:
        """Begins when all that are to write at this moment have asked."""
        if self._next is not None and self._next.writes is writes:
            self._next = None
        await self._change_of(writes).commit()

    def _change_of(self, writes: Sequence[IsrWrite]) -> Change:
        """Those of a former life of ours are refused with the others, and then alone."""
        change = self._session.change()
        for life in sorted({each.life for each in writes}):
            change.check(f"{paths.LIVES}/{self._node_id}", life)
        for topic_id in sorted({each.topic_id for each in writes}):
            change.check(paths.topic_id(topic_id))
        for node, life in sorted({pair for each in writes for pair in each.joining.items()}):
            change.check(f"{paths.LIVES}/{node}", life)
        for each in writes:
            state = each.state
            change.set(paths.state(*each.key), forms.state_node(state), state.version)
        return change

    async def _read(self, key: Key, topic_id: bytes) -> PartitionState | None:
        """As long as it takes: without the answer the outcome is not known. What is there after the
        topic has gone is the state of its successor."""
        while True:
            await self._session.connected()
            try:
                await self._session.sync()
                state = await self._view.reading.state(key)
                is_there = topic_id and await self._session.exists(paths.topic_id(topic_id))
            except AWAY:
                await asyncio.sleep(AWAY_S)
                continue
            if state is None or not is_there:
                return None
            self._know(key, topic_id, state)
            return state

    def _know(self, key: Key, topic_id: bytes, state: PartitionState) -> TopicNews:
        news = TopicNews(key[0], topic_id, states={key[1]: state})
        self._view.table.apply(news)
        self._view.tell()
        return news
