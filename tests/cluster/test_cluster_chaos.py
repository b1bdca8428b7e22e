"""Brokers die, lose their sessions, stop and come back, topics come and go, leaders shrink and grow
their ISR, all at random. At each look what is in ZooKeeper must be possible, and at the end
everybody knows the same and everything is led."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from appliance.cluster.cluster import Cluster, TopicDefaults
from appliance.cluster.forms import NOBODY, Key, PartitionState
from appliance.cluster.session import AWAY
from appliance.errors import ApplianceError
from tests.support.clusters import Clusters, die, expire, run
from tests.support.registration import Looker
from tests.support.zookeeper import DEADLINE_S

pytestmark = pytest.mark.first
NODES = (1, 2, 3)
NAMES = ("a", "b", "c")
MIN_INSYNC = 2
STEPS_MIN = 25  # however slow the machine is
DEFAULTS = TopicDefaults(MIN_INSYNC)


class Chaos:
    def __init__(self, clusters: Clusters, seed: int) -> None:
        self.clusters, self.random = clusters, random.Random(seed)
        self.alive: dict[int, Cluster] = {}
        self.seen: dict[tuple[bytes, Key, int], tuple[int, int]] = {}  # leader and life by epoch
        kinds = ("die", "expire", "leave", "renew", "resign", "isr", "topic", "move")
        self.done = dict.fromkeys(kinds, 0)

    async def go(self, seconds: float) -> None:
        for each in NODES:
            await self.start(each)
        end = time.monotonic() + seconds
        while time.monotonic() < end or sum(self.done.values()) < STEPS_MIN:
            await self.step()
            self.look()
        await self.heal()

    async def start(self, node_id: int) -> None:
        self.alive[node_id] = self.clusters.make(node_id, session_ms=1000, defaults=DEFAULTS)
        await self.alive[node_id].start()

    async def step(self) -> None:
        kinds = [*self.done]
        kind = self.random.choices(kinds, [2, 2, 1, 2, 1, 30, 4, 3])[0]
        dead = [each for each in NODES if each not in self.alive]
        if dead and self.random.random() < 0.3:
            await self.start(dead[0])
        elif kind in ("isr", "topic", "move") or len(self.alive) > 1:
            broker = self.alive[self.random.choice([*self.alive])]
            try:
                await asyncio.wait_for(getattr(self, kind)(broker), 20)
                self.done[kind] += 1
            except ApplianceError:
                pass  # refused: there, gone, or away

    async def die(self, broker: Cluster) -> None:
        del self.alive[broker.member.node_id]
        await die(broker)

    async def leave(self, broker: Cluster) -> None:
        await broker.leave(2)
        del self.alive[broker.member.node_id]
        await broker.close()

    async def expire(self, broker: Cluster) -> None:
        if broker.life:
            await expire(broker)

    async def renew(self, broker: Cluster) -> None:
        ear = self.clusters.ears[broker.member.node_id]
        known = sorted(broker.states)
        ear.lost = self.random.sample(known, min(len(known), self.random.choice((0, 0, 1))))
        await broker.renew()
        ear.lost = []

    async def resign(self, broker: Cluster) -> None:
        await broker.resign(self.random.sample(sorted(broker.states), min(len(broker.states), 1)))

    async def topic(self, broker: Cluster) -> None:
        name = self.random.choice(NAMES)
        if name in broker.topics and self.random.random() < 0.3:
            await broker.delete_topic(name)
        elif name in broker.topics:
            replicas = self.random.sample(NODES, 2)
            await broker.add_partitions(name, lambda topic: [replicas])
        else:
            await broker.create_topic(name, [self.random.sample(NODES, 3) for _ in range(3)])

    async def move(self, broker: Cluster) -> None:
        name = self.random.choice(NAMES)
        if name in broker.topics:
            wanted = self.random.choice((None, self.random.sample(NODES, 2)))
            await broker.reassign(name, {0: wanted})

    async def isr(self, broker: Cluster) -> None:
        led = sorted(filter(broker.leads, broker.states))
        if led:
            key = self.random.choice(led)
            state, replicas = broker.states[key], broker.topics[key[0]].partitions[key[1]]
            others = [each for each in replicas if each != broker.member.node_id]
            isr = {broker.member.node_id, *self.random.sample(others, self.random.randint(0, 2) % (
                len(others) + 1))}  # fmt: skip
            lives = {each: broker.brokers[each].life for each in isr - {*state.isr}
                     if each in broker.brokers}  # fmt: skip
            await broker.write_isr(key, state.version, isr & {*state.isr, *lives}, lives)

    def look(self) -> None:
        for broker in self.alive.values():
            for key, state in broker.states.items():
                topic = broker.topics[key[0]]
                self.check(topic.topic_id, key, state)

    def check(self, topic_id: bytes, key: Key, state: PartitionState) -> None:
        leads = state.leader, state.leader_life
        assert self.seen.setdefault((topic_id, key, state.leader_epoch), leads) == leads
        assert not {*state.isr} & {*state.eligible}, state
        assert not state.eligible or len(state.isr) < MIN_INSYNC, state

    async def heal(self) -> None:
        for each in NODES:
            if each not in self.alive:
                await self.start(each)
        brokers = [*self.alive.values()]
        end = time.monotonic() + DEADLINE_S
        while not await self.is_settled(brokers):
            assert time.monotonic() < end
            await asyncio.sleep(0.1)

    async def is_settled(self, brokers: list[Cluster]) -> bool:
        """Everybody knows what is in ZooKeeper, and it is as it should be."""
        one = brokers[0]
        try:
            found = await one._view.reading.topics()
        except AWAY:  # its session was the last that had to end
            return False
        topics = {news.name: news.topic for news in found}
        states = {(news.name, number): state for news in found
                  for number, state in news.states.items()}  # fmt: skip
        is_known = all((each.topics, each.states) == (topics, states) for each in brokers)
        lives = {each.member.node_id: each.life for each in brokers}
        are_living = all(lives == each._view.lives for each in brokers)
        return is_known and are_living and all(self.is_right(one, key) for key in states)

    def is_right(self, broker: Cluster, key: Key) -> bool:
        """Led in a life of now, or by nobody because whoever had all has lost it."""
        state, replicas = broker.states[key], broker.topics[key[0]].partitions[key[1]]
        if state.leader == NOBODY:
            return not {*replicas} & {*state.isr, *state.eligible}
        return broker.brokers[state.leader].life == state.leader_life


def chaos(clusters: Clusters, seed: int, seconds: float) -> dict[str, int]:
    made = Chaos(clusters, seed)

    async def work() -> None:
        try:
            await made.go(seconds)
        finally:
            await asyncio.gather(*(each.close() for each in clusters.made))

    run(work(), seconds + 60)
    return made.done


def test_a_cluster_at_random(clusters: Clusters, look: Looker) -> None:
    done = chaos(clusters, 1, 4)
    assert sum(done.values()) >= STEPS_MIN


@pytest.mark.release("the gate has one seed, and a short time")
@pytest.mark.parametrize("seed", range(2, 8))
def test_a_cluster_at_random_for_longer(seed: int, clusters: Clusters, look: Looker) -> None:
    done = chaos(clusters, seed, 20)
    assert all(done.values()), done
