"""The owner of all groups: finds them, gives them time and disk, answers what handlers ask.

Everything here runs on the one asyncio thread. Nothing waits: what is not known at once comes
through a callback, when the members it waits for are there, or when the disk has it
(`internal_topic.py`). A group has one timer, set to its first deadline and looked at again when it
rings, so that a heartbeat touches its own member and nothing else.

At a start the topic is read on a thread beside the loop. Until it is, groups are answered
COORDINATOR_LOAD_IN_PROGRESS, which clients take as "ask again". All of a group stands in one
partition: where one cannot be opened, its groups are answered COORDINATOR_NOT_AVAILABLE until it
can be and was read, and the groups of the others are served.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from appliance._log import Log
from appliance.access.kept import Kept, check_name
from appliance.config import ConsumerGroupsConfig, GroupsConfig, KeptConfig
from appliance.errors import ApplianceError, BatchLargerThanSegment, RequestInvalid
from appliance.groups.consumer_member import JOINING, Beat, Beaten
from appliance.groups.consumer_records import StoredConsumerGroup
from appliance.groups.group import Group
from appliance.groups.lag import Progress
from appliance.groups.member import (
    NEVER_MS,
    AnswerJoin,
    AnswerSync,
    Join,
    Stored,
    Sync,
)
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.modern_group import Done, ModernGroup, Terms, TopicView
from appliance.groups.offsets import Offsets, size_of
from appliance.groups.records import (
    NEVER,
    GroupMetadataValue,
    OffsetCommitValue,
    Partition,
    group_record,
    offset_record,
)
from appliance.groups.replay import Found, replay
from appliance.groups.share_records import StoredShareGroup
from appliance.groups.states import GroupRefused, State
from appliance.groups.wanted_places import wanted_places
from appliance.machine.wall_clock import WallClock
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import (
    HELD_UP_S,
    InternalTopic,
    Record,
    Transaction,
    Write,
    partition_of,
)
from appliance.topics.topic import OFFSETS, Topic, TopicUnavailable

logger = event_log.named("groups")

# A timer that rings so much later than it should shows that the process stood still: suspended, or
# busy. What its members sent meanwhile waits unread, so they get that time again.
STALL_MS = 1000

SHOWN_MAX = 100  # characters of a group's name that an error repeats

AnyGroup = Group | ModernGroup
ConsumersGroup = Group | MixedGroup  # one that commits offsets
OF_CONSUMERS = (Group, MixedGroup)  # the same, looked up faster


class Topics(TopicView, Protocol):
    """Where the records live, what there is to read, and what was set for a group."""

    def consumer_group_config(self, group_id: str) -> ConsumerGroupsConfig: ...

    def offsets_topic(self) -> Topic | None:
        """None before the first use."""
        ...

    async def make_offsets_topic(self) -> Sequence[Log | None]: ...


class Coordinator:
    def __init__(
        self,
        config: GroupsConfig,
        topics: Topics,
        clock: WallClock | None = None,
        kept: Kept | None = None,
        member_max_bytes: int = KeptConfig.member_max_bytes,
    ) -> None:
        self.config = config
        self.kept = Kept.of_groups(KeptConfig()) if kept is None else kept
        self._member_max_bytes = member_max_bytes
        self._weighed: dict[str, tuple[int, int]] = {}  # in which the broker assigns: epoch, bytes
        self._clock = clock or WallClock()
        self.groups: dict[str, AnyGroup] = {}
        self.version = 0  # counts groups that came and went
        self.offsets = Offsets()
        self.fault = ""  # why no group is served, or some are not; for people
        self.unread: frozenset[int] = frozenset()  # partitions whose groups are not known yet
        # told what a start finds of share groups, which have an owner of their own
        self.restore_share_groups: Callable[[Mapping[str, StoredShareGroup], int], None]
        self.restore_share_groups = lambda found, now_ms: None
        self.expire_share_group: Callable[[ModernGroup], None] = lambda group: None  # if it is idle
        self._topics = topics
        self._topic = InternalTopic(topics.make_offsets_topic, config.commit_timeout_ms)
        self._under_way: Counter[str] = Counter()  # writes that are not on disk yet, by group
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._loading: asyncio.Task[None] | None = None
        self._unavailable: GroupRefused | None = GroupRefused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group coordinator has not started"
        )
        self._expiry: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._held_up: asyncio.TimerHandle | None = None
        self._forgotten: set[str] = set()  # topics deleted before offsets were known
        self.doubtful: dict[str, list[str]] = {}  # groups whose commits may be older, by partition

    # Life

    def start(self) -> None:
        """On the event loop. Groups are served once the topic is read."""
        self._plan_expiry()
        topic = self._topics.offsets_topic()
        if topic is None:
            self._unavailable = None
            return
        self.unread = frozenset(range(len(topic.logs)))
        self._unavailable = GroupRefused(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "offsets and groups are being read"
        )
        self._begin(topic)

    def _begin(self, topic: Topic) -> None:
        self._loading = asyncio.get_running_loop().create_task(self._load(topic))

    def _look_again(self) -> None:
        """Whether what could not be opened is open now."""
        self._held_up = None
        topic = self._topics.offsets_topic()
        if topic is not None and any(topic.logs[each] is not None for each in self.unread):
            self._begin(topic)
        elif self.unread:
            self._hold_up()

    def _hold_up(self) -> None:
        """What is there is not known: nobody is answered as if nothing was."""
        if self._is_stopped:
            return
        names = ", ".join(f"{OFFSETS}-{each}" for each in sorted(self.unread))
        self.fault = f"groups whose offsets are in {names} are not served: it cannot be opened"
        self._held_up = asyncio.get_running_loop().call_later(HELD_UP_S, self._look_again)

    @property
    def is_loading(self) -> bool:
        return self._loading is not None and not self._loading.done()

    async def loaded(self) -> None:
        """After a load that has begun."""
        if self._loading is not None:
            await self._loading

    async def known(self) -> None:
        """When it returns, offsets are; it raises where they cannot be known yet."""
        await self.loaded()
        self.check_loaded()

    async def _load(self, topic: Topic) -> None:
        begin = time.monotonic()
        places = {each: log for each in self.unread if (log := topic.logs[each]) is not None}
        try:
            found = await asyncio.to_thread(replay, list(places.values()))
        except Exception as error:
            names = ", ".join(log.name for log in places.values())
            self.fault = f"groups whose offsets are in {names} are not served: {error!r}"
            if self._unavailable is not None:  # not those that were read before
                self._unavailable = GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.fault)
            logger.exception("offsets and groups cannot be read, no group is served")
            return
        self._restore(found)
        self.unread -= places.keys()
        if not self._is_stopped:
            self._unavailable = None
        self._forget_later(found.offsets.groups())
        # It stays for good. Walking through a hundred thousand offsets again and again, the garbage
        # collector took twice as long as the commits themselves. Only a process of our own froze
        # at its start: in one that starts many brokers the stopped ones would never be freed.
        if gc.get_freeze_count() > 0:
            gc.freeze()
        took_ms = round((time.monotonic() - begin) * 1000)
        logger.info("groups loaded", groups=len(self.groups), ms=took_ms)
        for each in found.faults:
            logger.warning("left out while groups were loaded", what=each)
        if self.unread:
            self._hold_up()
            logger.error("some groups are not served", why=self.fault)
        else:
            self.fault = ""

    def _restore(self, found: Found) -> None:
        self.offsets.take(found.offsets)
        self.doubtful |= found.doubtful
        now_ms = self._now_ms()
        for group_id, value in found.groups.items():
            group = self.make(group_id)
            group.restore(value, now_ms)
            self.arm(group)
        for group_id, stored in found.consumer_groups.items():
            self._restore_consumer_group(group_id, stored, now_ms)
        self.restore_share_groups(found.share_groups, now_ms)
        for group_id in found.offsets.groups():
            if group_id not in self.groups:
                self.make(group_id)
            self._weigh(group_id)

    def _restore_consumer_group(
        self, group_id: str, stored: StoredConsumerGroup, now_ms: int
    ) -> None:
        # Where both have records, the older kind came later: a group that changes to the newer one
        # takes the other's away in the same write.
        if stored.epoch is not None and group_id not in self.groups:
            group = self._make_consumer_group(group_id)
            group.restore(stored, now_ms)
            self.adopt(group)
            self._maybe_downgrade(group)

    def stop(self) -> None:
        """Answers everybody who waits for other members; nobody is let in any more."""
        self._is_stopped = True
        self._unavailable = GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
        for handle in [*self._timers.values(), self._expiry, self._held_up]:
            if handle is not None:
                handle.cancel()
        for group in self.groups.values():
            if isinstance(group, Group):
                group.stop()  # in others nobody waits but for the disk

    async def close(self) -> None:
        """After the last write that has begun."""
        self.stop()
        await self.loaded()
        await self._topic.close()

    # Members

    def join(self, group_id: str, asked: Join, now_ms: int, answer: AnswerJoin) -> None:
        self._check(group_id)
        config = self.config
        if not config.min_session_ms <= asked.session_timeout_ms <= config.max_session_ms:
            raise GroupRefused(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"group {group_id}: got a session timeout of {asked.session_timeout_ms} ms, wanted "
                f"{config.min_session_ms} to {config.max_session_ms}",
            )
        names = (asked.member_id, asked.instance_id, asked.protocol_type)
        self._check_member(group_id, asked.member_id, asked.size, *names)
        self._give_up_empty(group_id)
        found = self.groups.get(group_id)
        if found is not None and not isinstance(found, OF_CONSUMERS):
            raise GroupRefused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group_id} is not one of consumers"
            )
        if found is None and not asked.member_id:
            self.make(group_id)
        group = self._of_member(group_id)
        group.join(asked, now_ms, answer)
        self.arm(group)

    def sync(self, group_id: str, asked: Sync, now_ms: int, answer: AnswerSync) -> None:
        self._check(group_id)
        group = self._of_member(group_id)
        self.kept.check(group_id, sum(map(len, asked.assignments.values())) - group.weight)
        group.sync(asked, now_ms, answer)
        self.arm(group)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        self._check(group_id)
        self._of_member(group_id).heartbeat(member_id, instance_id, generation, now_ms)

    def leave(self, group_id: str, member_id: str, instance_id: str | None, now_ms: int) -> None:
        self._check(group_id)
        group = self._of_member(group_id)
        group.leave(member_id, instance_id, now_ms)
        self.arm(group)

    # Members of the newer protocol

    def consumer_heartbeat(
        self, group_id: str, asked: Beat, now_ms: int, answer: Callable[[Beaten], None]
    ) -> None:
        self.check(group_id)
        self.check_beat(group_id, asked)
        before = self.groups.get(group_id)
        group = self._consumer_group(group_id, before, asked.epoch == JOINING, now_ms)
        group.consumer_heartbeat(asked, now_ms, answer)
        if group is not before and asked.member_id in group.members:
            self._disarm(group_id)
            self.adopt(group)
            if isinstance(before, Group):
                before.disband()
        if group is self.groups.get(group_id):
            self.arm(group)

    def _consumer_group(
        self, group_id: str, found: AnyGroup | None, may_make: bool, now_ms: int
    ) -> MixedGroup:
        if found is not None:
            self.check_alive(found)
        if isinstance(found, MixedGroup):
            return found
        if not may_make or isinstance(found, ModernGroup):
            what = "is not a consumer group" if found else "not found"
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        group = self._make_consumer_group(group_id)
        if found is not None:
            group.supersede(found.tombstones())
            if found.members:
                self._check_upgrade(group_id)
                group.take_over(found, now_ms)
        return group

    def _check_upgrade(self, group_id: str) -> None:
        config = self._topics.consumer_group_config(group_id)
        if not config.may_upgrade:
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is not a consumer group, and group.consumer.migration.policy is "
                f"{config.migration_policy}.",
            )

    def _maybe_downgrade(self, group: MixedGroup) -> None:
        """Once the last member of the newer protocol is gone."""
        config = self._topics.consumer_group_config(group.id)
        has_place = len(group.members) <= self.config.max_size
        if not (group.is_to_go_back and config.may_downgrade and has_place):
            return
        logger.info("a group goes back to the older protocol", group=group.id)
        self._disarm(group.id)
        older = self.make(group.id)
        older.superseded = group.tombstones()
        group.give_back(older, self._now_ms())
        # nobody waits: what failed is written with the next, or a restart finds it as it was
        older.store(older.record(), lambda error, _: None)
        self.arm(older)

    def _make_consumer_group(self, group_id: str) -> MixedGroup:
        def terms() -> Terms:
            config = self._topics.consumer_group_config(group_id)
            return Terms(
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
                config.max_size,
                tuple(config.assignors.split(",")),
            )

        def store(records: list[Record], done: Done) -> None:
            def stored(error: ApplianceError | None) -> None:
                done(error)
                if self._unavailable is None:
                    self._maybe_downgrade(group)

            self.store(group, records, stored)

        group = MixedGroup(group_id, terms, self._topics, store)
        return group

    def store(self, group: ModernGroup, records: list[Record], done: Done) -> None:
        now_ms = self._clock.latest_ms()

        def stored(error: ApplianceError | None, _: int) -> None:
            if error is not None:
                logger.warning("a group was not stored", group=group.id, error=error)
            else:
                group.changed_ms = now_ms
            done(_told(error))
            if group is self.groups.get(group.id):
                self.arm(group)  # for heartbeats that waited for this write

        self._write(group.id, records, stored)

    def _give_up_empty(self, group_id: str) -> None:
        """A group without members takes the protocol of whoever comes next."""
        group = self.groups.get(group_id)
        if not isinstance(group, MixedGroup) or not group.is_empty:
            return
        self._disarm(group_id)
        self.make(group_id)
        # should this fail, a restart finds a group without members, or the other kind's records
        self._write(group_id, group.tombstones(), lambda error, _: None)

    # Offsets

    def commit(
        self,
        group_id: str,
        member: tuple[str, str | None, int],
        values: Mapping[Partition, OffsetCommitValue],
        now_ms: int,
        done: Done,
    ) -> None:
        """`member`: id, instance id and generation; -1 is nobody's. `done` is called when the
        offsets are on disk, and everybody sees them, or with why not."""
        if self._unavailable is not None or self.unread:  # a call less for each commit
            self.check(group_id)
        group = self.groups.get(group_id)
        if group is None and member[2] >= 0:
            raise GroupRefused(
                ErrorCode.ILLEGAL_GENERATION, f"there is no group {group_id}: no generation"
            )
        self._check_offsets(group_id, values)
        if group is None:
            group = self.make(group_id)
        group = self.of_consumers(group)
        if isinstance(group, Group):
            group.check_commit(*member, now_ms)
        else:
            group.check_commit(member[0], member[2], values)

        def stored(error: ApplianceError | None, first_offset: int) -> None:
            if error is None:
                self.offsets.put(group_id, values, first_offset)
                self._weigh(group_id)
            done(_told(error))

        self._write(group_id, [offset_record(group_id, *each) for each in values.items()], stored)

    def _check_offsets(self, group_id: str, values: Mapping[Partition, OffsetCommitValue]) -> None:
        own = self.offsets.of_group(group_id)
        more = sum(
            size_of(value) - (size_of(own[place].value) if place in own else 0)
            for place, value in values.items()
        )
        self.check_room(group_id, more)

    def commit_in_transaction(
        self,
        group_id: str,
        member: tuple[str, str | None, int],
        values: Mapping[Partition, OffsetCommitValue],
        transaction: Transaction,
        done: Done,
    ) -> None:
        """As `commit`, but nobody sees the offsets before `end_transaction`."""
        self.check(group_id)
        self.check_room(group_id, sum(map(size_of, values.values())))
        group = self.of_consumers(self.groups.get(group_id) or self.make(group_id))
        group.check_transactional_commit(*member)

        def stored(error: ApplianceError | None, first_offset: int) -> None:
            if error is None:
                self.offsets.hold(transaction.producer_id, group_id, values, first_offset)
                self._weigh(group_id)
            done(_told(error))

        records = [offset_record(group_id, *each) for each in values.items()]
        self._write(group_id, records, stored, transaction)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Its marker is on disk: what it committed counts, or never was. A group that was deleted
        meanwhile is there again with what it has now, as it would be after a start."""
        held = self.offsets.held_groups(producer_id)
        self.offsets.end(producer_id, is_commit)
        for group_id in held:
            if group_id not in self.groups and self.offsets.of_group(group_id):
                self.make(group_id)
            self._weigh(group_id)

    async def partition_of(self, group_id: str) -> int:
        """Of `__consumer_offsets`, where the group's offsets stand."""
        try:
            return partition_of(group_id, len(await self._topics.make_offsets_topic()))
        except ApplianceError as error:  # it cannot be made now, or is not served
            raise GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def delete_offsets(self, group_id: str, places: list[Partition], done: Done) -> None:
        def stored(error: ApplianceError | None, first_offset: int) -> None:
            if error is None:
                self.offsets.put(group_id, dict.fromkeys(places), first_offset)
                self._weigh(group_id)
            done(_told(error))

        self._write(group_id, [offset_record(group_id, each, None) for each in places], stored)

    async def forget_topic(self, topic: str) -> None:
        """Its offsets mean nothing in a new topic of the same name."""
        if self._unavailable is not None or self.unread:
            self._forgotten.add(topic)  # once they are known
        if self._unavailable is not None:
            return
        if self._topics.offsets_topic() is None and not self._topic.is_busy:
            return
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()
        # behind the commits that are on their way
        self._write("", [], lambda error, first_offset: settled.set_result(None))
        await settled
        forgotten: list[asyncio.Future[ApplianceError | None]] = []
        for group_id, places in list(self.offsets.places_of_topic(topic)):
            forgotten.append(loop.create_future())
            self.delete_offsets(group_id, places, forgotten[-1].set_result)
        for error in await asyncio.gather(*forgotten):
            _warn_if_kept(topic, error)

    def _forget_later(self, groups: Collection[str]) -> None:
        """Of groups that were read just now; the others may know a new topic of that name."""
        for topic in self._forgotten:
            for group_id, places in list(self.offsets.places_of_topic(topic)):
                if group_id in groups:
                    self.delete_offsets(group_id, places, partial(_warn_if_kept, topic))
        if not self.unread:
            self._forgotten.clear()

    # Groups

    def find(self, group_id: str) -> AnyGroup | None:
        """None: there is no such group, or no longer."""
        self.check(group_id)
        group = self.groups.get(group_id)
        return None if group is None or group.is_dead else group

    def get(self, group_id: str) -> AnyGroup:
        group = self.find(group_id)
        if group is None:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def delete(self, group_id: str, done: Done) -> None:
        """The group with all that it committed. Meanwhile nobody gets in: it is Dead."""
        group = self.get(group_id)
        group.delete()
        self.bury(group, done)

    def bury(self, group: AnyGroup, done: Done) -> None:
        """What is on disk of a Dead group."""
        group_id = group.id

        def settled(error: ApplianceError | None, _: int) -> None:
            places = list(self.offsets.of_group(group_id))
            records = [offset_record(group_id, each, None) for each in places]
            self._write(group_id, [*records, *group.tombstones()], partial(gone, places))

        def gone(places: list[Partition], error: ApplianceError | None, first_offset: int) -> None:
            del self.groups[group_id]
            self._weigh(group_id)
            self.version += 1
            self._disarm(group_id)
            if error is None:
                self.offsets.put(group_id, dict.fromkeys(places), first_offset)
            elif places:
                self.make(group_id)  # its offsets are still there
            done(_told(error))

        # behind the commits that are on their way
        self._write(group_id, [], settled)

    # Expiry

    def _plan_expiry(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self.config.retention_check_ms / 1000
        self._expiry = loop.call_later(wait_s, self._expire)

    def _expire(self) -> None:
        self._plan_expiry()
        if self._unavailable is None:
            self.expire(self._clock.now_ms())

    def expire(self, wall_ms: int) -> None:
        """Takes away the offsets whose time is over, and Empty groups that have none."""
        for group in list(self.groups.values()):
            if group.id in self._under_way:
                continue  # a commit on its way to the disk would be deleted behind its answer
            if not isinstance(group, OF_CONSUMERS):
                self.expire_share_group(group)
                continue
            own = self.offsets.of_group(group.id)
            is_known = isinstance(group, MixedGroup) or group.state is State.STABLE
            subscribed = group.subscribed() if is_known else None
            places = [
                place
                for place, each in own.items()
                if self._expires_ms(group, subscribed, place, each.value) <= wall_ms
                and not self.offsets.is_unstable(group.id, place)
            ]
            is_left = len(places) < len(own) or self.offsets.is_held(group.id)
            if group.is_empty and not is_left:
                self.delete(group.id, lambda error: None)
            elif places:
                self.delete_offsets(group.id, places, lambda error: None)

    def _expires_ms(
        self,
        group: ConsumersGroup,
        subscribed: frozenset[str] | None,
        place: Partition,
        value: OffsetCommitValue,
    ) -> int:
        if value.expire_timestamp != NEVER:
            return value.expire_timestamp
        keep_ms = self._retention_ms(group)
        if keep_ms < 0:
            return NEVER_MS
        if group.is_empty:
            return max(value.commit_timestamp, group.changed_ms) + keep_ms
        is_wanted = subscribed is None or place.topic in subscribed
        return NEVER_MS if is_wanted else value.commit_timestamp + keep_ms

    def _retention_ms(self, group: ConsumersGroup) -> int:
        """-1: for good."""
        wanted = [self.config.retention_minutes]
        if isinstance(group, Group) and group.never_had_members:
            wanted.append(self.config.memberless_retention_minutes)
        return min((each * 60_000 for each in wanted if each >= 0), default=-1)

    # Lag

    def groups_that_read(self) -> Collection[str]:
        with_members = {each.id for each in self.groups.values() if each.members}
        return with_members.union(self.offsets.groups())

    def progress(self, group_id: str) -> Progress | None:
        """None: there is no such group of consumers."""
        group = self.groups.get(group_id)
        if not isinstance(group, OF_CONSUMERS) or group.is_dead:
            return None
        own = self.offsets.of_group(group_id)
        protocol = "consumer" if isinstance(group, MixedGroup) else "classic"
        offsets = {place: each.value.offset for place, each in own.items()}
        return Progress(protocol, offsets, wanted_places(group, self._topics))

    # Finding groups

    def check_loaded(self) -> None:
        """Whether groups are served; some may not be."""
        if self._unavailable is not None:
            raise self._unavailable

    def check(self, group_id: str) -> None:
        """Whether what there is of this group is known."""
        self.check_loaded()
        topic = self._topics.offsets_topic() if self.unread else None
        if topic is None:
            return
        try:
            self.check_read(partition_of(group_id, len(topic.logs)))
        except TopicUnavailable as error:
            text = f"group {group_id}: {error}"
            raise GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from None

    def check_read(self, partition: int) -> None:
        """Of `__consumer_offsets`: raises until it is known what groups have there."""
        if partition in self.unread:
            raise TopicUnavailable(f"{OFFSETS}-{partition} is not served, or is not read yet")

    def _check(self, group_id: str) -> None:
        self.check(group_id)
        if not group_id:
            raise GroupRefused(ErrorCode.INVALID_GROUP_ID, "the group's id is empty")

    def _of_member(self, group_id: str) -> ConsumersGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, OF_CONSUMERS):
            what = f"{group_id} is not a group of consumers" if group else f"no group {group_id}"
            raise GroupRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"no such member: {what}")
        self.check_alive(group)
        return group

    def of_consumers(self, group: AnyGroup) -> ConsumersGroup:
        """The group as one that has offsets."""
        if group.is_dead:
            self.check_alive(group)
        if not isinstance(group, OF_CONSUMERS):
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.id} is not a consumer group."
            )
        return group

    def check_alive(self, group: AnyGroup) -> None:
        if group.is_dead:
            raise GroupRefused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group.id} is being deleted"
            )

    def make(self, group_id: str) -> Group:
        def store(value: GroupMetadataValue, done: Stored) -> None:
            self._store(group, value, done)

        group = Group(group_id, self.config, store)
        self.groups[group_id] = group
        self._weigh(group_id)
        self.version += 1
        return group

    def adopt(self, group: ModernGroup) -> None:
        self.groups[group.id] = group
        self._weighed.pop(group.id, None)
        self.version += 1
        self.arm(group)

    # How much there is of them

    def check_room(self, group_id: str, more_bytes: int = 0) -> None:
        """Before a group is made, or grows by so much."""
        if group_id not in self.groups:
            try:
                check_name("group", group_id)
            except RequestInvalid as error:
                raise GroupRefused(ErrorCode.INVALID_GROUP_ID, str(error)) from error
            more_bytes += len(group_id)
        self.kept.check(group_id, more_bytes)

    def check_beat(self, group_id: str, asked: Beat) -> None:
        names = (asked.member_id, asked.instance_id, asked.rack_id, asked.assignor)
        self._check_member(group_id, asked.member_id, asked.size, *names)

    def _check_member(
        self, group_id: str, member_id: str, size: int, *names: str | None
    ) -> None:
        for each in names:
            check_name(f"member of group {group_id[:SHOWN_MAX]}", each)
        if size > self._member_max_bytes:
            raise RequestInvalid(
                f"group {group_id[:SHOWN_MAX]}: got a member of {size} bytes, wanted at most "
                f"{self._member_max_bytes} (group.member.max.bytes)"
            )
        group = self.groups.get(group_id)
        self.check_room(group_id, size - (group.weight_of(member_id) if group else 0))

    def _weigh(self, group_id: str) -> None:
        """After whatever may have changed how much there is of it."""
        group = self.groups.get(group_id)
        if group is None:
            self.kept.drop(group_id)
            self._weighed.pop(group_id, None)
            return
        members = self._weight(group) if isinstance(group, ModernGroup) else group.weight
        self.kept.put(group_id, len(group_id) + members + self.offsets.bytes_of(group_id))

    def _weight(self, group: ModernGroup) -> int:
        """Each of its members is looked at, which is needed only in a new epoch."""
        epoch, weight = self._weighed.get(group.id, (-1, 0))
        if epoch != group.epoch:
            weight = group.weight
            self._weighed[group.id] = group.epoch, weight
        return weight

    # Time and disk

    def arm(self, group: AnyGroup) -> None:
        """Sets the group's timer, if it has none that rings in time. Called after whatever changes
        a group, so that what there is of it is counted here, too."""
        self._weigh(group.id)
        timer = self._timers.get(group.id)
        if timer is not None and timer.when() * 1000 <= group.due_ms:
            return
        self._disarm(group.id)
        if group.due_ms != NEVER_MS:
            loop = asyncio.get_running_loop()
            self._timers[group.id] = loop.call_at(group.due_ms / 1000, self._ring, group)

    def _disarm(self, group_id: str) -> None:
        timer = self._timers.pop(group_id, None)
        if timer is not None:
            timer.cancel()

    def _ring(self, group: AnyGroup) -> None:
        now_ms = self._now_ms()
        late_ms = now_ms - round(self._timers.pop(group.id).when() * 1000)
        if late_ms >= STALL_MS:
            group.postpone(late_ms, now_ms)
        group.tick(now_ms)
        self.arm(group)

    def _store(self, group: Group, value: GroupMetadataValue, done: Stored) -> None:
        superseded = group.superseded
        value.current_state_timestamp = group.changed_ms = self._clock.latest_ms()

        def stored(error: ApplianceError | None, _: int) -> None:
            if error is not None:
                logger.warning("a group was not stored", group=group.id, error=error)
            else:
                group.superseded = []
            done(_told(error), self._now_ms())
            self.arm(group)

        self._write(group.id, [*superseded, group_record(group.id, value)], stored)

    def _write(
        self,
        group_id: str,
        records: list[Record],
        done: Stored,
        transaction: Transaction | None = None,
    ) -> None:
        def told(error: ApplianceError | None, first_offset: int) -> None:
            self._under_way[group_id] -= 1
            if not self._under_way[group_id]:
                del self._under_way[group_id]
            done(error, first_offset)

        self._under_way[group_id] += 1
        self._topic.write(Write(group_id, records, self._clock.latest_ms(), told, transaction))

    @staticmethod
    def _now_ms() -> int:
        return time.monotonic_ns() // 1_000_000


def _told(error: ApplianceError | None) -> ApplianceError | None:
    """In words that clients of groups know: what may pass is to be asked for again."""
    if error is None or isinstance(error, GroupRefused):
        return error
    if isinstance(error, BatchLargerThanSegment):
        return GroupRefused(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, str(error))
    return GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))


def _warn_if_kept(topic: str, error: ApplianceError | None) -> None:
    if error is not None:
        logger.warning("offsets of a deleted topic stay", topic=topic, error=error)
