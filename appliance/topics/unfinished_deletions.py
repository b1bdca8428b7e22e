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
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID

from appliance.data_dir.log_dirs import LogDirs
from appliance.errors import ApplianceError, raise_first
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.topics import topic_directories
from appliance.topics.topic_rows import TopicRows

events = event_log.named("broker")

Failures = dict[str, ApplianceError]  # by name
Forget = Callable[[Mapping[str, UUID]], Awaitable[Failures]]

UNDER_WAY = "it is under way"
KEPT_STILL = "what is kept of it by its name was not removed before the broker stopped"


class UnfinishedDeletions(dict[str, str]):
    """Why each is not finished, by name."""

    def __init__(self, rows: TopicRows, log_dir: LogDirs, change: Changes) -> None:
        super().__init__()
        self.forget: Forget | None = None  # removes what is kept; why some of it stays
        self._rows = rows
        self._log_dir = log_dir
        self._change = change
        self._turn = asyncio.Lock()  # who comes late must not forget what a new topic has

    async def begin(self, names: Collection[str]) -> None:
        """Within a change of topics: from here on they are gone, whatever becomes of the rest."""
        self.update(dict.fromkeys(names, UNDER_WAY))
        self._keep(await self._delete_files(names))

    async def go_on(self, names: Iterable[str]) -> None:
        """Outside of it, for what is kept may have to make a topic."""
        self._keep(await self._forget([each for each in names if self.get(each) == UNDER_WAY]))

    def _keep(self, failures: Failures) -> None:
        for name, error in failures.items():
            self[name] = str(error)
            events.error("what is left of a deleted topic stays for now", topic=name, error=error)

    async def finish(self, name: str) -> None:
        """Tried again. Raises what is in the way."""
        raise_first((await self._change(self._delete_files([name]))).values())
        raise_first((await self._forget([name])).values())

    async def make_room(self, name: str) -> None:
        """Within a change: the cluster has another topic of that name, and what is tried again must
        not delete its files. So what could not be removed is set aside."""
        if name not in self:
            return

        def set_aside() -> list[str]:
            held = [number for topic, number in self._log_dir.held() if topic == name]
            places = [str(self._log_dir.set_aside(name, number)) for number in held]
            self._log_dir.unplace_topics([name])
            return places

        places = await asyncio.to_thread(set_aside)
        events.warning("what is left of a deleted topic is set aside", topic=name, places=places)
        raise_first((await self._end([name])).values())

    async def _delete_files(self, names: Iterable[str]) -> Failures:
        left = [each for each in names if each in self]
        if not left:
            return {}
        try:
            failures = await asyncio.to_thread(
                topic_directories.delete_files, self._log_dir, left
            )
        except ApplianceError as error:
            return dict.fromkeys(left, error)
        if self.forget is None:
            failures |= await self._end([each for each in left if each not in failures])
        return failures

    async def _forget(self, names: Iterable[str]) -> Failures:
        async with self._turn:
            left = [each for each in names if each in self]
            if not left or self.forget is None:
                return {}
            rows = {row.name: row.id for row in self._rows.deletions()}
            try:
                # One without a row ended while somebody else was about to begin it.
                failures = await self.forget({each: rows[each] for each in left if each in rows})
            except ApplianceError as error:
                return dict.fromkeys(left, error)
            return failures | await self._end([each for each in left if each not in failures])

    async def _end(self, names: Sequence[str]) -> Failures:
        try:
            await asyncio.to_thread(self._rows.end_deletions, names)
        except ApplianceError as error:
            return dict.fromkeys(names, error)
        for name in names:
            self.pop(name, None)
            events.info("topic deleted", topic=name)
        return {}
