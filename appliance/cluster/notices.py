"""The notice of a round, `/appliance/changes/c...`: all that changed, in one value, so that a
thousand elections are one watch and one read for each broker. The nodes in it are as they are in
ZooKeeper, with the version that each has there.

    {"version": 1, "by": 1, "everything": false, "leaving": [[2, 7]], "topics": [
        {"name": "t", "topic_id": "...", "node": {...}, "node_version": 0,
         "config": {...}, "config_version": 0, "states": {"0": [3, {...}]}, "is_deleted": false}]}
    {"version": 1, "by": 2, "stopping": 7, "topics": []}

Controllers write them, leaders for their in-sync replicas, and who changes a config. `leaving` is a
controller's: who is being stopped, with its life. `stopping` is before that, by who will be: in
this life of it others will soon lead what it leads. "everything": more changed than is said here.
Their numbers have no gap: who misses one reads everything.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from appliance.catalog import kafka_uuid
from appliance.cluster import forms
from appliance.cluster.forms import FormUnknown, PartitionState, Reader, fields_in
from appliance.cluster.table import TopicNews

# ZooKeeper takes a megabyte at a time, and closes the connection of who sends more.
BYTES_WANTED, BYTES_MAX = 400_000, 1_000_000
STATES_MAX = 2000  # of one topic in one notice


@dataclass(frozen=True)
class Notice:
    by: int
    news: tuple[TopicNews, ...] = ()
    is_everything: bool = False
    leaving: Mapping[int, int] | None = None  # None: it says nothing of it
    stopping: int = 0  # the life of who says it; 0: it is not being stopped


def notice_node(notice: Notice) -> bytes:
    """Without the news if these are too large: then there is more than it says."""
    data = _notice_node(notice)
    if len(data) <= BYTES_MAX:
        return data
    return _notice_node(replace(notice, news=(), is_everything=True))


def _notice_node(notice: Notice) -> bytes:
    fields: dict[str, Any] = {"version": 1, "by": notice.by}
    if notice.is_everything:
        fields["everything"] = True
    if notice.leaving is not None:
        fields["leaving"] = [[node, life] for node, life in sorted(notice.leaving.items())]
    if notice.stopping:
        fields["stopping"] = notice.stopping
    fields["topics"] = [_fields_of(news) for news in notice.news]
    return forms.as_json(fields)


def _fields_of(news: TopicNews) -> dict[str, Any]:
    topic_id = kafka_uuid.text_of(uuid.UUID(bytes=news.topic_id))
    fields: dict[str, Any] = {"name": news.name, "topic_id": topic_id}
    if news.is_deleted:
        return fields | {"is_deleted": True}
    if news.topic:
        node = forms.fields_of_topic(news.topic)
        fields |= {"node": node, "node_version": news.topic.version}
    if news.config:
        node = forms.fields_of_config(news.config.values)
        fields |= {"config": node, "config_version": news.config.version}
    fields["states"] = {
        str(number): [state.version, forms.fields_of_state(state)]
        for number, state in news.states.items()
    }
    return fields


def in_pieces(news: Iterable[TopicNews]) -> Iterator[tuple[TopicNews, ...]]:
    """Each fits into a notice, unless a topic alone does not."""
    piece: list[TopicNews] = []
    size = 0
    for each in _split(news):
        more = _size(each)
        if piece and size + more > BYTES_WANTED:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(each)
        size += more
    if piece:
        yield tuple(piece)


def _split(news: Iterable[TopicNews]) -> Iterator[TopicNews]:
    """A topic with very many states into several."""
    for each in news:
        if len(each.states) <= STATES_MAX:
            yield each
            continue
        yield replace(each, states={})
        numbers = [*each.states]
        for first in range(0, len(numbers), STATES_MAX):
            some = {number: each.states[number] for number in numbers[first:][:STATES_MAX]}
            yield TopicNews(each.name, each.topic_id, states=some)


def _size(news: TopicNews) -> int:
    """About that many bytes."""
    size = 200 + len(news.name)
    size += sum(150 + 12 * len((*each.isr, *each.eligible)) for each in news.states.values())
    if news.topic:
        size += sum(10 + 12 * len(each) for each in news.topic.partitions)
    if news.config:
        size += sum(10 + len(name) + len(each) for name, each in news.config.values.items())
    return size


def notice_from(data: bytes, where: str) -> Notice:
    fields = fields_in(data, where, 1)
    read = Reader(where, fields)
    topics = fields.get("topics", [])
    if not isinstance(topics, list):
        raise read.unknown("topics", topics, "a list")
    news = tuple(_news_from(each, where) for each in topics)
    is_everything = fields.get("everything") is True
    stopping = read.number("stopping") if "stopping" in fields else 0
    return Notice(read.number("by"), news, is_everything, _leaving_in(read), stopping)


def _leaving_in(read: Reader) -> dict[int, int] | None:
    pairs = read.fields.get("leaving")
    if pairs is None:
        return None
    try:
        leaving = dict(pairs)
    except (TypeError, ValueError):
        raise read.unknown("leaving", pairs, "pairs of broker and life") from None
    if any(type(each) is not int for pair in leaving.items() for each in pair):
        raise read.unknown("leaving", pairs, "pairs of broker and life")
    return leaving


def _news_from(fields: object, where: str) -> TopicNews:
    if not isinstance(fields, dict):
        raise FormUnknown(f"{where} in ZooKeeper: wanted topics with fields")
    read = Reader(where, fields)
    name = read.text("name")
    try:
        topic_id = kafka_uuid.parse(read.text("topic_id")).bytes
    except ValueError:
        raise read.unknown("topic_id", fields.get("topic_id"), "22 letters of base64") from None
    topic = config = None
    if "node" in fields:
        node = Reader(where, _object(read, "node"))
        topic = forms.topic_in(node, name, read.number("node_version"))
    if "config" in fields:
        node = Reader(where, _object(read, "config"))
        config = forms.config_in(node, read.number("config_version"))
    is_deleted = fields.get("is_deleted") is True
    return TopicNews(name, topic_id, topic, config, _states_in(read), is_deleted)


def _object(read: Reader, name: str) -> Mapping[str, Any]:
    value = read.fields[name]
    if not isinstance(value, dict):
        raise read.unknown(name, value, "fields")
    return value


def _states_in(read: Reader) -> dict[int, PartitionState]:
    found = read.fields.get("states", {})
    if not isinstance(found, dict):
        raise read.unknown("states", found, "states by partition")
    return {_number(read, number): _state_in(read, pair) for number, pair in found.items()}


def _number(read: Reader, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise read.unknown("states", text, "numbers of partitions")
    return int(text)


def _state_in(read: Reader, pair: object) -> PartitionState:
    if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) is not int:
        raise read.unknown("states", pair, "a version and a state")
    if not isinstance(pair[1], dict):
        raise read.unknown("states", pair, "a version and a state")
    return forms.state_in(Reader(read.where, pair[1]), pair[0])

