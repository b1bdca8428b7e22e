"""Where groups are in the share partitions: made, set anew, deleted; asked for by share groups.

What is asked to change is on disk when it returns. Nobody fetches of a share partition, or
acknowledges, while that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups.handover import Place, Places
from appliance.process.detached_tasks import LoggedTasks
from appliance.protocol import ErrorCode
from appliance.share.led_states import Persister
from appliance.share.partition import SharePartition
from appliance.share.served_partition import UNDECIDED
from appliance.share.served_partitions import Entries
from appliance.share.state_coordinator import StateCoordinator
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.state_store import StateStore
from appliance.topics.internal_topic_loading import Loading


class States(Protocol):
    """`PartitionStates`, or in a cluster `StatesInCluster`."""

    def start_offset(self, group: str, topic_id: UUID, partition: int) -> int | None:
        """None: nothing is known of it, or not here. -1: its first fetch decides."""
        ...

    async def starts(self, group: str, places: Places) -> dict[Place, int]:
        """The same of several; without what is not known, or not told now."""
        ...

    async def progress(self, group: str, topic_id: UUID, partition: int) -> Progress | None:
        """None: nothing is known of it."""
        ...

    async def initialize(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int,
        start_offset: int = UNDECIDED,
    ) -> None: ...  # fmt: skip

    async def set_start_offset(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int, offset: int
    ) -> None: ...

    async def delete(self, group: str, topic_id: UUID, partition: int) -> None: ...

    async def forget_topics(self, topic_ids: Collection[UUID]) -> None: ...

    async def forget(self, is_lost: Callable[[SharePartitionKey], bool]) -> None: ...

    async def prune(self) -> None: ...


class Progress(NamedTuple):
    start_offset: int
    delivery_complete_count: int  # of records past the start that are done


@dataclass(eq=False)
class StatesInCluster:
    """Each at its share coordinator."""

    _own: StateCoordinator  # of those that stand here
    _persister: Persister

    def start_offset(self, group: str, topic_id: UUID, partition: int) -> int | None:
        return None

    async def starts(self, group: str, places: Places) -> dict[Place, int]:
        told = await self._persister.summaries([SharePartitionKey(group, *each) for each in places])
        return {(key.topic_id, key.partition): each.start_offset for key, each in told.items()}

    async def progress(self, group: str, topic_id: UUID, partition: int) -> Progress | None:
        try:
            found = await self._persister.summary(SharePartitionKey(group, topic_id, partition))
        except ApplianceError as error:
            if error.kafka_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise
        return Progress(found.start_offset, found.delivery_complete_count)

    async def initialize(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int,
        start_offset: int = UNDECIDED,
    ) -> None:  # fmt: skip
        key = SharePartitionKey(group, topic_id, partition)
        await self._persister.initialize(key, state_epoch, start_offset)

    async def set_start_offset(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int, offset: int
    ) -> None:
        await self.initialize(group, topic_id, partition, state_epoch, offset)

    async def delete(self, group: str, topic_id: UUID, partition: int) -> None:
        await self._persister.delete(SharePartitionKey(group, topic_id, partition))

    async def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        await self._own.forget_topics(topic_ids)

    async def forget(self, is_lost: Callable[[SharePartitionKey], bool]) -> None:
        raise AssertionError("at a start nothing is read in a cluster")

    async def prune(self) -> None:
        await self._own.prune()


@dataclass(eq=False)
class PartitionStates:
    _loading: Loading
    _store: StateStore
    _entries: Entries
    _tasks: LoggedTasks

    def start_offset(self, group: str, topic_id: UUID, partition: int) -> int | None:
        """None: nothing is known of it. -1: its first fetch decides."""
        own = self._known(SharePartitionKey(group, topic_id, partition))
        return None if own is None else own.partition.start_offset

    async def starts(self, group: str, places: Places) -> dict[Place, int]:
        found = {each: self.start_offset(group, *each) for each in places}
        return {place: start for place, start in found.items() if start is not None}

    def delivery_complete_count(self, group: str, topic_id: UUID, partition: int) -> int:
        """Of records past the start that are done; -1: nothing is known of it."""
        own = self._known(SharePartitionKey(group, topic_id, partition))
        return -1 if own is None else own.partition.delivery_complete_count

    async def progress(self, group: str, topic_id: UUID, partition: int) -> Progress | None:
        own = self._known(SharePartitionKey(group, topic_id, partition))
        if own is None:
            return None
        return Progress(own.partition.start_offset, own.partition.delivery_complete_count)

    def _known(self, key: SharePartitionKey) -> Stored | None:
        self._loading.check_loaded()
        return self._store.find(key)

    async def initialize(
        self,
        group: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        start_offset: int = UNDECIDED,
    ) -> None:
        """One that is there stays as it is."""
        key = SharePartitionKey(group, topic_id, partition)
        if self._known(key) is None:
            await self._put(key, state_epoch, start_offset)

    async def set_start_offset(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int, offset: int
    ) -> None:
        """Forgets what was in flight."""
        self._loading.check_loaded()
        await self._put(SharePartitionKey(group, topic_id, partition), state_epoch, offset)

    async def _put(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        epoch = self._entries.log(key).leader_epoch
        async with self._entries.out_of_service(key):
            before = self._known(key)
            new = Stored(
                SharePartition(start_offset),
                state_epoch=state_epoch,
                leader_epoch=epoch,
                snapshot_epoch=before.snapshot_epoch if before else 0,
                snapshot_offset=before.snapshot_offset if before else -1,
            )
            await self._store.begin(key, new)

    async def delete(self, group: str, topic_id: UUID, partition: int) -> None:
        key = SharePartitionKey(group, topic_id, partition)
        if self._known(key) is not None:
            async with self._entries.out_of_service(key):
                await self._store.forget(key)

    async def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        """They are deleted. What cannot be written now is forgotten with the next start."""
        await self._loading.loaded()
        if self._loading.is_loaded:
            await self.forget(lambda each: each.topic_id in topic_ids)

    async def forget(self, is_lost: Callable[[SharePartitionKey], bool]) -> None:
        for each in [key for key, _ in self._store.all() if is_lost(key)]:
            await self._tasks.logged(self.delete(*each))

    async def prune(self) -> None:
        """Writes anew what seldom changes, and deletes the records that nothing depends on."""
        if self._store.is_mostly_old():
            for key, own in self._store.all():
                if self._store.is_cold(own):
                    async with self._entries.turn(key):
                        await self._store_anew(key, own)
        await self._store.prune()

    async def _store_anew(self, key: SharePartitionKey, own: Stored) -> None:
        if self._known(key) is not own:
            return
        entry = self._entries.find(key)
        if entry is None:
            await self._store.snapshot(key, own)
        else:
            await self._entries.store_some(entry, is_whole=True)
