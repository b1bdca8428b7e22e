"""Partitions that are there but not open, while the broker runs.

    could not be opened     the start, or an attempt here, met an error: no space, no descriptor, a
                            permission. Tried again by a timer, as whatever it was may be gone
    failed                  a sync or a write of an open log failed. Never tried again by itself (a
                            second sync would succeed over a hole), but on an operator's word

Either way the log is opened as at a start after a crash: what is not known to be good is read from
the disk, not from the page cache. A topic is served when all its partitions are open; the owner of
what is in an internal topic loads it then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from appliance import event_log, topic_config
from appliance.catalog import Catalog, TopicRow
from appliance.config import BrokerConfig, LogConfig
from appliance.errors import ApplianceError
from appliance.log_dir import Key, LogDir, directory_name
from appliance.reconciliation import Reconciliation
from appliance.topic_directories import finish_deletion
from appliance.topics import Topic
from appliance.unserved import Facts, Unserved

events = event_log.named("reopening")

# Between two attempts: soon after the start, for what passes by itself; later seldom, as an attempt
# may read a whole segment.
RETRY_MIN_MS = 1_000
RETRY_MAX_MS = 60_000

Change = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


class Served(Protocol):
    """The broker."""

    config: BrokerConfig
    catalog: Catalog
    log_dir: LogDir
    topics: dict[str, Topic]
    unserved: Unserved

    @property
    def log_config(self) -> LogConfig: ...
    def take(self, topic: Topic) -> None: ...
    def show(self, topic: Topic) -> None: ...


class Reopening:
    def __init__(self, served: Served, change: Change) -> None:
        self._served = served
        self._change = change

    async def run(self, stops_within: Callable[[int], Awaitable[bool]]) -> None:
        """Tries again until the broker stops."""
        delay_ms = RETRY_MIN_MS
        while not await stops_within(delay_ms):
            if not self.is_wanted or await self.retry():
                delay_ms = RETRY_MIN_MS
            else:
                delay_ms = min(2 * delay_ms, RETRY_MAX_MS)

    @property
    def is_wanted(self) -> bool:
        return bool(self._served.log_dir.unopened or self._served.unserved.why)

    async def retry(self) -> int:
        """Of all that is not open, how much is now."""
        count: int = await self._change(self._retry())
        return count

    async def reopen(self, topic: str, partition: int) -> None:
        """One partition, on an operator's word, also one that failed. Raises what it meets."""
        await self._change(self._reopen(topic, partition))

    async def _retry(self) -> int:
        count = 0
        for key in sorted(self._served.log_dir.unopened):
            try:
                await self._open(key)
            except ApplianceError as error:
                events.warning("still not opened", log=directory_name(*key), error=error)
            else:
                count += 1
        for name in await asyncio.to_thread(self._finish_deletions):
            self._served.unserved.is_over(name)
        return count + await self._serve_all()

    async def _reopen(self, name: str, partition: int) -> None:
        await self._open((name, partition))
        await self._serve_all()

    async def _open(self, key: Key) -> None:
        """The log; and, if its topic is served, the log in the place of the one that failed. Until
        then the old one stays there: closed, so that clients are told to come again."""
        name, partition = key
        log_dir = self._served.log_dir
        config = await asyncio.to_thread(self._config_of, name)
        log = await asyncio.to_thread(log_dir.reopen, name, partition, config)
        topic = self._served.topics.get(name)
        if topic is not None and partition < len(topic.logs):
            topic.logs = [*topic.logs[:partition], log, *topic.logs[partition + 1 :]]
            self._served.show(topic)
        events.info("opened again", log=log.name, log_end=log.log_end_offset)

    def _config_of(self, name: str) -> LogConfig:
        base = self._served.log_config
        rows = {row.name: row for row in self._served.catalog.topics()}
        if name not in rows:
            return base
        configs, _ = topic_config.readable(rows[name].configs, base)
        return topic_config.to_log_config(configs, base)

    async def _serve_all(self) -> int:
        """Topics that can be served now."""
        served = self._served
        rows = await asyncio.to_thread(served.catalog.topics)
        wanted = [row for row in rows if served.unserved.is_there(row.name)]
        return sum([await self._serve(row) for row in wanted])

    async def _serve(self, row: TopicRow) -> bool:
        served = self._served
        found = Reconciliation(
            served.catalog, served.log_dir, served.log_config, served.config.topics
        )
        await asyncio.to_thread(found.serve, row)
        for why in found.unserved.why.values():
            served.unserved.put(row.name, Facts(row.id, row.partitions), why)
        for topic in found.topics.values():
            served.take(topic)
            events.info("topic served again", topic=topic.name, partitions=len(topic.logs))
        return bool(found.topics)

    def _finish_deletions(self) -> list[str]:
        """The names that are free now."""
        served, finished = self._served, []
        for row in served.catalog.deletions():
            try:
                finish_deletion(served.catalog, served.log_dir, row.name)
            except ApplianceError as error:
                events.warning("a deletion is still not finished", topic=row.name, error=error)
            else:
                finished.append(row.name)
        return finished
