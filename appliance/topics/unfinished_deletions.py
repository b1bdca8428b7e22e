"""Deleted topics of which something is left: their files, or what others keep by their name.

    deleted    a row among the deletions, and no client sees the topic any more
    files      removed
    kept       what groups committed, and what else would count for the next topic of that name
    ended      the row goes, and the name is free

What an error or a kill leaves undone is tried again, by a timer and by the next start. In a cluster
the name is free at once for who asks ZooKeeper, so there the row goes with the files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from appliance.data_dir.log_dirs import LogDirs
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.topics import topic_directories
from appliance.topics.topic_rows import TopicRows

events = event_log.named("broker")

Forget = Callable[[str, UUID], Awaitable[None]]

UNDER_WAY = "it is under way"
KEPT_STILL = "what is kept of it by its name was not removed before the broker stopped"


class UnfinishedDeletions(dict[str, str]):
    """Why each is not finished, by name."""

    def __init__(self, rows: TopicRows, log_dir: LogDirs, change: Changes) -> None:
        super().__init__()
        self.forget: Forget | None = None  # removes what is kept; raises what stays
        self._rows = rows
        self._log_dir = log_dir
        self._change = change
        self._turn = asyncio.Lock()  # who comes late must not forget what a new topic has

    async def begin(self, name: str) -> None:
        """Within a change of topics: from here on it is deleted, whatever becomes of the rest."""
        self[name] = UNDER_WAY
        try:
            await self._delete_files(name)
        except ApplianceError as error:
            self._keep(name, error)

    async def go_on(self, name: str) -> None:
        """Outside of it, for what is kept may have to make a topic."""
        if self.get(name) == UNDER_WAY:
            try:
                await self._forget(name)
            except ApplianceError as error:
                self._keep(name, error)

    def _keep(self, name: str, error: ApplianceError) -> None:
        self[name] = str(error)
        events.error("what is left of a deleted topic stays for now", topic=name, error=error)

    async def finish(self, name: str) -> None:
        """Tried again. Raises what is in the way."""
        await self._change(self._delete_files(name))
        await self._forget(name)

    async def make_room(self, name: str) -> None:
        """Within a change: the cluster has another topic of that name, and what is tried again must
        not delete its files. So what could not be removed is set aside."""
        if name not in self:
            return

        def set_aside() -> list[str]:
            held = [number for topic, number in self._log_dir.held() if topic == name]
            places = [str(self._log_dir.set_aside(name, number)) for number in held]
            self._log_dir.unplace(name)
            return places

        places = await asyncio.to_thread(set_aside)
        events.warning("what is left of a deleted topic is set aside", topic=name, places=places)
        await self._end(name)

    async def _delete_files(self, name: str) -> None:
        if name in self:
            await asyncio.to_thread(topic_directories.delete_files, self._log_dir, name)
            if self.forget is None:
                await self._end(name)

    async def _forget(self, name: str) -> None:
        async with self._turn:
            if name not in self or self.forget is None:
                return
            for row in self._rows.deletions():
                if row.name == name:
                    await self.forget(name, row.id)
            await self._end(name)

    async def _end(self, name: str) -> None:
        await asyncio.to_thread(self._rows.end_deletion, name)
        self.pop(name, None)
        events.info("topic deleted", topic=name)
