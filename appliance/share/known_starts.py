"""Where share groups of this broker begin to read, in a cluster: as the share coordinators of their
partitions told last, for their lag.

A group costs one request to each broker that has some of its states. It is asked about every
`FRESH_S` at most; one without members, which only an administrator moves, every `IDLE_S`. Whoever
asks waits `WAIT_S` at most, and those asked about longest ago are first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from appliance.groups.handover import Place
from appliance.process.detached_tasks import Tasks
from appliance.share.group import ShareGroup
from appliance.share.partition_states import States

FRESH_S = 2.0
IDLE_S = 60.0
WAIT_S = 2.0


class Told(NamedTuple):
    at_s: float
    starts: Mapping[Place, int]


NOTHING = Told(float("-inf"), {})


class KnownStarts:
    """On the event loop."""

    def __init__(self, states: Callable[[], States], tasks: Tasks) -> None:
        self._states = states
        self._tasks = tasks
        self._told: dict[str, Told] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def of(self, group_id: str) -> Mapping[Place, int]:
        """Without what is not known."""
        return self._told.get(group_id, NOTHING).starts

    def keep(self, groups: Collection[str]) -> None:
        """Others are gone, or are another broker's."""
        self._told = {name: told for name, told in self._told.items() if name in groups}

    async def ask(self, groups: Collection[ShareGroup]) -> None:
        until_s = time.monotonic() + WAIT_S
        for group in sorted(groups, key=lambda each: self._told.get(each.id, NOTHING).at_s):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            if self._is_due(group):
                await asyncio.wait([self._begun(group)], timeout=left_s)

    def _is_due(self, group: ShareGroup) -> bool:
        told = self._told.get(group.id, NOTHING)
        is_all = group.shared.initialized <= told.starts.keys()
        holds_s = FRESH_S if group.members or not is_all else IDLE_S
        return time.monotonic() - told.at_s >= holds_s

    def _begun(self, group: ShareGroup) -> asyncio.Task[None]:
        if group.id not in self._asking:
            task = self._asking[group.id] = self._tasks.begin(self._ask(group))
            task.add_done_callback(lambda _: self._asking.pop(group.id))
        return self._asking[group.id]

    async def _ask(self, group: ShareGroup) -> None:
        starts = await self._states().starts(group.id, group.shared.initialized)
        self._told[group.id] = Told(time.monotonic(), starts)
