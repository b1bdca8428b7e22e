"""Which partitions are fetched from whom, while brokers come, go and move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.broker.inter_broker_security import InterBrokerSecurity
from appliance.broker.replica_fetchers import ReplicaFetchers
from appliance.cluster.forms import LivingBroker
from appliance.config import BrokerConfig
from appliance.config.listeners import Listeners, Protocols
from tests.support.logs import batch, until
from tests.support.replica_site import REPLICATION, ReplicaNode
from tests.support.wire_client import TOPIC_ID

FOLLOWED = 4
PROTOCOLS = Protocols((("PLAINTEXT", "PLAINTEXT"),))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ReplicaNode, ReplicaNode, ReplicaFetchers]]:
    """1 leads, and 2 has heard of that, but not where it is."""
    with ExitStack() as stack:
        leader, follower = (ReplicaNode(tmp_path / f"{each}", each, FOLLOWED) for each in (1, 2))
        security = InterBrokerSecurity(BrokerConfig(data_dir=tmp_path))
        fetchers = ReplicaFetchers(2, REPLICATION, security)
        for each in (leader.stop, follower.stop, fetchers.close):
            stack.callback(each)
        leader.lead(1, [2])
        for number, log in enumerate(follower.logs):
            log.follow(1, 1)
            fetchers.follow(("t", number), TOPIC_ID.bytes, log, 1)
        yield leader, follower, fetchers


def broker(port: int) -> LivingBroker:
    return LivingBroker(1, 1, Listeners.parse(f"PLAINTEXT://127.0.0.1:{port}"), PROTOCOLS)


def fetched_up_to(logs: list[Log]) -> list[int]:
    return [each.replicas()[0].end_offset for each in logs]


def test_all_partitions_are_fetched_from_a_leader_that_registers_later(
    pair: tuple[ReplicaNode, ReplicaNode, ReplicaFetchers],
) -> None:
    leader, _, fetchers = pair
    for log in leader.logs:
        log.append(batch("a"))
    fetchers.brokers_are({1: broker(leader.address[1])})
    until(lambda: fetched_up_to(leader.logs) == [1] * FOLLOWED)
