"""A broker that comes back without a partition's files counts no more by what it had, however soon
it makes the log anew."""

from __future__ import annotations

import asyncio
import contextlib
import shutil

import pytest
from confluent_kafka.admin import NewTopic

from appliance.cluster.lives import Lives
from tests.support.embedded_cluster import (
    DEADLINE_S,
    EmbeddedCluster,
    eventually,
)

TOPIC = "t"


@pytest.fixture
def two(cluster: EmbeddedCluster) -> EmbeddedCluster:
    """With two records, and two in sync are wanted: so who stops first stays eligible, and broker
    1, which stops last, is in the ISR when it comes back."""
    cluster.start(1)
    cluster.start(2)
    cluster.until_known()
    wanted = NewTopic(TOPIC, 1, 2, config={"min.insync.replicas": "2"})
    admin = cluster.admin(1)
    admin.create_topics([wanted])[TOPIC].result(DEADLINE_S)
    assert cluster.produce(1, TOPIC, ["a", "b"]) == []
    cluster.stop(2)
    isr_of(cluster, 1, {1})
    cluster.stop(1)
    return cluster


def isr_of(cluster: EmbeddedCluster, node: int, wanted: set[int]) -> None:
    eventually(lambda: partition(cluster, node)[1] == wanted)


def partition(cluster: EmbeddedCluster, node: int) -> tuple[int, set[int]]:
    """Its leader and ISR."""
    admin = cluster.admin(node)
    found = admin.list_topics(TOPIC, 10).topics[TOPIC].partitions
    return (found[0].leader, set(found[0].isrs)) if found else (-1, set())


def files(cluster: EmbeddedCluster, node: int) -> bytes:
    """Nothing while they are replaced."""
    with contextlib.suppress(FileNotFoundError):
        found = sorted((cluster.folder / str(node)).glob(f"{TOPIC}-0/*.log"))
        return b"".join(each.read_bytes().rstrip(b"\0") for each in found)
    return b""


def returns_with_all(cluster: EmbeddedCluster) -> None:
    """Broker 1 does not lead while it is alone, and has everything when the other one is back."""
    eventually(lambda: partition(cluster, 1) == (-1, set()))
    cluster.start(2)
    isr_of(cluster, 1, {1, 2})
    assert cluster.values(1, TOPIC, 2) == ["a", "b"]
    eventually(lambda: files(cluster, 1) == files(cluster, 2) != b"")


def test_what_was_made_anew_before_the_life_began_is_lost(
    two: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an empty disk, while ZooKeeper is slow: the log is there when it is looked for."""
    shutil.rmtree(two.folder / "1")
    begin = Lives._raise

    async def late(lives: Lives) -> int:
        life = await begin(lives)
        await asyncio.to_thread(eventually, lambda: [*two.folder.glob(f"1/{TOPIC}-0/*.log")])
        await asyncio.sleep(0.5)  # it is told of
        return life

    monkeypatch.setattr(Lives, "_raise", late)
    two.start(1, zookeeper_connection_timeout_ms="1000")
    monkeypatch.setattr(Lives, "_raise", begin)
    returns_with_all(two)


def test_a_partition_whose_directory_is_gone_is_lost(two: EmbeddedCluster) -> None:
    """The start makes it anew, behind what it held."""
    (gone,) = (two.folder / "1").glob(f"**/{TOPIC}-0")
    shutil.rmtree(gone)
    two.start(1)
    returns_with_all(two)
