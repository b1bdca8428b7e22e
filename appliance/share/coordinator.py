"""The owner of share groups: their members, and where each group is in the partitions it reads.

Members live as in other groups: `groups/group_table.py` finds groups, gives them time and writes
their records. Where a group is in a partition is kept by the share partitions (`states`), and each
group notes for which partitions it is, so that neither is ever without the other:

    a state is made       noted as initializing, made, noted as initialized
    states are deleted    noted as deleting, deleted, no longer noted

What a crash leaves in between is ended at the next start, or by the group's next member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

from appliance.config import ShareGroupsConfig
from appliance.errors import ApplianceError
from appliance.groups.consumer_member import JOINING, Beat, Beaten
from appliance.groups.group_table import GroupTable, check_alive
from appliance.groups.handover import NOWHERE, Place, Places
from appliance.groups.lag import GroupProgress
from appliance.groups.modern_group import Done, ModernGroup, Terms, TopicView
from appliance.groups.records import Partition
from appliance.groups.share_records import ShareState, StoredShareGroup
from appliance.groups.states import GroupRefused
from appliance.groups.subscribed_partitions import subscribed_partitions
from appliance.process import event_log
from appliance.process.detached_tasks import Tasks, let_go, outcome
from appliance.protocol import ErrorCode
from appliance.share.assignor import SIMPLE
from appliance.share.group import ShareGroup
from appliance.share.known_starts import KnownStarts
from appliance.share.partition_states import States
from appliance.share.partitions import SharePartitions
from appliance.topics.internal_topic import Record

logger = event_log.named("share_groups")

Item = TypeVar("Item")
Note = Callable[[ShareState], ShareState]

SHARE = "share"
NOT_BEGUN = -1  # the start is found when the first member reads


class Topics(TopicView, Protocol):
    """What there is to read, and what was set for a group."""

    def share_group_config(self, group_id: str) -> ShareGroupsConfig: ...


class ShareCoordinator:
    def __init__(self, groups: GroupTable, topics: Topics, partitions: SharePartitions) -> None:
        self._groups = groups
        self._topics = topics
        self._partitions = partitions
        self._loading = partitions.loading
        self._tasks = Tasks()
        self._starts = KnownStarts(lambda: self._states, self._tasks)

    @property
    def _states(self) -> States:
        return self._partitions.states

    async def settled(self) -> None:
        """After the last change that has begun."""
        await self._tasks.settled()

    # Asked by the share partitions

    def epoch(self, group_id: str) -> int | None:
        group = self._groups.groups.get(group_id)
        return group.epoch if isinstance(group, ShareGroup) else None

    def assigned(self, group_id: str, member_id: str) -> Places:
        group = self._groups.groups.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return NOWHERE
        return group.members[member_id].now.assigned

    # Asked for the lag

    def groups_that_read(self) -> Collection[str]:
        return [each.id for each in self._all() if each.shared.initialized or each.members]

    async def ask_where_groups_are(self, group_id: str | None) -> None:
        """Of other brokers, in a cluster. None: all groups."""
        groups = [each for each in self._all() if group_id in (None, each.id)]
        if group_id is None:
            self._starts.keep({each.id for each in groups})
        await self._starts.ask(groups)

    def progress(self, group_id: str) -> GroupProgress | None:
        """Where it is in what it has read, and what it is to read. None: no such share group."""
        group = self._groups.groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.is_dead or not self._loading.is_loaded:
            return None
        offsets: dict[Partition, int] = {}
        unknown: set[Partition] = set()
        for place in group.shared.initialized:
            name = self._topics.topic_name(place[0])
            start_offset = self._start_offset(group_id, place)
            if name is not None and start_offset is None and self._is_in_cluster:
                unknown.add(Partition(name, place[1]))
            elif name is not None and start_offset not in (None, NOT_BEGUN):
                offsets[Partition(name, place[1])] = start_offset
        config = self._topics.share_group_config(group_id)
        wanted = subscribed_partitions(group, self._topics)
        return GroupProgress(SHARE, offsets, wanted, config.auto_offset_reset == "latest", unknown)

    @property
    def _is_in_cluster(self) -> bool:
        return self._groups.availability.terms is not None

    def _start_offset(self, group_id: str, place: Place) -> int | None:
        """In a cluster as it was told last."""
        if self._is_in_cluster:
            return self._starts.of(group_id).get(place)
        return self._states.start_offset(group_id, *place)

    # Members

    def heartbeat(
        self, group_id: str, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]
    ) -> None:
        self.check(group_id)
        self._groups.weights.check_beat(group_id, asked)
        before = self._groups.groups.get(group_id)
        group = self._find_or_make(group_id, may_make=asked.epoch == JOINING)
        if before is None:
            self._groups.adopt(group)
        group.heartbeat(asked, now_ms, answer)
        self._groups.arm(group)

    def check_loaded(self) -> None:
        self._groups.availability.check_loaded()
        self._loading.check_loaded()

    def check(self, group_id: str) -> None:
        """Whether what there is of this group is known."""
        self._groups.availability.check(group_id)
        self._loading.check_loaded()

    def _find_or_make(self, group_id: str, may_make: bool) -> ShareGroup:
        group = self._groups.groups.get(group_id)
        if group is None and may_make:
            return self._make(group_id)
        if not isinstance(group, ShareGroup):
            what = "is not a share group" if group else "not found"
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        check_alive(group)
        return group

    def _make(self, group_id: str) -> ShareGroup:
        def terms() -> Terms:
            config = self._topics.share_group_config(group_id)
            return Terms(
                config.session_timeout_ms, config.heartbeat_interval_ms, config.max_size, (SIMPLE,)
            )

        def store(records: list[Record], done: Done) -> None:
            self._groups.store(group, records, done)

        group = ShareGroup(
            group_id,
            terms,
            self._topics,
            store,
            initialize=partial(self._initialize, group_id),
            on_silence=partial(self._partitions.member_gone, group_id),
        )
        return group

    def _initialize(
        self, group_id: str, places: Places, epoch: int, done: Callable[[Places], None]
    ) -> None:
        async def make(place: Place) -> None:
            await self._states.initialize(group_id, *place, epoch, NOT_BEGUN)

        async def make_all() -> None:
            made = NOWHERE
            try:
                errors = await _each(places, make)
                made = places - errors.keys()
                for place, error in errors.items():
                    logger.warning("no share partition", group=group_id, place=place, error=error)
            finally:
                done(made)  # members wait for it

        self._tasks.begin(make_all())

    # Administrators

    def find(self, group_id: str) -> ShareGroup | None:
        group = self._groups.find(group_id)
        return group if isinstance(group, ShareGroup) else None

    def get(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
            )
        return group

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[Place, int]
    ) -> dict[Place, ApplianceError]:
        """Where a group without members begins; a group that is not there is made. Tells what
        failed."""
        self.check(group_id)
        group = self._find_or_make(group_id, may_make=True)
        group.check_empty()
        if not offsets:
            return {}
        self._groups.weights.check(group_id)
        if group_id not in self._groups.groups:
            self._groups.adopt(group)
        places = frozenset(offsets)
        errors: dict[Place, ApplianceError] = {}

        async def alter(place: Place) -> None:
            await self._states.set_start_offset(group_id, *place, group.epoch, offsets[place])

        async def alter_all() -> None:
            errors.update(await _each(offsets, alter))

        await self._change(
            group,
            lambda state: state.began(places),
            alter_all,
            lambda state: state.made(places - errors.keys()),
        )
        return errors

    async def delete_offsets(
        self, group_id: str, topics: Collection[UUID]
    ) -> dict[UUID, ApplianceError]:
        """As if the group, which has no members, had never read them. Tells what failed."""
        self.check_loaded()
        return await self._delete_states(self.get(group_id), topics)

    def delete(self, group_id: str) -> asyncio.Task[None]:
        """The group and all its states. Meanwhile nobody gets in: it is Dead."""
        self.check_loaded()
        group = self.get(group_id)
        group.delete()
        return self._tasks.begin(self._delete(group))

    async def _delete(self, group: ShareGroup) -> None:
        try:
            errors = await self._delete_states(group, group.shared.topics)
            if errors:
                raise next(iter(errors.values()))
        except ApplianceError:
            group.is_dead = False
            raise
        await self._groups.bury(group)

    async def _delete_states(
        self, group: ShareGroup, topics: Collection[UUID]
    ) -> dict[UUID, ApplianceError]:
        places = group.shared.of(topics) | self._unfinished(group, topics)
        errors: dict[UUID, ApplianceError] = {}

        async def delete(place: Place) -> None:
            await self._states.delete(group.id, *place)

        async def delete_all() -> None:
            failed = await _each(places, delete)
            errors.update({topic: error for (topic, _), error in failed.items()})

        await self._change(
            group,
            lambda state: state.gave_up(topics),
            delete_all,
            lambda state: state.lost(set(topics) - errors.keys()),
        )
        return errors

    def _unfinished(self, group: ShareGroup, topics: Collection[UUID]) -> Places:
        """All partitions of what was to be deleted before: which of them is not noted."""
        names = map(self._topics.topic_name, group.shared.deleting.intersection(topics))
        facts = [self._topics.topic_facts(name) for name in names if name is not None]
        return frozenset(
            (each.id, index) for each in facts if each for index in range(each.partitions)
        )

    async def _change(
        self,
        group: ShareGroup,
        during: Note,
        work: Callable[[], Coroutine[Any, Any, None]],
        after: Note,
    ) -> None:
        """Notes what is to come, does it, and notes what came of it."""

        async def change() -> None:
            begun = _asked(partial(group.begin_change, during))  # raises if somebody was faster
            note: Note = _as_it_is
            try:
                await _stored(begun)
                await work()
                note = after
            finally:
                await _stored(_asked(partial(group.end_change, note)))

        group.check_empty()
        await outcome(self._tasks.begin(change()))

    def expire(self, group: ModernGroup) -> None:
        """An Empty group of which no member ever read, and no administrator said where it begins,
        is as if it had never been. Whoever reaches the port can make such groups."""
        if not isinstance(group, ShareGroup) or not group.is_idle or not self._loading.is_loaded:
            return
        if self._is_in_cluster:
            let_go(self._tasks.begin(self._expire_in_cluster(group)))
            return
        state = group.shared
        starts = [
            self._states.start_offset(group.id, *place)
            for place in state.initialized | state.initializing
        ]
        # what is not known, as where a partition of the states is not served, may have begun
        if not state.deleting and all(each == NOT_BEGUN for each in starts):
            let_go(self.delete(group.id))

    async def _expire_in_cluster(self, group: ShareGroup) -> None:
        """Whoever joins, or is set to begin somewhere, meanwhile keeps it."""
        state = group.shared
        places = state.initialized | state.initializing
        starts = await self._states.starts(group.id, places)
        is_as_before = group.shared is state and group.is_idle and not group.is_dead
        has_begun = len(starts) < len(places) or any(each != NOT_BEGUN for each in starts.values())
        if is_as_before and not has_begun and not state.deleting:
            await outcome(self.delete(group.id))

    def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        """They are deleted, and with them what the share partitions have of them."""
        for group in self._all():
            group.forget_topics(topic_ids)

    def _all(self) -> Iterable[ShareGroup]:
        return [each for each in self._groups.groups.values() if isinstance(each, ShareGroup)]

    # A start

    def restore(self, replayed: Mapping[str, StoredShareGroup], now_ms: int) -> None:
        for group_id, stored in replayed.items():
            if stored.epoch is not None and group_id not in self._groups.groups:
                group = self._make(group_id)
                group.restore(stored, now_ms)
                self._groups.adopt(group)
                if group.shared.deleting:
                    self._tasks.begin(self._end_deletion(group))

    async def _end_deletion(self, group: ShareGroup) -> None:
        """That a crash has interrupted, of its offsets or of the group."""
        await self._partitions.known()
        try:
            await self._delete_states(group, group.shared.deleting)
        except ApplianceError as error:
            logger.warning("states of a share group stay for now", group=group.id, error=error)


def _as_it_is(state: ShareState) -> ShareState:
    return state


async def _each(
    items: Iterable[Item], job: Callable[[Item], Coroutine[Any, Any, None]]
) -> dict[Item, ApplianceError]:
    """All at a time: one commit is for all of them. Tells what failed."""

    async def one(item: Item) -> ApplianceError | None:
        try:
            await job(item)
        except ApplianceError as error:
            return error
        return None

    ordered = list(items)
    errors = await asyncio.gather(*map(one, ordered))
    return {item: error for item, error in zip(ordered, errors, strict=True) if error}


def _asked(write: Callable[[Done], None]) -> asyncio.Future[ApplianceError | None]:
    done: asyncio.Future[ApplianceError | None] = asyncio.get_running_loop().create_future()
    write(done.set_result)
    return done


async def _stored(asked: asyncio.Future[ApplianceError | None]) -> None:
    error = await asked
    if error is not None:
        raise error
