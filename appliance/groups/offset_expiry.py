"""Takes away offsets whose time is over, and Empty groups that have none left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from appliance.config import GroupsConfig
from appliance.groups.group import Group
from appliance.groups.group_table import OF_CONSUMERS, ConsumersGroup, GroupTable
from appliance.groups.member import NEVER_MS
from appliance.groups.modern_group import ModernGroup
from appliance.groups.offset_commits import OffsetCommits
from appliance.groups.records import NEVER, OffsetCommitValue, Partition
from appliance.groups.states import State
from appliance.machine.believed_time import WallClock
from appliance.process.detached_tasks import let_go


@dataclass(eq=False)
class OffsetExpiry:
    _config: GroupsConfig
    _table: GroupTable
    _commits: OffsetCommits
    _clock: WallClock
    _expire_share_group: Callable[[ModernGroup], None]
    _timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """On the event loop."""
        wait_s = self._config.retention_check_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self.start()
        if self._table.availability.is_loaded:
            self.expire(self._clock.now_ms())

    def expire(self, wall_ms: int) -> None:
        writing = self._table.topic.writing()
        for group in list(self._table.groups.values()):
            if group.id in writing:
                continue  # a commit on its way to the disk would be deleted behind its answer
            if group.is_dead:
                continue  # its deletion is under way
            if isinstance(group, OF_CONSUMERS):
                self._expire(group, wall_ms)
            else:
                self._expire_share_group(group)

    def _expire(self, group: ConsumersGroup, wall_ms: int) -> None:
        offsets = self._table.offsets
        own = offsets.of_group(group.id)
        is_known = isinstance(group, ModernGroup) or group.state is State.STABLE
        subscribed = group.subscribed() if is_known else None
        expired = [
            partition
            for partition, each in own.items()
            if self._expires_ms(group, subscribed, partition, each.value) <= wall_ms
            and not offsets.is_unstable(group.id, partition)
        ]
        is_left = len(expired) < len(own) or offsets.is_held(group.id)
        if group.is_empty and not is_left:
            let_go(self._table.delete(group.id))
        elif expired:
            let_go(self._commits.delete(group.id, expired))

    def _expires_ms(
        self,
        group: ConsumersGroup,
        subscribed: frozenset[str] | None,
        partition: Partition,
        value: OffsetCommitValue,
    ) -> int:
        if value.expire_timestamp != NEVER:
            return value.expire_timestamp
        keep_ms = self._retention_ms(group)
        if keep_ms < 0:
            return NEVER_MS
        if group.is_empty:
            return max(value.commit_timestamp, group.changed_ms) + keep_ms
        is_wanted = subscribed is None or partition.topic in subscribed
        return NEVER_MS if is_wanted else value.commit_timestamp + keep_ms

    def _retention_ms(self, group: ConsumersGroup) -> int:
        """-1: for good."""
        wanted = [self._config.retention_minutes]
        if isinstance(group, Group) and group.never_had_members:
            wanted.append(self._config.memberless_retention_minutes)
        return min((each * 60_000 for each in wanted if each >= 0), default=-1)
