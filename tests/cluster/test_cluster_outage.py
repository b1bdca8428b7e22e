"""ZooKeeper is stopped beneath its brokers, and started again."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from appliance.cluster.cluster import ClusterClosed
from appliance.cluster.forms import NOBODY
from appliance.errors import Refused
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.clusters import Clusters, run, until
from tests.support.registration import Looker
from tests.support.zookeeper import zookeeper_in

pytestmark = pytest.mark.first
KEY = ("t", 0)
SESSION_MS = 5000  # much longer than it takes to hear that ZooKeeper is away


async def back(server: ZooKeeperServer) -> None:
    server.start()
    await asyncio.to_thread(server.wait_until_serving)


def test_the_last_view_stays_while_zookeeper_is_away(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, session_ms=SESSION_MS) as (one, two):
            await one.create_topic("t", [[1, 2]])
            assert await two.settled("t", 20)
            state, life = two.states[KEY], one.life
            try:
                await asyncio.to_thread(look.server.kill)
                writing = asyncio.create_task(one.write_isr(KEY, 0, [1]))
                await until(lambda: bool(one.away_since_ns))
                left_ns = one.session_ends_ns - time.monotonic_ns()
                assert 0 < left_ns < SESSION_MS * 1_000_000
                assert one.has_session, "it may have been for a moment only"
                assert re.fullmatch(r"away for \d s", one.status)
                await until(lambda: not one.has_session and not two.has_session)
                assert (two.states[KEY], [*two.brokers], two.controller_id) == (state, [1, 2], 1)
                with pytest.raises(Refused, match="ZooKeeper is away for"):
                    await two.create_topic("u", [[1]])
                assert not writing.done(), "its outcome is not known"
            finally:
                await back(look.server)
            await until(lambda: two.has_session and one.has_session)
            outcome = await writing
            assert outcome.state is not None
            await until(lambda: one.states[KEY] == two.states[KEY])
            if one.life == life:
                assert one.leads(KEY), "its session was still there"
            await two.create_topic("u", [[1]])
            assert await one.settled("u", 20)

    run(work())


def test_a_start_without_zookeeper_goes_on_trying(tmp_path: Path) -> None:
    async def work() -> None:
        with zookeeper_in(tmp_path / "zookeeper") as server:
            clusters = Clusters(server.address, "/x", tmp_path)
            one = clusters.make(1, connection_ms=100)
            await one.start()
            try:
                assert (one.life, one.has_session, one.topics) == (0, False, {})
                assert one.status.startswith("away for")
                assert await one.elect([KEY], timeout_s=0.1) == {KEY: 41}
                await back(server)
                await until(lambda: one.has_session and one.is_controller)
                await asyncio.to_thread(server.kill)
                writing = asyncio.create_task(one.write_isr(KEY, 0, [1]))
                await until(lambda: not one.has_session)
            finally:
                await one.close()
            with pytest.raises(ClusterClosed):
                await writing

    run(work())


@pytest.mark.release("the gate has one outage; this one loses every session")
def test_all_sessions_end_while_zookeeper_stands_still(clusters: Clusters, look: Looker) -> None:
    """Everybody registers again, and what was led is elected anew, once."""

    async def work() -> None:
        async with clusters.started(1, 2, 3) as brokers:
            one = brokers[0]
            await one.create_topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
            for each in brokers:
                assert await each.settled("t", 20)
            await asyncio.to_thread(look.server.kill)
            await until(lambda: not any(each.has_session for each in brokers))
            for each in brokers:  # they lose their sessions, too
                each._session.client._session_id = None
            await back(look.server)
            await until(lambda: [each.life for each in brokers] == [2, 2, 2])
            await until(lambda: all(
                state.leader != NOBODY and state.leader_life == 2 for state in one.states.values()
            ))  # fmt: skip
            await until(lambda: one.states == brokers[1].states == brokers[2].states)
            assert all(state.leader_epoch <= 3 for state in one.states.values())

    run(work())
