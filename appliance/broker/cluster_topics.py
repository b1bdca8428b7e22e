"""Topics of a cluster: made, extended, configured and deleted in ZooKeeper, by whichever broker is
asked; this broker follows what it hears there, and answers once it has.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from appliance.cluster import forms, paths, placement
from appliance.config.topic_config import Configs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, Refused, TimedOut
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.topics.replicated_topics import ReplicatedTopics, Wanted
from appliance.topics.topic import (
    DEFAULT,
    PartitionsInvalid,
    Topic,
    TopicUnavailable,
    TopicUnknown,
    check_more,
)
from appliance.topics.topics import Moving, NewTopic, Topics

if TYPE_CHECKING:
    from appliance.cluster.cluster import Cluster
    from appliance.cluster.forms import ClusterTopic, TopicConfig

events = event_log.named("replication")

# An answer waits so long for the cluster's word, which wants a controller and a round of elections.
HEARD_S = 30.0
CHANGED_S = 0.02  # until the next look at what others changed
AGAIN_S = 5.0  # after what could not be done here: a full disk, say


class ClusterTopics:
    """`Topics.cluster`, and who makes this broker's part agree."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        replicated: ReplicatedTopics,
        forget: Callable[[str], Awaitable[None]],
        agreed: Callable[[str], None],
        factor: int,
    ) -> None:
        """`agreed` is called once a topic here is as the cluster has it."""
        self.troubles: dict[str, str] = {}  # topics that do not agree yet, and why
        self._cluster = cluster
        self._topics = topics
        self._replicated = replicated
        self._forget = forget
        self._tell_agreed = agreed
        self._factor = factor
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        self._agreed = asyncio.Condition()
        self.were_agreed = asyncio.Event()  # once: all that the cluster had when it was read

    # Asked

    async def hear_of(self, name: str) -> None:
        if not forms.TOPIC_NAME.fullmatch(name):
            return
        before = self._cluster.topics.get(name)
        is_there = bool(await self._cluster.hear_of(name))
        gone = before.topic_id if before and not is_there else b""

        def agrees(topic: Topic | None) -> bool:
            known = self._cluster.topics.get(name)
            if known is None:
                return topic is None
            if topic is None and name in self.troubles:
                raise TopicUnavailable(f"{name} cannot be had here: {self.troubles[name]}")
            if known.topic_id == gone or topic is None:
                return False
            is_whole = len(topic.logs) >= len(known.partitions) or name in self.troubles
            return topic.id.bytes == known.topic_id and is_whole

        await self._until(name, agrees)

    async def hear_of_id(self, topic_id: uuid.UUID) -> None:
        await self.hear_of(await self._cluster.name_of(topic_id.bytes))

    async def create(self, wanted: NewTopic) -> Topic:
        replicas = wanted.replicas or self._place(wanted)
        is_left_to_us = wanted.factor == DEFAULT and not wanted.replicas
        is_short = is_left_to_us and len(replicas[0]) < self._factor
        made = await self._cluster.create_topic(
            wanted.name, replicas, {**wanted.configs},
            wanted_factor=self._factor if is_short else 0,
        )  # fmt: skip
        topic_id = uuid.UUID(bytes=made.topic_id)
        await self._until(wanted.name, lambda topic: topic is not None and topic.id == topic_id)
        await self._cluster.settled(wanted.name, HEARD_S)
        return self._topics.named(wanted.name)

    def _place(self, wanted: NewTopic) -> Sequence[Sequence[int]]:
        living = len(self._cluster.brokers)
        factor = min(self._factor, living) if wanted.factor == DEFAULT else wanted.factor
        return placement.place(wanted.partitions, factor, self._racks(factor))

    def _racks(self, factor: int) -> dict[int, str]:
        living = {each.node_id: each.rack for each in self._cluster.brokers.values()}
        return placement.staying(living, self._cluster.leaving, factor)

    async def create_partitions(
        self, topic: Topic, total: int, replicas: Sequence[Sequence[int]]
    ) -> None:
        def more(known: ClusterTopic) -> Sequence[Sequence[int]]:
            count = len(known.partitions)
            check_more(topic.name, total, count)
            if not replicas:
                factor = len(known.partitions[0])
                return placement.place(
                    total - count, factor, self._racks(factor), first_partition=count
                )
            if len(replicas) != total - count:
                raise PartitionsInvalid(
                    f"{topic.name}: got replicas of {len(replicas)} partitions, and it has {count} "
                    f"by now: wanted those of {total - count}"
                )
            return replicas

        await self._cluster.add_partitions(topic.name, more)
        await self._until(topic.name, lambda topic: topic is None or len(topic.logs) >= total)
        await self._cluster.settled(topic.name, HEARD_S)

    async def delete(self, name: str, wanted: uuid.UUID | None) -> None:
        topic_id = await self._cluster.delete_topic(name, wanted.bytes if wanted else b"")
        known = self._topics.get(name)
        if known is None or known.id.bytes != topic_id:  # it was made anew, unheard of here
            await self.hear_of(name)
        await self._until(name, lambda topic: topic is None or topic.id.bytes != topic_id)

    async def configure(self, topic: Topic, after: Callable[[Configs], Configs]) -> None:
        """Somebody else's change of the same topic is not overwritten: ours comes after it."""
        end_s = time.monotonic() + HEARD_S
        while (written := await self._configured(topic.name, after)) is None:
            if time.monotonic() > end_s:
                raise TimedOut(
                    f"{topic.name}: its settings were changed by others again and again for "
                    f"{HEARD_S:g} s: {self._cluster.status}"
                )
            await asyncio.sleep(CHANGED_S)
        await self._until(topic.name, lambda topic: topic is None or self._has(topic, written))

    async def _configured(
        self, name: str, after: Callable[[Configs], Configs]
    ) -> TopicConfig | None:
        """None: they are not any more as this broker has heard."""
        if name not in self._cluster.topics:
            raise TopicUnknown(f"there is no topic {name!r}")
        known = self._cluster.configs.get(name)
        if known is None and (why := self._unreadable(name)):
            self._cluster.look_at_everything()  # somebody may have mended it
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        values = {} if known is None else known.values
        version = -1 if known is None else known.version
        return await self._cluster.set_configs(name, {**after(values)}, version)

    def _has(self, topic: Topic, written: TopicConfig) -> bool:
        """Those, or newer ones."""
        known = self._cluster.configs.get(topic.name)
        return known is None or (
            known.version >= written.version and topic.configs == {**known.values}
        )

    async def reassign(
        self, name: str, wanted: Mapping[int, Sequence[int] | None]
    ) -> None:
        topic = await self._cluster.reassign(name, wanted)
        await self._cluster.has_heard(topic, HEARD_S)

    def moving(self) -> Mapping[str, Mapping[int, Moving]]:
        return {
            topic.name: {
                number: Moving(topic.partitions[number], topic.adding.get(number, ()),
                               topic.removing.get(number, ()))
                for number in sorted({*topic.adding, *topic.removing})
            }
            for topic in self._cluster.topics.values() if topic.adding or topic.removing
        }  # fmt: skip

    async def elect(self, keys: Collection[Key], unclean: bool = False) -> Mapping[Key, int]:
        return await self._cluster.elect(keys, unclean)

    async def _until(self, name: str, is_so: Callable[[Topic | None], bool]) -> None:
        async def heard() -> None:
            async with self._agreed:
                await self._agreed.wait_for(lambda: is_so(self._topics.get(name)))

        try:
            await asyncio.wait_for(heard(), HEARD_S)
        except asyncio.TimeoutError:
            why = self.troubles.get(name) or self._cluster.status
            raise TimedOut(
                f"{name}: the cluster was told, and this broker has not heard the outcome within "
                f"{HEARD_S:g} s: {why}"
            ) from None

    # Followed

    def heard(self, names: Collection[str]) -> None:
        self._due |= {*names}
        self._wake.set()

    async def run(self) -> None:
        """For as long as the broker is one of the cluster."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for name in sorted(self._due):
                self._due.discard(name)
                await self._agree(name)
                async with self._agreed:
                    self._agreed.notify_all()
            if self._cluster.has_read_all and not self._due:
                self.were_agreed.set()
            if self.troubles:
                asyncio.get_running_loop().call_later(AGAIN_S, self.heard, [*self.troubles])

    async def _agree(self, name: str) -> None:
        try:
            await self._agree_with(name)
        except ApplianceError as error:
            if self.troubles.get(name) != str(error):
                events.error("a topic of the cluster cannot be had here", topic=name, error=error)
            self.troubles[name] = str(error)
        else:
            self.troubles.pop(name, None)

    async def _agree_with(self, name: str) -> None:
        await self._replicated.finish(name)
        known, topic = self._cluster.topics.get(name), self._topics.get(name)
        if topic is not None and self._cluster.was_deleted(topic.id.bytes):
            await self._forget(name)
        elif known is None and topic is not None and self._cluster.has_read_all:
            await self._miss(topic)
        if name in self._cluster.topics:
            await self._replicated.agree(lambda: self._wanted(name))
            self._tell_agreed(name)

    async def _miss(self, topic: Topic) -> None:
        """It is not in ZooKeeper, and nobody told that it was deleted: that was while this broker
        was away, or something is wrong there. So nothing of it is deleted here."""
        if not self._cluster.topics:
            raise TopicUnknown(
                f"ZooKeeper has no topic at all, and this broker has {len(self._topics)}: it is "
                "taken for another one, or for one that was emptied, and nothing is changed here"
            )
        await self._replicated.set_aside(topic)

    def _unreadable(self, name: str) -> str:
        """Why nobody knows its settings; empty: they can be read, or it has none."""
        why = self._cluster.troubles.get(paths.config(name), "")
        return why and f"{name}: its settings in ZooKeeper cannot be read: {why}"

    def _settings_here(self, name: str, topic_id: uuid.UUID) -> Configs:
        """Where ZooKeeper has none, or none that can be read: it keeps what it has here then, and a
        topic that is kept for ever is not deleted by the broker's retention."""
        if not (why := self._unreadable(name)):
            return {}
        topic = self._topics.get(name)
        if topic is None or topic.id != topic_id:
            raise TopicUnavailable(why)
        return topic.configs

    def _wanted(self, name: str) -> Wanted | None:
        known, configs = self._cluster.topics.get(name), self._cluster.configs.get(name)
        if known is None:
            return None
        us = self._cluster.member.node_id
        here = frozenset(
            number for number, replicas in enumerate(known.partitions) if us in replicas
        )
        topic_id = uuid.UUID(bytes=known.topic_id)
        values = self._settings_here(name, topic_id) if configs is None else configs.values
        states = {each: self._cluster.states.get((name, each))
                  for each in range(len(known.partitions)) if each not in here}  # fmt: skip
        led = {each: state.leader_epoch for each, state in states.items()
               if state is not None and state.leader in self._cluster.brokers}  # fmt: skip
        return Wanted(name, topic_id, len(known.partitions), here, values, led)
