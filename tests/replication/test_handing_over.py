"""A broker that stops, while its session with ZooKeeper is in doubt for a moment."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.broker.handing_over import is_ready
from appliance.broker.inter_broker_security import InterBrokerSecurity
from appliance.broker.replica_fetchers import ReplicaFetchers
from appliance.broker.replica_roles import ReplicaRoles
from appliance.cluster.forms import ClusterTopic, PartitionState
from appliance.errors import NotLeader
from appliance.topics.replicated_topics import ReplicatedTopics, Wanted
from tests.support.logs import batch
from tests.support.several_dirs import live

ID, KEY, LIFE, EPOCH = uuid.UUID(int=7), ("t", 0), 4, 5
REPLICAS = (1, 2)


def cluster() -> Any:
    """What it says of a partition that broker 1 leads, with broker 2 in sync."""
    return SimpleNamespace(
        member=SimpleNamespace(node_id=1),
        topics={"t": ClusterTopic("t", ID.bytes, (REPLICAS,))},
        states={KEY: PartitionState(1, LIFE, EPOCH, REPLICAS)},
        leads=lambda key: key == KEY,
        least_in_sync=lambda topic, number: 1,
    )


async def leading(broker: Broker, known: Any) -> tuple[ReplicaRoles, Log]:
    shown = ReplicatedTopics(broker.topics, broker.change, lambda name: None)
    await shown.agree(lambda: Wanted("t", ID, 1, frozenset([0]), {}, {}))
    fetchers = ReplicaFetchers(1, broker.config.replication, InterBrokerSecurity(broker.config))
    roles = ReplicaRoles(broker.topics, fetchers, {})
    roles.cluster = known
    roles.apply_all()
    return roles, broker.topics["t"].log(0)


def test_a_doubt_of_the_session_hands_over_nothing_that_followers_lack(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster()
        roles, log = await leading(broker, known)
        log.append(batch("acks=1"))
        assert not is_ready(known, KEY, roles.end_leading()[KEY])
        roles.is_paused = True
        roles.apply_all()
        assert log.role != "leader"
        assert not is_ready(known, KEY, log)
        roles.is_paused = False
        roles.apply_all()
        assert log.role == "leader"
        assert not is_ready(known, KEY, log)
        with pytest.raises(NotLeader):
            log.append(batch("after the end"))
        log.fetched_by(2, 1, EPOCH, log.log_end_offset, 0)
        assert is_ready(known, KEY, log)

    live(tmp_path, use)


def test_what_another_one_leads_is_waited_for_no_more(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster()
        roles, log = await leading(broker, known)
        log.append(batch("acks=1"))
        roles.end_leading()
        known.leads = lambda key: False
        assert is_ready(known, KEY, log)

    live(tmp_path, use)
