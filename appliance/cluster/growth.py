"""More replicas for topics that left their number to the brokers when fewer lived than that: the
node of such a topic says how many it still wants, until somebody orders fewer. The brokers' own
topics are made for the first client, which often comes while others still start.

A replica is only ever added, and only where a partition has fewer than there are brokers alive: so
nothing is moved because a broker restarts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from appliance.cluster import paths, plans, reassignment
from appliance.cluster.forms import NOBODY, ClusterTopic, Key, PartitionState, topic_node
from appliance.cluster.plans import Move, Placed
from appliance.cluster.table import TopicNews
from appliance.cluster.term import Term
from appliance.cluster.topic_writes import TOPIC_BYTES_MAX
from appliance.cluster.view import View
from appliance.process import event_log

log = event_log.named("cluster")
TRIES = 20  # each has met a write of somebody else


def planned(
    topics: Mapping[str, ClusterTopic],
    states: Mapping[Key, PartitionState],
    racks: Mapping[int, str],
) -> list[Move]:
    """`racks`: of the brokers that may have more. Where nobody leads, nobody could give records;
    what is being moved waits until it has arrived."""
    few: dict[int, list[Placed]] = {}
    for topic in topics.values():
        factor = min(topic.wanted_factor, len(racks))
        if min(map(len, topic.partitions), default=factor) >= factor:
            continue  # nearly always
        for each in placed(topic):
            state = states.get(each.key)
            is_led = state is not None and state.leader != NOBODY
            is_moving = reassignment.is_under_way(topic, each.partition)
            if len(each.replicas) < factor and is_led and not is_moving:
                few.setdefault(factor, []).append(each)
    return [move for factor, some in sorted(few.items())
            for move in _up_to(factor, some, topics, racks)]  # fmt: skip


def _up_to(
    factor: int,
    few: Sequence[Placed],
    topics: Mapping[str, ClusterTopic],
    racks: Mapping[int, str],
) -> list[Move]:
    keys = {each.key for each in few}
    everything = (each for topic in topics.values() for each in placed(topic))
    others = [each for each in everything if each.key not in keys]
    return plans.up_to(factor, few, racks, others).moves


def placed(topic: ClusterTopic) -> list[Placed]:
    return [Placed(topic.name, number, each) for number, each in enumerate(topic.partitions)]


class Growth:
    """`untold` collects what is to be in the round's notice."""

    def __init__(self, view: View, untold: list[TopicNews]) -> None:
        self._view, self._untold = view, untold
        self._too_large: set[str] = set()  # for a node with more replicas

    async def begin(self, term: Term, but: Collection[str]) -> None:
        """`but`: topics that are being deleted."""
        for _ in range(TRIES):
            topics = {name: topic for name, topic in self._view.table.topics.items()
                      if name not in but and name not in self._too_large}  # fmt: skip
            moves: dict[str, list[Move]] = {}
            for each in planned(topics, self._view.table.states, self._racks()):
                moves.setdefault(each.of.topic, []).append(each)
            if not moves:
                return
            for name, some in moves.items():
                await self._write(term, topics[name], some)

    def _racks(self) -> dict[int, str]:
        leaving = self._view.leaving_now
        return {each.node_id: each.rack for each in self._view.brokers.values()
                if each.life and each.node_id not in leaving}  # fmt: skip

    async def _write(self, term: Term, topic: ClusterTopic, moves: Sequence[Move]) -> None:
        after = replace(topic, version=topic.version + 1)
        for each in moves:
            after = reassignment.begun(after, each.of.partition, each.replicas)
        data = topic_node(after)
        if len(data) > TOPIC_BYTES_MAX:
            self._too_large.add(topic.name)
            log.warning("no more replicas: they have no room in ZooKeeper", topic=topic.name)
            return
        change = term.change().check(paths.topic_id(topic.topic_id))
        news: TopicNews | None = TopicNews(topic.name, topic.topic_id, after)
        if await term.commit(change.set(paths.topic(topic.name), data, topic.version)):
            log.info("more replicas, as more brokers live", topic=topic.name,
                     partitions=len(moves), wanted=topic.wanted_factor)  # fmt: skip
        else:
            news = await self._view.reading.topic(topic.name)
        if news:
            self._view.table.apply(news)
            self._untold.append(news)
