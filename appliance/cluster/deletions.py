"""Topics that are to be deleted, `/admin/delete_topics/T`. A request names the id of its topic:
what was made again under the name meanwhile stays. The request goes last, with the topic, so that
the next controller finishes what one has begun."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from kazoo.exceptions import NoNodeError

from appliance.catalog import kafka_uuid
from appliance.cluster import forms, paths
from appliance.cluster.reading import Reading, in_parts
from appliance.cluster.session import Session
from appliance.cluster.table import TopicNews
from appliance.cluster.term import IN_A_CHANGE, Term


def request_node(topic_id: bytes) -> bytes:
    text = kafka_uuid.text_of(uuid.UUID(bytes=topic_id))
    return forms.as_json({"version": 1, "topic_id": text})


class Deletions:
    def __init__(self, session: Session, reading: Reading) -> None:
        self._session, self._reading = session, reading

    async def wanted(self, watch: Callable[[], None]) -> list[str]:
        return sorted(await self._session.children(paths.DELETIONS, watch))

    async def finish(self, name: str, term: Term) -> TopicNews | None:
        """What is to be told; None: there was nothing to delete, or not all is gone yet."""
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
        await self._remove_below(where, term)
        change = term.change().delete(where)
        if topic and await self._session.exists(paths.topic_id(topic.topic_id)):
            change.delete(paths.topic_id(topic.topic_id))
        if await self._session.exists(paths.config(name)):
            change.delete(paths.config(name))
        if not await term.commit(change.delete(request)):
            return None
        return TopicNews(name, topic.topic_id, is_deleted=True) if topic else None

    async def _remove_below(self, path: str, term: Term) -> None:
        below = await self._all_below([path])
        for first in range(0, len(below), IN_A_CHANGE):
            change = term.change()
            for each in below[first:][:IN_A_CHANGE]:
                change.delete(each)
            if not await term.commit(change):
                return  # somebody writes there: the next round looks again

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
