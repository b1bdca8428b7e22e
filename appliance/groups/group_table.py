"""All groups, by their ids: made, looked up, written and deleted, and each with its timer.

Everything here runs on the one asyncio thread. A group has one timer, set to its first deadline and
looked at again when it rings, so that a heartbeat touches its own member and nothing else.
"""

from __future__ import annotations

import asyncio
import time

from appliance.access.kept_per_address import Kept
from appliance.config import GroupsConfig
from appliance.errors import ApplianceError
from appliance.groups.availability import Availability, Term, not_here
from appliance.groups.group import Group
from appliance.groups.group_memory import GroupWeights
from appliance.groups.member import NEVER_MS, Stored
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.modern_group import Done, ModernGroup
from appliance.groups.offsets import Offsets
from appliance.groups.offsets_topic import OffsetsTopic, OffsetsTopicSource, refusal
from appliance.groups.records import GroupMetadataValue, group_record, offset_record
from appliance.groups.states import GroupRefused
from appliance.groups.streams.group import StreamsGroup
from appliance.machine.believed_time import WallClock
from appliance.process import event_log
from appliance.process.detached_tasks import Tasks
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Record

logger = event_log.named("groups")

# A timer that rings so much later than it should shows that the process stood still: suspended, or
# busy. What its members sent meanwhile waits unread, so they get that time again.
STALL_MS = 1000

AnyGroup = Group | ModernGroup
ConsumersGroup = Group | MixedGroup | StreamsGroup  # one that commits offsets
OF_CONSUMERS = (Group, MixedGroup, StreamsGroup)  # the same, looked up faster
FOR_CLASSIC = (Group, MixedGroup)  # may have members of the classic protocol


