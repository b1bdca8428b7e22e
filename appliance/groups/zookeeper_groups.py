"""Groups of consumers that live in ZooKeeper, as they were at the last look.

Their members and offsets are not in this broker: consumers of Kafka's original design keep them in
ZooKeeper, and read here. A look is every `LOOK_S` seconds, on a thread beside the loop. While
ZooKeeper is away the last look stays.

A group of the same name that has members or offsets in the broker is the broker's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups.lag import GroupProgress
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.process import event_log
from appliance.process.detached_tasks import outcome
from appliance.protocol import ErrorCode
from appliance.zookeeper.group_in_zookeeper import GroupInZooKeeper, Look, Place

log = event_log.named("groups")

LOOK_S = 5.0
PROTOCOL = "zookeeper"


class Nodes(Protocol):
    """`zookeeper/consumer_nodes.py`, which is imported only where there is a ZooKeeper."""

    def look(self) -> Look: ...
    def members(self, group: GroupInZooKeeper) -> list[str]: ...
    def delete(self, group: GroupInZooKeeper) -> None: ...
    def put_offsets(
        self, group: GroupInZooKeeper, offsets: Mapping[Place, int], ids: Mapping[str, UUID]
    ) -> None: ...


class ZooKeeperGroups:
    """Lives on the event loop."""

    def __init__(self, nodes: Nodes, is_brokers: Callable[[str], bool]) -> None:
        self._nodes, self._is_brokers = nodes, is_brokers
        self._groups: Mapping[str, GroupInZooKeeper] = {}
        self._is_told = False  # that ZooKeeper refuses
        self.left_out = 0
        self.version = 0  # of what was found

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("groups in ZooKeeper could not be read, in a way not foreseen")
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        try:
            found = await asyncio.to_thread(self._nodes.look)
        except ApplianceError as error:
            if not self._is_told:
                log.warning("groups in ZooKeeper are as they were", error=error)
            self._is_told = True
            return
        self._is_told = False
        if found.groups != self._groups or found.left_out != self.left_out:
            self.version += 1
        if found.left_out > self.left_out:
            log.warning("groups in ZooKeeper are left out", count=found.left_out)
        self._groups, self.left_out = found.groups, found.left_out

    def all(self) -> Iterable[GroupInZooKeeper]:
        return [self._groups[name] for name in sorted(self._groups) if self.find(name)]

    def find(self, name: str) -> GroupInZooKeeper | None:
        """None: there is none, or it is the broker's. Without members and offsets it is none."""
        found = self._groups.get(name)
        if found is None or self._is_brokers(name):
            return None
        return found if found.members or found.offsets else None

    # for the lag

    def groups_that_read(self) -> Collection[str]:
        return [each.name for each in self.all()]

    def progress(self, group_id: str) -> GroupProgress | None:
        found = self.find(group_id)
        if found is None:
            return None
        offsets = {Partition(*place): offset for place, (offset, _) in found.offsets.items()}
        return GroupProgress(PROTOCOL, offsets, [Partition(*place) for place in found.owners])

    # changes

    async def put_offsets(
        self, name: str, offsets: Mapping[Place, int], ids: Mapping[str, UUID]
    ) -> None:
        """Its consumers begin there. With members it is refused: they would commit over it."""
        await self._change(name, lambda group: self._nodes.put_offsets(group, offsets, ids))

    async def delete(self, name: str) -> None:
        await self._change(name, self._nodes.delete)

    async def _change(self, name: str, act: Callable[[GroupInZooKeeper], None]) -> None:
        """One that has begun comes to its end, also when who asked for it is gone."""
        found = self.find(name)
        if found is None:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.")

        def change() -> None:
            members = self._nodes.members(found)
            if members:
                raise non_empty(name, len(members))
            act(found)

        await outcome(asyncio.get_running_loop().create_task(asyncio.to_thread(change)))
        await self.look()


def non_empty(name: str, members: int) -> GroupRefused:
    return GroupRefused(
        ErrorCode.NON_EMPTY_GROUP,
        f"group {name} has {members} consumers in ZooKeeper, which would commit over it: stop them "
        "first",
    )
