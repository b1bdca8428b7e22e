"""Topics that are to be deleted, `/admin/delete_topics/T`. A request names the id of its topic:
what was made again under the name meanwhile stays. The request goes last, with the topic, so that
the next controller finishes what one has begun. The notice of it comes in the same change: brokers
that are not told of a deletion set the files aside, and the next topic of the name gets what is
kept by it. Many end together, or the notices would be more than a broker reads one by one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kazoo.exceptions import NoNodeError

from appliance.catalog import kafka_uuid
from appliance.cluster import forms, paths
from appliance.cluster.reading import Reading, in_parts
from appliance.cluster.session import ChangeRefused, Session
from appliance.cluster.table import TopicNews
from appliance.cluster.term import IN_A_CHANGE, Term
from appliance.process import event_log

events = event_log.named("cluster")


def request_node(topic_id: bytes) -> bytes:
    text = kafka_uuid.text_of(uuid.UUID(bytes=topic_id))
    return forms.as_json({"version": 1, "topic_id": text})


class Remains(NamedTuple):
    """Of a topic without partitions: what goes in one change, the request for it last."""

    nodes: tuple[str, ...]
    news: TopicNews | None  # None: its node was not understood


class Deletions:
    def __init__(self, session: Session, reading: Reading) -> None:
        self._session, self._reading = session, reading
        self._in_doubt: list[TopicNews] = []  # nobody knows whether the last change was made

    async def wanted(self, watch: Callable[[], None]) -> list[str]:
        return sorted(await self._session.children(paths.DELETIONS, watch))

    async def ended(self) -> list[TopicNews]:
        """Of those whose last change was not answered. Their notices are written."""
        if self._in_doubt:
            await self._session.sync()
        gone = [news for news in self._in_doubt
                if not await self._session.exists(paths.topic_id(news.topic_id))]  # fmt: skip
        self._in_doubt.clear()
        return gone

    async def finish(self, names: Sequence[str], term: Term, own: set[int]) -> list[TopicNews]:
        """What was told, by notices whose numbers `own` has then. What is not in it was not there,
        or is not all gone yet."""
        found = [each for name in names if (each := await self._remains(name, term))]
        if not found:
            return []
        told = await self._end(found, term, own)
        if told is None:  # one of them is not any more as it was read, or cannot be deleted
            told = []
            for each in found if len(found) > 1 else ():
                told += await self._end([each], term, own) or ()
        self._in_doubt = [each for each in self._in_doubt if each not in told]
        return told

    async def _remains(self, name: str, term: Term) -> Remains | None:
        """When all below it is gone. None: there is nothing to delete, or not yet."""
        request = f"{paths.DELETIONS}/{name}"
        wanted = await self._reading.node(request, lambda data, stat: id_in(data))
        where = paths.topic(name)
        topic = await self._reading.topic_node(name)
        is_there = await self._session.exists(where)
        if not is_there or (topic and wanted and wanted != topic.topic_id):
            await term.commit(term.change().delete(request))
            return None
        if request in self._reading.troubles or (topic is None and wanted):
            return None  # one of them is not understood: whether it is that topic is not known
        if not await self._remove_below(where, term):
            return None
        nodes = [paths.topic_id(topic.topic_id)] if topic else []
        there = [each for each in (*nodes, paths.config(name)) if await self._session.exists(each)]
        news = TopicNews(name, topic.topic_id, is_deleted=True) if topic else None
        return Remains((where, *there, request), news)

    async def _end(
        self, some: Sequence[Remains], term: Term, own: set[int]
    ) -> list[TopicNews] | None:
        """None: it was refused. What was told stays in doubt until all of it is returned."""
        change = term.change()
        for node in (node for each in some for node in each.nodes):
            change.delete(node)
        news = [each.news for each in some if each.news]
        self._in_doubt += news
        try:
            if await term.commit_and_tell(change, news, own):
                return news
        except ChangeRefused as refused:
            topics = [each.nodes[0] for each in some]
            events.error("topics cannot be deleted in ZooKeeper", topics=topics, error=refused)
        self._in_doubt = [each for each in self._in_doubt if each not in news]
        return None

    async def _remove_below(self, path: str, term: Term) -> bool:
        below = await self._all_below([path])
        for first in range(0, len(below), IN_A_CHANGE):
            change = term.change()
            for each in below[first:][:IN_A_CHANGE]:
                change.delete(each)
            if not await term.commit(change):
                return False  # somebody writes there: the next round looks again
        return True

    async def _all_below(self, parents: list[str]) -> list[str]:
        """Children before their parents."""
        found = await in_parts(self._children(each) for each in parents)
        children = [each for some in found for each in some]
        return [*await self._all_below(children), *children] if children else []

    async def _children(self, path: str) -> list[str]:
        try:
            return [f"{path}/{each}" for each in await self._session.children(path)]
        except NoNodeError:
            return []


def id_in(data: bytes) -> bytes:
    """Nothing in it: Kafka's own tools name no id, and mean whichever there is."""
    if not data.strip():
        return b""
    read = forms.Reader(paths.DELETIONS, forms.fields_in(data, paths.DELETIONS, 1))
    try:
        return kafka_uuid.parse(read.text("topic_id")).bytes
    except ValueError:
        raise read.unknown("topic_id", data, "22 letters of base64") from None
