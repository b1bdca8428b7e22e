"""Reads of ZooKeeper with many questions under way at a time. Nodes that are foreign, newer or
spoilt are passed over, and their words kept in `troubles`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from kazoo.exceptions import NoNodeError

from appliance.cluster import forms, paths
from appliance.cluster.forms import (
    ClusterTopic,
    FormUnknown,
    Key,
    LivingBroker,
    PartitionState,
)
from appliance.cluster.session import Session
from appliance.cluster.table import TopicNews
from appliance.process import event_log
from appliance.process.event_log import quote

log = event_log.named("cluster")
AT_ONCE = 500
TOLD_MAX = 1000  # troubles, in the log
T = TypeVar("T")


async def in_parts(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order, `AT_ONCE` under way at a time."""
    known = [*work]
    results: list[T] = []
    for first in range(0, len(known), AT_ONCE):
        results += await together(known[first:][:AT_ONCE])
    return results


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All end before an error of one is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException):
            raise each
    return [each for each in results if not isinstance(each, BaseException)]


async def woken(wake: asyncio.Event, after_s: float | None) -> None:
    """Set, or so much later. Not `wait_for`, which may swallow a cancellation (before Python
    3.12), and then a task that is to end does not."""
    if after_s is None:
        await wake.wait()
        return
    timer = asyncio.get_running_loop().call_later(after_s, wake.set)
    try:
        await wake.wait()
    finally:
        timer.cancel()


class Reading:
    def __init__(self, session: Session) -> None:
        self._session = session
        self.troubles: dict[str, str] = {}

    async def make_folders(self) -> None:
        """Where there are none yet."""
        await together([self._session.ensure(each) for each in paths.FOLDERS])

    async def brokers(self, watch: Callable[[], None]) -> dict[int, LivingBroker]:
        names = await self._session.children(paths.IDS, watch)
        self.forget_all_but(paths.IDS, names)
        numbers = [int(each) for each in names if is_id(each)]
        found = await in_parts(self._broker(each, watch) for each in numbers)
        return {each.node_id: each for each in found if each}

    async def _broker(self, node_id: int, watch: Callable[[], None]) -> LivingBroker | None:
        """Watched itself: another life of a broker may come in the moment in which one goes."""
        where = f"{paths.IDS}/{node_id}"
        return await self.node(
            where, lambda data, stat: forms.broker_from(data, node_id, where), watch
        )

    async def topics(self) -> list[TopicNews]:
        names = await self._session.children(paths.TOPICS)
        self.forget_all_but(paths.TOPICS, names)
        found = await in_parts(self.topic(each) for each in names)
        return [each for each in found if each]

    async def topic(self, name: str) -> TopicNews | None:
        """All of it; None: it is not there, or not understood."""
        where = paths.topic(name)
        if not forms.TOPIC_NAME.fullmatch(name):
            self.pass_over(where, FormUnknown(f"{quote(where)} in ZooKeeper is no topic's name"))
            return None
        found = await self.topic_node(name)
        while found:
            news = await self._all_of(found)
            again = await self.topic_node(name)
            if again and again.topic_id == found.topic_id:
                return news
            found = again  # it was made again meanwhile: the states may be of either
        return None

    async def topic_node(self, name: str) -> ClusterTopic | None:
        where = paths.topic(name)
        return await self.node(
            where, lambda data, stat: forms.topic_from(data, name, stat.version, where)
        )

    async def _all_of(self, topic: ClusterTopic) -> TopicNews:
        where, name = paths.config(topic.name), topic.name
        config = await self.node(
            where, lambda data, stat: forms.config_from(data, stat.version, where)
        )
        states = await self.states((name, number) for number in range(len(topic.partitions)))
        by_number = {number: state for (_, number), state in states.items() if state}
        return TopicNews(name, topic.topic_id, topic, config, by_number)

    async def states(self, keys: Iterable[Key]) -> dict[Key, PartitionState | None]:
        known = [*keys]
        found = await in_parts(self.state(each) for each in known)
        return dict(zip(known, found, strict=True))

    async def state(self, key: Key) -> PartitionState | None:
        where = paths.state(*key)
        return await self.node(
            where, lambda data, stat: forms.state_from(data, stat.version, where)
        )

    async def node(
        self,
        where: str,
        parse: Callable[[bytes, Any], T],
        watch: Callable[[], None] | None = None,
    ) -> T | None:
        """None: it is not there, or passed over."""
        try:
            data, stat = await self._session.get(where, watch)
            parsed = parse(data, stat)
        except NoNodeError:
            self.troubles.pop(where, None)
            return None
        except FormUnknown as error:
            self.pass_over(where, error)
            return None
        self.troubles.pop(where, None)
        return parsed

    def forget_all_but(self, folder: str, names: Collection[str]) -> None:
        """The troubles of nodes that are gone."""
        for where in [*self.troubles]:
            above, _, name = where.rpartition("/")
            if above == folder and name not in names:
                del self.troubles[where]

    def pass_over(self, where: str, error: FormUnknown) -> None:
        if self.troubles.get(where) != str(error):
            if len(self.troubles) < TOLD_MAX:
                log.warning("passed over", error=error)
            self.troubles[where] = str(error)  # all: what is not in here is taken for readable


def is_id(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10
