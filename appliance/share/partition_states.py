"""Where groups are in the share partitions: made, set anew, deleted; asked for by share groups.

What is asked to change is on disk when it returns. Nobody fetches of a share partition, or
acknowledges, while that goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from appliance.process.unattended import LoggedTasks
from appliance.share.entries import Entries
from appliance.share.entry import UNDECIDED
from appliance.share.partition import SharePartition
from appliance.share.state_log import Place, Stored
from appliance.share.state_store import StateStore
from appliance.topics.loading import Loading


class PartitionStates:
    def __init__(
        self, loading: Loading, store: StateStore, entries: Entries, tasks: LoggedTasks
    ) -> None:
        self._loading = loading
        self._store = store
        self._entries = entries
        self._tasks = tasks

    def start_offset(self, group: str, topic_id: UUID, partition: int) -> int | None:
        """None: nothing is known of it. -1: its first fetch decides."""
        own = self._known(Place(group, topic_id, partition))
        return None if own is None else own.partition.start_offset

    def delivery_complete_count(self, group: str, topic_id: UUID, partition: int) -> int:
        """Of records past the start that are done; -1: nothing is known of it."""
        own = self._known(Place(group, topic_id, partition))
        return -1 if own is None else own.partition.delivery_complete_count

    def _known(self, place: Place) -> Stored | None:
        self._loading.check_loaded()
        return self._store.find(place)

    async def initialize(
        self,
        group: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        start_offset: int = UNDECIDED,
    ) -> None:
        """One that is there stays as it is."""
        place = Place(group, topic_id, partition)
        if self._known(place) is None:
            await self._put(place, state_epoch, start_offset)

    async def set_start_offset(
        self, group: str, topic_id: UUID, partition: int, state_epoch: int, offset: int
    ) -> None:
        """Forgets what was in flight."""
        self._loading.check_loaded()
        await self._put(Place(group, topic_id, partition), state_epoch, offset)

    async def _put(self, place: Place, state_epoch: int, start_offset: int) -> None:
        epoch = self._entries.log(place).leader_epoch
        async with self._entries.out_of_service(place):
            before = self._known(place)
            new = Stored(
                SharePartition(start_offset),
                state_epoch=state_epoch,
                leader_epoch=epoch,
                snapshot_epoch=before.snapshot_epoch if before else 0,
                snapshot_offset=before.snapshot_offset if before else -1,
            )
            await self._store.begin(place, new)

    async def delete(self, group: str, topic_id: UUID, partition: int) -> None:
        place = Place(group, topic_id, partition)
        if self._known(place) is not None:
            async with self._entries.out_of_service(place):
                await self._store.forget(place)

    async def forget_topic(self, topic_id: UUID) -> None:
        """It is deleted. What cannot be written now is forgotten with the next start."""
        await self._loading.loaded()
        if self._loading.is_loaded:
            await self.forget(lambda each: each.topic_id == topic_id)

    async def forget(self, is_lost: Callable[[Place], bool]) -> None:
        for each in [place for place, _ in self._store.all() if is_lost(place)]:
            await self._tasks.logged(self.delete(*each))

    async def prune(self) -> None:
        """Writes anew what seldom changes, and deletes the records that nothing depends on."""
        if self._store.is_mostly_old():
            for place, own in self._store.all():
                if self._store.is_cold(own):
                    async with self._entries.turn(place):
                        await self._store_anew(place, own)
        await self._store.prune()

    async def _store_anew(self, place: Place, own: Stored) -> None:
        if self._known(place) is not own:
            return
        entry = self._entries.find(place)
        if entry is None:
            await self._store.snapshot(place, own)
        else:
            await self._entries.store_some(entry, is_whole=True)
