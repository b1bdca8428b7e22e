"""Several brokers of one cluster in this process, without their logs: each a `Cluster` with a
session of its own in a real ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from appliance.cluster.cluster import Cluster
from appliance.cluster.forms import Key
from appliance.cluster.lives import Member
from appliance.config.addresses import Address, Ensemble
from appliance.config.listeners import Listeners, Protocols
from appliance.config.zookeeper import ZooKeeperConfig
from tests.support.zookeeper import DEADLINE_S

# With ticks of half a second ZooKeeper allows one to ten. A busy machine ends none by itself.
SESSION_MS = 4000
LONG_MS = 10_000  # who waits for the end of such a session is seen, however busy the machine


class Ear:
    """What the broker is told."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.names: list[str] = []
        self.lives = 0
        self.lost: list[Key] = []

    def on_change(self, keys: Collection[Key]) -> None:
        self.keys += keys

    def on_topics(self, names: Collection[str]) -> None:
        self.names += names

    def on_brokers(self) -> None:
        pass

    def on_session(self) -> None:
        self.lives += 1

    def lost_replicas(self) -> Collection[Key]:
        return self.lost


class Clusters:
    def __init__(self, address: Address, root: str, folder: Path) -> None:
        self.ensemble, self.folder = Ensemble((address,), root), folder
        self.ears: dict[int, Ear] = {}
        self.made: list[Cluster] = []

    def member(self, node_id: int, rack: str = "") -> Member:
        data_dir = self.folder / str(node_id)
        data_dir.mkdir(exist_ok=True)
        listeners = Listeners.parse(f"PLAINTEXT://box{node_id}:9092")
        return Member(node_id, f"cluster-of-{node_id}", listeners, Protocols(), rack, data_dir)

    def make(
        self, node_id: int, session_ms: int = SESSION_MS, connection_ms: int = 10_000, **more: Any
    ) -> Cluster:
        """Not yet started."""
        config = ZooKeeperConfig(
            ensemble=self.ensemble, session_timeout_ms=session_ms,
            connection_timeout_ms=connection_ms,
        )
        ear = self.ears[node_id] = Ear()
        self.made.append(Cluster(config, self.member(node_id), ear, **more))
        return self.made[-1]

    @contextlib.asynccontextmanager
    async def started(self, *node_ids: int, **more: Any) -> AsyncIterator[list[Cluster]]:
        """In this order: the first is the controller. All that were made are closed at the end."""
        made: list[Cluster] = []
        try:
            for each in node_ids:
                cluster = self.make(each, **more)
                made.append(cluster)
                await cluster.start()
                if len(made) == 1:
                    await until(lambda: made[0].is_controller)
            await until(lambda: all(len(each.brokers) >= len(made) for each in made))
            yield made
        finally:
            await asyncio.gather(*(each.close() for each in self.made))


async def until(condition: Callable[[], bool]) -> None:
    end = asyncio.get_running_loop().time() + DEADLINE_S
    while not _holds(condition, asyncio.get_running_loop().time() < end):
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.01)


def _holds(condition: Callable[[], bool], may_wait: bool) -> bool:
    """Not yet, too, if a broker has not heard of a topic, a partition or another broker."""
    try:
        return condition()
    except KeyError:
        if not may_wait:
            raise
        return False


async def die(cluster: Cluster) -> None:
    """As by kill -9: the connection is cut, and the session runs out."""
    for task in cluster._tasks:
        task.cancel()
    await asyncio.gather(*cluster._tasks, return_exceptions=True)
    cluster._tasks.clear()
    cluster._membership.end()
    session = cluster._session
    session._is_closed = True
    session._heartbeats.stop()
    client = session.client
    client._stopped.set()  # its loop ends when the connection does, and says nothing to ZooKeeper
    with contextlib.suppress(OSError):  # there may be none just now
        client._connection._socket.shutdown(socket.SHUT_RDWR)
    await asyncio.to_thread(client._safe_close)
    client.close()
    await asyncio.to_thread(session._heartbeats.join)


async def expire(cluster: Cluster) -> None:
    """As if ZooKeeper had not heard of it in time: somebody else ends its session."""
    client = cluster._session.client
    servers = ",".join(map(str, cluster._config.ensemble.servers))
    other = KazooClient(servers, client_id=client.client_id, timeout=SESSION_MS / 1000)

    def end() -> None:
        other.start(DEADLINE_S)
        other.stop()
        other.close()

    await asyncio.to_thread(end)


async def without_controller(cluster: Cluster) -> None:
    """It goes on in all else, and decides nothing any more."""
    task = next(each for each in cluster._tasks if "Controller" in repr(each.get_coro()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def run(work: Coroutine[Any, Any, None], timeout_s: float = 60) -> None:
    asyncio.run(asyncio.wait_for(work, timeout_s))
