"""In a cluster: share partitions that this broker leads, whose state is at the share coordinator.

It is read when a group first fetches of a partition in an election, and what changes is written
there before it counts. Who is fenced there forgets it: it is read again, or another broker leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.share.partition import SharePartition
from appliance.share.runs import StateBatch
from appliance.share.state_coordinator import State, Summary
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.states import ShareRefused

FENCED = frozenset({
    int(ErrorCode.FENCED_LEADER_EPOCH), int(ErrorCode.FENCED_STATE_EPOCH),
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
})  # fmt: skip


class Persister(Protocol):
    """The share coordinator of each share partition, this broker or another."""

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int
    ) -> None: ...

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> State: ...

    async def write(self, key: SharePartitionKey, leader_epoch: int, change: State) -> None: ...

    async def summary(self, key: SharePartitionKey) -> Summary: ...

    async def summaries(
        self, keys: Collection[SharePartitionKey]
    ) -> dict[SharePartitionKey, Summary]:
        """Of one group; without what is not told now."""
        ...

    async def delete(self, key: SharePartitionKey) -> None: ...


@dataclass(eq=False)
class LedStates:
    _persister: Persister
    _log: Callable[[SharePartitionKey], Log]  # that this broker leads, or it raises
    _known: dict[SharePartitionKey, Stored] = field(default_factory=dict)
    _turns: WeakValueDictionary[SharePartitionKey, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )

    def find(self, key: SharePartitionKey) -> Stored | None:
        """As it was read in the election of now."""
        own = self._known.get(key)
        if own is None or own.leader_epoch != self._log(key).election:
            return None
        return own

    async def read(
        self, keys: Iterable[SharePartitionKey]
    ) -> dict[SharePartitionKey, ApplianceError]:
        """What is not known yet; what cannot be."""
        wanted = [each for each in keys if self._is_unread(each)]
        if not wanted:
            return {}
        found = await asyncio.gather(*map(self._read, wanted))
        return {key: error for key, error in zip(wanted, found, strict=True) if error}

    def _is_unread(self, key: SharePartitionKey) -> bool:
        try:
            return self.find(key) is None
        except ApplianceError:
            return False  # who looks for it is told

    async def _read(self, key: SharePartitionKey) -> ApplianceError | None:
        try:
            async with self._turns.setdefault(key, asyncio.Lock()):
                if self.find(key) is None:
                    election = self._log(key).election
                    state = await self._persister.read(key, election)
                    self._known[key] = _stored(state, election)
        except ApplianceError as error:
            if error.kafka_code == ErrorCode.FENCED_LEADER_EPOCH:
                return ShareRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error))
            return error
        return None

    async def store(self, key: SharePartitionKey, own: Stored) -> None:
        """What changed is at the coordinator, on disk, when this returns."""
        if own.must_snapshot:
            await self._begin_anew(key, own)
        await self._write(key, own, _change(own, own.partition.take_unstored()))

    async def snapshot(self, key: SharePartitionKey, own: Stored) -> None:
        """All that is known."""
        await self._begin_anew(key, own)
        if own.partition.runs:
            await self._write(key, own, _change(own, own.partition.take_whole()))

    async def _begin_anew(self, key: SharePartitionKey, own: Stored) -> None:
        """What the coordinator knows counts no longer. That is said apart: states that follow could
        be those of a leader that does not know what became of its last write."""
        own.must_snapshot = False
        await self._write(key, own, _change(own, [], is_anew=True))

    async def _write(self, key: SharePartitionKey, own: Stored, change: State) -> None:
        try:
            await self._persister.write(key, own.leader_epoch, change)
        except ApplianceError as error:
            own.partition.put_back(change.batches)
            own.must_snapshot |= change.is_anew
            if error.kafka_code in FENCED and self._known.get(key) is own:
                del self._known[key]
            raise

    def forget(self, keys: Iterable[SharePartitionKey]) -> None:
        """It is read again when it is wanted again."""
        for key in keys:
            self._known.pop(key, None)

    async def close(self) -> None:
        self._known.clear()


def _change(own: Stored, batches: list[StateBatch], is_anew: bool = False) -> State:
    return State(own.state_epoch, own.partition.start_offset, batches, is_anew)


def _stored(state: State, election: int) -> Stored:
    partition = SharePartition(state.start_offset)
    partition.restore(state.start_offset, state.batches)
    return Stored(partition, state.state_epoch, election)
