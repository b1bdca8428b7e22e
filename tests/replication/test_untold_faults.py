"""A broker that cannot follow what was elected, or decide what it should, is not healthy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from appliance.broker import replica_roles
from appliance.broker.broker import Broker
from appliance.cluster import paths
from tests.support.clusters import until
from tests.support.embedded_cluster import DEADLINE_S, EmbeddedCluster, eventually
from tests.support.led_partition import EPOCH, KEY, leading
from tests.support.led_partition import cluster as said_of
from tests.support.logs import batch
from tests.support.rest import Rest
from tests.support.several_dirs import live

STATE = paths.state("t", 0)


def test_an_election_that_a_log_refuses_is_remembered_until_one_that_it_follows(
    tmp_path: Path,
) -> None:
    async def use(broker: Broker) -> None:
        known = said_of()
        roles, log = await leading(broker, known)
        log.append(batch("a"))
        for leader in (1, 2):  # to be led, and to be followed
            known.leads = lambda key, leader=leader: leader == 1
            state = replace(known.states[KEY], leader=leader)
            known.states[KEY] = replace(state, leader_epoch=EPOCH - 1)
            roles.apply_all()
            assert f"in epoch {EPOCH - 1}" in roles.refused[KEY]
            known.states[KEY] = replace(state, leader_epoch=EPOCH + leader)
            roles.apply_all()
            assert roles.refused == {}
            known.states[KEY] = state
        roles.apply_all()
        assert [*roles.refused] == [KEY]
        roles.remove_topic(KEY[0])
        assert roles.refused == {}

    live(tmp_path, use)


def test_an_election_that_a_log_refused_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells of it once more."""
    monkeypatch.setattr(replica_roles, "AGAIN_S", 0.01)

    async def use(broker: Broker) -> None:
        known = said_of()
        roles, log = await leading(broker, known)
        right = known.states[KEY]
        known.states[KEY] = replace(right, leader_epoch=EPOCH - 1)
        roles.apply_all()
        assert [*roles.refused] == [KEY]
        known.states[KEY] = replace(right, leader_epoch=EPOCH + 1)
        known.session_ends_ns = 0  # never
        watching = asyncio.create_task(roles.watch_session())
        await until(lambda: not roles.refused)
        watching.cancel()
        assert (log.role, log.election) == ("leader", EPOCH + 1)

    live(tmp_path, use)


def test_health_tells_of_a_zookeeper_that_came_back_from_an_older_snapshot(
    cluster: EmbeddedCluster,
) -> None:
    with looking(cluster) as client:
        cluster.create(1, "t")
        former, _ = client.get(STATE)
        for value in ("a", "b"):  # in an election each
            cluster.stop(1)
            cluster.start(1)
            assert cluster.produce(1, "t", [value]) == []
        newest, _ = client.get(STATE)
        cluster.stop(1)
        client.set(STATE, former)
        cluster.start(1)
        told = "t-0: its election cannot be followed: t-0: cannot be led in epoch 1;"
        eventually(lambda: any(each.startswith(told) for each in reasons(cluster)))
        (said,) = cluster_reasons(cluster)
        assert said.startswith(told)
        cluster.stop(1)
        client.set(STATE, newest)
        cluster.start(1)
        assert cluster.produce(1, "t", ["c"]) == []
        assert not any("election" in each for each in reasons(cluster))


def test_health_tells_of_a_controller_whose_rounds_fail(
    cluster: EmbeddedCluster,
) -> None:
    with looking(cluster) as client:
        may_read = make_acl("world", "anyone", read=True, admin=True)
        client.set_acls(paths.CHANGES, [may_read])
        admin = cluster.admin(1)  # held: it answers while it lives
        asked = admin.create_topics([NewTopic("t", 1, 1)])["t"]
        told = "the controller's work fails here again and again"
        eventually(lambda: any(each.startswith(told) for each in reasons(cluster)))
        client.set_acls(paths.CHANGES, OPEN_ACL_UNSAFE)
        asked.result(DEADLINE_S)
        eventually(lambda: not any(each.startswith(told) for each in reasons(cluster)))


@contextmanager
def looking(cluster: EmbeddedCluster) -> Iterator[KazooClient]:
    """Below its path, where anybody may write. One broker runs."""
    cluster.logs_in = False
    cluster.start(1)
    client = KazooClient(cluster.zookeeper, timeout=DEADLINE_S)
    client.start(DEADLINE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def reasons(cluster: EmbeddedCluster) -> list[str]:
    found: list[str] = Rest(cluster.running[1].admin).raw("GET", "/healthz").body["reasons"]
    return found


def cluster_reasons(cluster: EmbeddedCluster) -> list[str]:
    """What the broker tells who looks at the cluster as a whole."""
    rest = Rest(cluster.running[1].admin)
    eventually(lambda: rest.ask("GET", "/replicas").body["brokers"][0]["reasons"] != [])
    found: list[str] = rest.ask("GET", "/replicas").body["brokers"][0]["reasons"]
    return found
