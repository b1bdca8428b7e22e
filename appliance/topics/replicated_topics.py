"""A cluster's topics on this broker: its part of each agrees with what the cluster says.

    not here           the row, and the logs of the partitions that are ours
    here               more partitions, its configs; replicas that came to this broker, or went:
                       what others lead by now is deleted here, everything else is set aside
    another one's name what is here is set aside: its records are never continued (topic ids differ)
    gone               deleted if the cluster says so, else set aside

Each is looked at again as a whole, so it does not matter what was missed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance._log import Log
from appliance.config import topic_config
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.topics import topic_directories
from appliance.topics.topic import Topic
from appliance.topics.topic_rows import TopicRow
from appliance.topics.topics import Topics

events = event_log.named("replication")


@dataclass(frozen=True)
class Wanted:
    """A topic as the cluster has it, and which of its partitions are on this broker."""

    name: str
    id: uuid.UUID
    partitions: int
    here: frozenset[int]
    configs: Mapping[str, str]
    led: Mapping[int, int] = field(default_factory=dict)  # epochs of partitions that are led


class ReplicatedTopics:
    def __init__(self, topics: Topics, change: Changes, show: Callable[[str], None]) -> None:
        """`show` tells everybody of a topic, and who leads what of it is not here."""
        self._topics = topics
        self._change = change
        self._show = show
        self._half_aside: dict[str, Topic] = {}  # a full disk kept the rest of it from that

    async def finish(self, name: str) -> None:
        """What was to be set aside, and could not be whole: nobody has it any more, and its row
        would keep another topic from the name for good."""
        if name in self._half_aside:
            await self._change(self._set_aside(self._half_aside[name]))

    async def agree(self, now: Callable[[], Wanted | None]) -> None:
        """`now` tells what is wanted at that moment; None: there is no such topic."""
        await self._change(self._agree(now))

    async def set_aside(self, topic: Topic) -> None:
        """The cluster has it no more, and nobody knows why."""
        await self._change(self._set_aside(topic))

    async def _agree(self, now: Callable[[], Wanted | None]) -> None:
        wanted = now()
        if wanted is None:
            return
        topic = self._topics.get(wanted.name)
        if topic is not None and topic.id != wanted.id:
            await self._set_aside(topic)
            topic = None
        if topic is None:
            await self._make(wanted)
            return
        if wanted.here - (topic.here or frozenset()) or len(topic.logs) != wanted.partitions:
            await self._extend(topic, wanted)
        await self._shrink(topic, now())  # as it is now: what came back meanwhile stays
        if topic.configs != wanted.configs:
            await self._configure(topic, wanted)

    async def _make(self, wanted: Wanted) -> None:
        await self._topics.undeleted.make_room(wanted.name)
        (_, config), faults = topic_config.readable(wanted.configs, self._topics.base)
        for fault in faults:
            events.warning("a topic's setting cannot be used here", topic=wanted.name, why=fault)
        now_ms = self._topics.log_dir.clock.latest_ms()
        row = TopicRow(
            wanted.name, wanted.id, wanted.partitions, {**wanted.configs}, now_ms, wanted.here
        )
        rows, log_dir = self._topics.rows, self._topics.log_dir
        create = topic_directories.create
        (logs,) = await asyncio.to_thread(create, rows, log_dir, [(row, config)])
        if isinstance(logs, ApplianceError):
            raise logs
        topic = Topic(wanted.name, wanted.id, {**wanted.configs}, (), now_ms, here=wanted.here)
        topic.logs = placed([None] * wanted.partitions, logs)
        self._topics.take(topic)
        events.info("topic is here", topic=wanted.name, partitions=sorted(wanted.here))

    async def _extend(self, topic: Topic, wanted: Wanted) -> None:
        log_dir, rows = self._topics.log_dir, self._topics.rows
        config = topic_config.readable(topic.configs, self._topics.base)[0][1]
        row = TopicRow(topic.name, topic.id, wanted.partitions, here=topic.here)
        add = topic_directories.add_replicas
        here = wanted.here | (topic.here or frozenset())
        logs = await asyncio.to_thread(add, rows, log_dir, row, here, config)
        more = [None] * (wanted.partitions - len(topic.logs))
        topic.logs = placed([*topic.logs, *more], logs)
        topic.here = here
        self._topics.show(topic)
        events.info("partitions are here", topic=topic.name, partitions=[
            log.partition for log in logs])  # fmt: skip

    async def _shrink(self, topic: Topic, wanted: Wanted | None) -> None:
        """Who led or followed it here knows no more of its log before anything of that goes: in
        the ISR a broker may never be by what it is about to delete."""
        here = topic.here or frozenset()
        if wanted is None or wanted.id != topic.id or not (gone := here - wanted.here):
            return
        aside = frozenset(each for each in gone if not _is_led_elsewhere(topic, each, wanted))
        topic.logs = [None if each in gone else log for each, log in enumerate(topic.logs)]
        topic.here = here - gone
        for each in gone:
            topic.unserved.pop(each, None)
        self._show(topic.name)
        row = TopicRow(topic.name, topic.id, len(topic.logs), here=here)
        remove = topic_directories.remove_replicas
        places = await asyncio.to_thread(
            remove, self._topics.rows, self._topics.log_dir, row, gone, aside
        )
        events.info("partitions are here no more", topic=topic.name, partitions=sorted(gone))
        if places:
            events.warning("nobody leads what was moved away from here: it is set aside",
                           topic=topic.name, places=[*map(str, places)])  # fmt: skip

    async def _configure(self, topic: Topic, wanted: Wanted) -> None:
        (_, config), faults = topic_config.readable(wanted.configs, self._topics.base)
        for fault in faults:
            events.warning("a topic's setting cannot be used here", topic=topic.name, why=fault)
        await asyncio.to_thread(self._topics.rows.set_configs, topic.name, wanted.configs)
        topic.configs = {**wanted.configs}
        topic.configure_logs(config)
        self._topics.show(topic)

    async def _set_aside(self, topic: Topic) -> None:
        """Its files stay, and nothing deletes them. After a crash in between the start makes empty
        ones in the place of those that were set aside, and all are set aside then."""
        rows, log_dir = self._topics.rows, self._topics.log_dir

        def set_aside() -> list[str]:
            held = [number for name, number in log_dir.held() if name == topic.name]
            places = [str(log_dir.set_aside(topic.name, number)) for number in held]
            rows.begin_deletions([topic.name])
            log_dir.unplace_topics([topic.name])
            rows.end_deletions([topic.name])
            return places

        self._half_aside[topic.name] = topic
        self._topics.hide(topic.name)
        places = await asyncio.to_thread(set_aside)
        del self._half_aside[topic.name]
        events.warning("a topic is not the cluster's any more: what was here is set aside",
                       topic=topic.name, id=topic.id, places=places)  # fmt: skip


def _is_led_elsewhere(topic: Topic, partition: int, wanted: Wanted) -> bool:
    """In an election that is not older than what this log has heard of: else ZooKeeper may be that
    of a former day, and these the only records."""
    log = topic.logs[partition]
    known = -1 if log is None else max(log.election, log.leader_epoch)
    return wanted.led.get(partition, -1) >= max(known, 0)


def placed(logs: list[Log | None], more: list[Log]) -> list[Log | None]:
    """With these in their places. Nobody leads them until an election is told."""
    for log in more:
        log.hold()
        logs[log.partition] = log
    return logs
