"""Topics, their configs and the states of their partitions, as this broker knows them. News may
come twice and in any order of versions: what is older than what is known changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from appliance.cluster.forms import ClusterTopic, Key, PartitionState, TopicConfig


@dataclass(frozen=True)
class TopicNews:
    """What is new of a topic. Only the parts that are new are there."""

    name: str
    topic_id: bytes
    topic: ClusterTopic | None = None
    config: TopicConfig | None = None
    states: Mapping[int, PartitionState] = field(default_factory=dict)
    is_deleted: bool = False


@dataclass(frozen=True)
class Changes:
    keys: frozenset[Key]
    names: frozenset[str]


DELETED_MAX = 100_000  # ids of deleted topics that are remembered


class Table:
    def __init__(self) -> None:
        self.deleted: dict[bytes, int] = {}  # ids of topics that somebody told were deleted; when
        self.topics: dict[str, ClusterTopic] = {}
        self.configs: dict[str, TopicConfig] = {}
        self.states: dict[Key, PartitionState] = {}
        self._keys: set[Key] = set()
        self._names: set[str] = set()
        self._applied = 0  # counts what was applied
        self._put_at: dict[str, int] = {}  # when a topic was

    def begin_reading(self) -> int:
        """Of everything: to be given to `replace`."""
        return self._applied

    def replace(self, everything: Iterable[TopicNews], begun: int) -> None:
        """By what was read since `begun`. What was applied meanwhile stays: it is newer. And what
        was told meanwhile to be deleted stays away, though it was still there to be read. What was
        told before, and is there, is there again: its files are kept at later news of it."""
        found = {news.name: news for news in everything}
        for name in [*self.topics]:
            if name not in found and self._put_at[name] <= begun:
                self._remove(name)
        for news in found.values():
            if self.deleted.get(news.topic_id, 0) <= begun:
                self.deleted.pop(news.topic_id, None)
                self.apply(news)

    def apply(self, news: TopicNews) -> None:
        self._applied += 1
        known = self.topics.get(news.name)
        if news.is_deleted:
            self.deleted[news.topic_id] = self._applied
            if len(self.deleted) > DELETED_MAX:
                del self.deleted[next(iter(self.deleted))]
            if known and known.topic_id == news.topic_id:
                self._remove(news.name)
            return
        if news.topic:
            self._put_topic(news.topic, known)
            known = self.topics[news.name]
        if known and known.topic_id == news.topic_id:
            self._put_config(news)
            for number, state in news.states.items():
                if number < len(known.partitions):
                    self._put_state((news.name, number), state)

    def forget_state(self, key: Key) -> None:
        """Its node is gone."""
        if self.states.pop(key, None):
            self._keys.add(key)

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        return topic.topic_id if topic else b""

    def news_of(self, states: Mapping[Key, PartitionState]) -> list[TopicNews]:
        by_topic: dict[str, dict[int, PartitionState]] = {}
        for (name, number), state in states.items():
            by_topic.setdefault(name, {})[number] = state
        return [
            TopicNews(name, self.topic_id(name), states=each) for name, each in by_topic.items()
        ]

    def take_changes(self) -> Changes:
        """Since the last time."""
        changes = Changes(frozenset(self._keys), frozenset(self._names))
        self._keys.clear()
        self._names.clear()
        return changes

    def _put_topic(self, topic: ClusterTopic, known: ClusterTopic | None) -> None:
        name = topic.name
        if known and known.topic_id != topic.topic_id:
            self._remove(name)
            known = None
        self._put_at[name] = self._applied
        if known and known.version >= topic.version:
            return
        self.topics[name] = topic
        self._names.add(name)
        old = known.partitions if known else ()
        for number, replicas in enumerate(topic.partitions):
            if number >= len(old) or old[number] != replicas:
                self._keys.add((name, number))

    def _put_config(self, news: TopicNews) -> None:
        known = self.configs.get(news.name)
        if news.config and (known is None or known.version < news.config.version):
            self.configs[news.name] = news.config
            self._names.add(news.name)

    def _put_state(self, key: Key, state: PartitionState) -> None:
        known = self.states.get(key)
        if known is None or known.version < state.version:
            self.states[key] = state
            self._keys.add(key)

    def _remove(self, name: str) -> None:
        topic = self.topics.pop(name)
        self._put_at.pop(name, None)
        self.configs.pop(name, None)
        self._names.add(name)
        for number in range(len(topic.partitions)):
            self.states.pop((name, number), None)
            self._keys.add((name, number))




def merged(news: Iterable[TopicNews]) -> list[TopicNews]:
    """The newest of each topic, for one notice. What follows a deletion is another topic."""
    by_id: dict[tuple[str, bytes], TopicNews] = {}
    for each in news:
        old = by_id.get((each.name, each.topic_id), each)
        by_id[each.name, each.topic_id] = TopicNews(
            each.name, each.topic_id, each.topic or old.topic, each.config or old.config,
            {**old.states, **each.states}, each.is_deleted or old.is_deleted,
        )  # fmt: skip
    return [*by_id.values()]
