"""Who may come into the ISR, by what its fetches say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.broker.in_sync_replicas import InSyncReplicas
from appliance.cluster.forms import PartitionState
from tests.support.logs import batch
from tests.support.replica_site import ReplicaNode, on_disk

LEADER, FOLLOWER, LIFE, EPOCH = 1, 2, 7, 3


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[ReplicaNode]:
    """Alone in its ISR, with five records from 0 on."""
    made = ReplicaNode(tmp_path, LEADER)
    made.lead(EPOCH, [FOLLOWER], [])
    on_disk(made.log, batch(*"abcde"))
    yield made
    made.stop()


def joins(leader: ReplicaNode, state: PartitionState) -> bool:
    seen = SimpleNamespace(
        member=SimpleNamespace(node_id=LEADER), leaving=set(),
        brokers={FOLLOWER: SimpleNamespace(life=LIFE)},
    )  # fmt: skip
    roles = SimpleNamespace(is_ending=False)
    replicas = InSyncReplicas(cast(Any, seen), cast(Any, None), cast(Any, roles), 60_000)
    isr, joining = replicas.wanted(leader.log, state)
    assert (FOLLOWER in isr) == (joining == {FOLLOWER: LIFE})
    return FOLLOWER in isr


def test_an_empty_replica_behind_the_leaders_records_does_not_after_an_unclean_election(
    leader: ReplicaNode,
) -> None:
    state = PartitionState(LEADER, LIFE, EPOCH, (LEADER,))
    leader.log.fetched_by(FOLLOWER, LIFE, EPOCH, 5, 5)
    assert joins(leader, state)  # what is before was deleted
    assert not joins(leader, replace(state, unclean=EPOCH))
    leader.log.fetched_by(FOLLOWER, LIFE, EPOCH, 0, 0)
    assert not joins(leader, replace(state, unclean=EPOCH))
    leader.log.fetched_by(FOLLOWER, LIFE, EPOCH, 5, 0)
    assert joins(leader, replace(state, unclean=EPOCH))
