"""Brokers come, go, and come back: their lives and sessions in a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest
from kazoo.security import OPEN_ACL_UNSAFE

from appliance.cluster.forms import Key, LivingBroker
from appliance.cluster.reading import Reading
from appliance.cluster.table import TopicNews
from appliance.zookeeper.nodes import NodeIdTaken
from tests.support.clusters import LONG_MS, SESSION_MS, Clusters, die, expire, run, until
from tests.support.registration import Looker

pytestmark = pytest.mark.first


def test_brokers_know_of_each_other(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            assert [*one.brokers] == [*two.brokers] == [1, 2]
            assert str(one.brokers[2].listeners) == "PLAINTEXT://box2:9092"
            assert one.controller_id == two.controller_id == 1
            assert (one.status, one.troubles, one.away_since_ns) == ("connected", {}, 0)
            assert one.cluster_id == two.cluster_id == "cluster-of-1"
            assert json.loads(look.data("/brokers/ids/2") or "")["life"] == two.life == 1
            assert look.owner("/brokers/ids/2") == two._session.number
            assert one.has_session
            assert 0 < one.session_ends_ns - time.monotonic_ns() <= SESSION_MS * 1_000_000
            await two.close()
            await until(lambda: [*one.brokers] == [1])
            assert (two.life, two.has_session, two.session_ends_ns) == (0, False, 0)

    run(work())


def test_who_has_started_sees_itself(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late it is told: else it would refuse a topic for too few brokers."""
    brokers = Reading.brokers

    async def slowly(self: Reading, watch: Callable[[], None]) -> dict[int, LivingBroker]:
        await asyncio.sleep(0.3)
        return await brokers(self, watch)

    monkeypatch.setattr(Reading, "brokers", slowly)

    async def work() -> None:
        one = clusters.make(1)
        try:
            await one.start()
            assert [*one.brokers] == [1]
        finally:
            await one.close()

    run(work())


def test_a_killed_broker_comes_back_with_another_life(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, session_ms=LONG_MS) as (one, two):
            seen: list[list[str]] = []
            look.client.ChildrenWatch(f"{look.root}/brokers/ids", seen.append)
            await die(two)
            again = clusters.make(2)
            began = time.monotonic()
            await again.start()
            took_s = time.monotonic() - began
            assert took_s < LONG_MS / 2000, "it need not wait for the end of its session"
            await until(lambda: one.brokers[2].life == 2)
            assert again.life == 2
            assert len(seen) > 0
            assert all("2" in each for each in seen), "nobody misses it"

    run(work())


def test_a_new_session_is_another_life(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            session = two._session.number
            await expire(two)
            await until(lambda: two.life == 2)
            assert two._session.number != session
            await until(lambda: 2 in one.brokers and one.brokers[2].life == 2)
            assert clusters.ears[2].lives == 3, "begun, ended, begun"
            assert two.has_session
            two._session._heartbeats.stop()  # it would tell of an end of its own
            await asyncio.to_thread(two._session._heartbeats.join)
            number, ends_ns = two._session.ends
            two._session.ends = number + 1, ends_ns  # begun, and not yet a life
            assert (two.has_session, two.session_ends_ns) == (False, 0)

    run(work())


def test_a_removed_node_is_another_life(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            look.client.delete(f"{look.root}/brokers/ids/1")
            await until(lambda: one.life == 2)
            await one.renew()
            assert one.life == 3
            await until(lambda: one.brokers[1].life == 3)

    run(work())


def test_a_taken_id_is_told_and_nothing_is_touched(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1):
            other = clusters.make(2, session_ms=1000, connection_ms=2000)
            path = f"{look.root}/brokers/ids/2"
            look.client.create(path, b'{"host":"h","port":1}', OPEN_ACL_UNSAFE, ephemeral=True)
            with pytest.raises(NodeIdTaken, match="/brokers/ids/2 in ZooKeeper is taken by h:1"):
                await other.start()
            assert look.names("/brokers/lives") == ["1"]
            last = clusters.make(2)
            look.client.delete(path)
            await last.start()
            assert last.life == 1

    run(work())


def test_a_broker_goes_on_without_a_replica(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1], [1, 2], [2]])
            assert await two.settled("t", 20)
            await two.resign([("t", 0), ("t", 1), ("t", 2)])
            assert two.states["t", 1].isr == (1,)  # it reads no notice of its own
            await until(lambda: one.leads(("t", 0)))
            assert (one.states["t", 0].isr, one.states["t", 0].leader_epoch) == ((1,), 1)
            await until(lambda: one.states["t", 1].isr == (1,))
            assert one.states["t", 1].leader_epoch == 0, "its leader has it still"
            await until(lambda: one.states["t", 2].leader == -1)
            assert two.life == 1

    run(work())


