"""The term of a controller: from its election to the next one's. Each of its writes checks the
version of `/controller_epoch` in the same change, so that a controller that does not know yet that
another was elected can write nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from appliance.cluster import forms, paths
from appliance.cluster.forms import Key, PartitionState
from appliance.cluster.notices import Notice, in_pieces, notice_node
from appliance.cluster.reading import together
from appliance.cluster.session import Change, ChangeRefused, Session
from appliance.cluster.table import TopicNews
from appliance.cluster.view import epoch_in
from appliance.errors import ApplianceError

IN_A_CHANGE = 100  # states: a request of some 25 kB
MET_OTHERS = (BadVersionError, NoNodeError, NodeExistsError)


class Deposed(ApplianceError):
    """Another controller was elected."""


async def elect_ourselves(
    session: Session, node_id: int, own_sessions: Collection[int]
) -> Term | None:
    """None: somebody else was faster. The node of an own former session is replaced."""
    with suppress(NodeExistsError):
        await session.create(paths.CONTROLLER_EPOCH, b"0")
    data, stat = await session.get(paths.CONTROLLER_EPOCH)
    owner = await session.exists(paths.CONTROLLER)
    change = session.change()
    if owner and owner.ephemeralOwner == session.number:
        return Term(session, node_id, epoch_in(data), stat.version)
    if owner and owner.ephemeralOwner not in own_sessions:
        return None
    if owner:
        change.delete(paths.CONTROLLER, owner.version)
    epoch = epoch_in(data) + 1
    change.set(paths.CONTROLLER_EPOCH, b"%d" % epoch, stat.version)
    now_ms = str(time.time_ns() // 1_000_000)
    fields = {"version": 1, "brokerid": node_id, "timestamp": now_ms}
    change.create(paths.CONTROLLER, forms.as_json(fields), ephemeral=True)
    try:
        await change.commit()
    except ChangeRefused as refused:
        if not isinstance(refused.error, MET_OTHERS):
            raise
        return None
    return Term(session, node_id, epoch, stat.version + 1)


@dataclass(frozen=True)
class Term:
    session: Session
    node_id: int
    epoch: int
    epoch_version: int

    def change(self) -> Change:
        return self.session.change().check(paths.CONTROLLER_EPOCH, self.epoch_version)

    async def commit(self, change: Change) -> bool:
        """False: something of it is not any more as it was read. Nothing was done."""
        return await self._made(change) is not None

    async def _made(self, change: Change) -> list[Any] | None:
        """The answers; None: as `commit` has it."""
        try:
            return await change.commit()
        except ChangeRefused as refused:
            if refused.number == 0:
                raise Deposed(f"epoch {self.epoch} is over") from refused
            if not isinstance(refused.error, MET_OTHERS):
                raise
            return None

    async def commit_and_tell(
        self, change: Change, news: Sequence[TopicNews], own: set[int]
    ) -> bool:
        """With the notice of it; as `commit` and `tell`."""
        data = notice_node(Notice(self.node_id, tuple(news)))
        change.create(f"{paths.CHANGES}/c", data, sequence=True)
        results = await self._made(change)
        if results is None:
            return False
        own.add(int(str(results[-1])[-10:]))
        return True

    async def write(
        self, states: Mapping[Key, PartitionState], id_of: Callable[[str], bytes]
    ) -> tuple[dict[Key, PartitionState], list[Key]]:
        """Each as its version says. What was written, as it is now, and what was not: those have
        to be read again."""
        parts = in_parts_of(states, IN_A_CHANGE)
        results = await together([self._write(part, id_of) for part in parts])
        written = {key: state for each in results for key, state in each.items()}
        return written, [key for key in states if key not in written]

    async def _write(
        self, states: Mapping[Key, PartitionState], id_of: Callable[[str], bytes]
    ) -> dict[Key, PartitionState]:
        return await self.write_with(self._change_of(states, id_of), states)

    def _change_of(self, states: Iterable[Key], id_of: Callable[[str], bytes]) -> Change:
        """Refused when one of the topics is gone: versions of a topic's successor are the same."""
        change = self.change()
        for name in sorted({name for name, _ in states}):
            change.check(paths.topic_id(id_of(name)))
        return change

    async def write_with(
        self, change: Change, states: Mapping[Key, PartitionState]
    ) -> dict[Key, PartitionState]:
        """In one change with what is in it already. Nothing: it was refused."""
        after = {key: replace(each, controller_epoch=self.epoch) for key, each in states.items()}
        for key, state in after.items():
            change.set(paths.state(*key), forms.state_node(state), state.version)
        if not await self.commit(change):
            return {}
        return {key: replace(each, version=each.version + 1) for key, each in after.items()}

    async def create(
        self, states: Mapping[Key, PartitionState], id_of: Callable[[str], bytes]
    ) -> dict[Key, PartitionState]:
        """Of new partitions; those that were made."""
        for name in sorted({name for name, _ in states}):
            if not await self.session.exists(paths.partitions(name)):
                await self.commit(self.change().create(paths.partitions(name), b""))
        parts = in_parts_of(states, IN_A_CHANGE // 2)
        results = await together([self._create(part, id_of) for part in parts])
        return {key: state for each in results for key, state in each.items()}

    async def _create(
        self, states: Mapping[Key, PartitionState], id_of: Callable[[str], bytes]
    ) -> dict[Key, PartitionState]:
        after = {key: replace(each, controller_epoch=self.epoch) for key, each in states.items()}
        change = self._change_of(states, id_of)
        for key, state in after.items():
            change.create(paths.partition(*key), b"")
            change.create(paths.state(*key), forms.state_node(state))
        if await self.commit(change):
            return after
        return {
            key: state
            for key, state in after.items()
            if await self._create_one(key, state, self._change_of([key], id_of))
        }

    async def _create_one(self, key: Key, state: PartitionState, change: Change) -> bool:
        """Others may have made the folder of a partition, or all of it."""
        if not await self.session.exists(paths.partition(*key)):
            await self.commit(self.change().create(paths.partition(*key), b""))
        return await self.commit(change.create(paths.state(*key), forms.state_node(state)))

    async def tell(
        self,
        news: Iterable[TopicNews],
        leaving: Mapping[int, int] | None,
        is_everything: bool,
        own: set[int],
    ) -> None:
        """`own` gets the numbers of the notices. `leaving` may be left unsaid."""
        pieces = [*in_pieces(news)] or [()]
        for piece in pieces:
            data = notice_node(Notice(self.node_id, piece, is_everything, leaving))
            change = self.change().create(f"{paths.CHANGES}/c", data, sequence=True)
            try:
                results = await change.commit()
            except ChangeRefused as refused:
                if refused.number == 0:
                    raise Deposed(f"epoch {self.epoch} is over") from refused
                raise
            own.add(int(str(results[1])[-10:]))

    async def remove_notices(self, numbers: Sequence[int]) -> None:
        for first in range(0, len(numbers), IN_A_CHANGE):
            change = self.change()
            for number in numbers[first:][:IN_A_CHANGE]:
                change.delete(f"{paths.CHANGES}/c{number:010}")
            await self.commit(change)  # who removed one by hand has it removed again later


def in_parts_of(
    states: Mapping[Key, PartitionState], count: int
) -> list[dict[Key, PartitionState]]:
    pairs = [*states.items()]
    return [dict(pairs[first:][:count]) for first in range(0, len(pairs), count)]