class GroupTable:
    def __init__(
        self,
        config: GroupsConfig,
        topics: OffsetsTopicSource,
        clock: WallClock,
        kept: Kept,
        member_max_bytes: int,
    ) -> None:
        self.groups: dict[str, AnyGroup] = {}
        self.version = 0  # counts groups that came and went
        self.offsets = Offsets()
        self.availability = Availability(topics)
        self.weights = GroupWeights(self.groups, self.offsets, kept, member_max_bytes)
        served, timeout_ms = self.availability, config.commit_timeout_ms
        self.topic = OffsetsTopic(topics, served, timeout_ms, clock.latest_ms)
        self._config = config
        self._clock = clock
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks = Tasks()

    def stop(self) -> None:
        """Answers everybody who waits for other members."""
        for handle in self._timers.values():
            handle.cancel()
        for group in self.groups.values():
            if isinstance(group, Group):
                group.stop()  # in others nobody waits but for the disk

    async def close(self) -> None:
        """After the last write that has begun."""
        await self._tasks.settled()
        await self.topic.close()

    # Looking up

    def find(self, group_id: str) -> AnyGroup | None:
        """None: there is no such group, or no longer."""
        self.availability.check(group_id)
        group = self.groups.get(group_id)
        return None if group is None or group.is_dead else group

    def get(self, group_id: str) -> AnyGroup:
        group = self.find(group_id)
        if group is None:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def of_member(self, group_id: str) -> Group | MixedGroup:
        """Of the classic protocol."""
        group = self.groups.get(group_id)
        if not isinstance(group, FOR_CLASSIC):
            what = f"{group_id} is not a group of consumers" if group else f"no group {group_id}"
            raise GroupRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"no such member: {what}")
        check_alive(group)
        return group

    # Coming

    def make(self, group_id: str) -> Group:
        """One without members, which every consumer protocol may enter."""

        def store(value: GroupMetadataValue, done: Stored) -> None:
            self._store(group, value, done)

        group = Group(group_id, self._config, store)
        self.disarm(group_id)
        self._enter(group)
        self.weights.weigh(group_id)
        self.version += 1
        return group

    def adopt(self, group: ModernGroup) -> None:
        self.disarm(group.id)
        self._enter(group)
        self.weights.forget_epoch(group.id)
        self.version += 1
        self.arm(group)

    def _enter(self, group: AnyGroup) -> None:
        self.groups[group.id] = group
        if self.availability.terms is not None:
            self.availability.enter(group.id)

    # Time

    def arm(self, group: AnyGroup) -> None:
        """Sets the group's timer, if it has none that rings in time. Called after whatever changes
        a group, so that what there is of it is counted here, too."""
        self.weights.weigh(group.id)
        timer = self._timers.get(group.id)
        if timer is not None and timer.when() * 1000 <= group.due_ms:
            return
        self.disarm(group.id)
        if group.due_ms != NEVER_MS:
            loop = asyncio.get_running_loop()
            self._timers[group.id] = loop.call_at(group.due_ms / 1000, self._ring, group)

    def disarm(self, group_id: str) -> None:
        timer = self._timers.pop(group_id, None)
        if timer is not None:
            timer.cancel()

    def _ring(self, group: AnyGroup) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        late_ms = now_ms - round(self._timers.pop(group.id).when() * 1000)
        if late_ms >= STALL_MS:
            group.postpone(late_ms, now_ms)
        group.tick(now_ms)
        self.arm(group)

    # Disk

    def _store(self, group: Group, value: GroupMetadataValue, done: Stored) -> None:
        superseded = group.superseded
        value.current_state_timestamp = group.changed_ms = self._clock.latest_ms()

        def stored(error: ApplianceError | None, _: int) -> None:
            if error is not None:
                self._warn(group, error)
                error = refusal(error)
            else:
                group.superseded = []
            done(error, time.monotonic_ns() // 1_000_000)
            self.arm(group)

        self.topic.write(group.id, [*superseded, group_record(group.id, value)], stored)

    def store(self, group: ModernGroup, records: list[Record], done: Done) -> None:
        now_ms = self._clock.latest_ms()

        def stored(error: ApplianceError | None, _: int) -> None:
            if error is not None:
                self._warn(group, error)
                error = refusal(error)
            else:
                group.changed_ms = now_ms
            done(error)
            if self.has(group):
                self.arm(group)  # for heartbeats that waited for this write

        self.topic.write(group.id, records, stored)

    def has(self, group: AnyGroup) -> bool:
        """It is not another broker's, nor has another group its name."""
        return self.groups.get(group.id) is group

    def _warn(self, group: AnyGroup, error: ApplianceError) -> None:
        if self.has(group):
            logger.warning("a group was not stored", group=group.id, error=error)

    # Going

    def delete(self, group_id: str) -> asyncio.Task[None]:
        """The group with all that it committed. Meanwhile nobody gets in: it is Dead."""
        group = self.get(group_id)
        group.delete()
        return self._tasks.begin(self.bury(group))

    async def bury(self, group: AnyGroup) -> None:
        """What is on disk of a Dead group."""
        await self.topic.settled(group.id)  # commits that are on their way
        if not self.has(group):
            raise not_here(group.id, "the partition")
        partitions = list(self.offsets.of_group(group.id))

        def gone(error: ApplianceError | None, first_offset: int) -> None:
            if not self.has(group):
                return
            self._drop(group.id)
            if error is None:
                self.offsets.put(group.id, dict.fromkeys(partitions), first_offset)
            elif partitions:
                self.make(group.id)  # its offsets are still there

        records = [offset_record(group.id, each, None) for each in partitions]
        await self.topic.stored(group.id, [*records, *group.tombstones()], gone)

    def _drop(self, group_id: str) -> None:
        del self.groups[group_id]
        self.weights.weigh(group_id)
        self.version += 1
        self.disarm(group_id)
        if self.availability.terms is not None:
            self.availability.leave(group_id)

    def unload(self, term: Term) -> None:
        """The groups of a partition that another broker leads. Whoever waits is told to look for
        it, and nothing of them is written any more."""
        for group_id in term.groups:
            group = self.groups.pop(group_id)
            self.disarm(group_id)
            group.unload(not_here(group_id, "the partition"))
        self.topic.give_up(term)
        # a transaction may hold offsets of one that is not there yet
        held = self.availability.of_partition(self.offsets.all_held(), term.partition)
        self.offsets.forget(term.groups | held)
        for group_id in term.groups | held:
            self.weights.weigh(group_id)
        self.version += 1


def of_consumers(group: AnyGroup) -> ConsumersGroup:
    """The group as one that has offsets."""
    if group.is_dead:  # a call less for each commit
        check_alive(group)
    if not isinstance(group, OF_CONSUMERS):
        raise GroupRefused(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.id} is not a consumer group."
        )
    return group


def check_alive(group: AnyGroup) -> None:
    if group.is_dead:
        raise GroupRefused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group.id} is being deleted"
        )