def test_a_life_is_kept_before_it_is_raised(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        kept: list[tuple[int, int, int]] = []

        async def keep(former: int, life: int) -> None:
            stat = look.client.exists(f"{look.root}/brokers/lives/1")
            kept.append((former, life, stat.version if stat else -1))
            clusters.ears[1].lost = [("t", 0)] if life == 2 else []  # which it sees by it

        async with clusters.started(1, before_life=keep) as (one,):
            await one.create_topic("t", [[1], [1]])
            assert await one.settled("t", 20)
            await one.renew()
            assert one.life == 2
            assert kept == [(0, 1, 0), (1, 2, 1)]
            await until(lambda: one.leads(("t", 1)))
            await until(lambda: one.states["t", 0].leader == -1)

    run(work())


def test_what_is_lost_is_asked_when_it_is_known_what_there_should_be(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to read that."""
    topics = Reading.topics

    async def slowly(self: Reading) -> list[TopicNews]:
        await asyncio.sleep(0.5)
        return await topics(self)

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1, 2], [2, 1]])
            assert await two.settled("t", 20)
            await die(two)
            monkeypatch.setattr(Reading, "topics", slowly)
            again = clusters.make(2)
            everything = [("t", 0), ("t", 1)]  # its disk is empty
            ear = clusters.ears[2]
            monkeypatch.setattr(ear, "lost_replicas", lambda: [
                each for each in everything if each[0] in again.topics])  # fmt: skip
            await again.start()
            for each in everything:
                await until(lambda each=each: (  # type: ignore[misc]
                    one.leads(each) and one.states[each].isr == (1,)
                ))  # fmt: skip

    run(work())


def test_lost_replicas_are_resigned_before_the_life_begins(
    clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1, 2], [2, 1], [2]])
            assert await two.settled("t", 20)
            clusters.ears[2].lost = [("t", 0), ("t", 1), ("t", 2), ("none", 0)]
            await two.renew()
            key = ("t", 1)
            await until(lambda: one.leads(key))
            assert (one.states[key].isr, one.states[key].eligible) == ((1,), ())
            await until(lambda: one.states["t", 0].isr == (1,))
            await until(lambda: one.states["t", 2].leader == -1)
            assert one.states["t", 2].isr == (), "a person decides"
            clusters.ears[2].lost = []
            await two.renew()
            assert one.states["t", 2].leader == -1
            assert one.leads(key)

    run(work())


def test_what_is_lost_while_a_life_is_begun_is_resigned_before_the_next(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1]])
            assert await two.settled("t", 20)
            asked: list[int] = []

            def lost() -> list[Key]:
                """A directory comes back with less just after it was asked."""
                asked.append(two.life)
                if len(asked) == 1:
                    asyncio.get_running_loop().call_soon(two.begin_another_life)
                return [("t", 0)] if len(asked) > 1 else []

            monkeypatch.setattr(clusters.ears[2], "lost_replicas", lost)
            before = two.life
            await two.renew()
            assert (two.life, asked) == (before + 2, [0, 0])
            await until(lambda: one.leads(("t", 0)) and one.states["t", 0].isr == (1,))

    run(work())
