"""Who is to be in the ISR, as a leader's log shows it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from appliance.broker.in_sync_replicas import InSyncReplicas
from appliance.cluster.forms import PartitionState
from tests.support.logs import batch, one_log

US, OTHER, THIRD = 1, 2, 3
LIFE, EPOCH, LAG_MAX_MS = 4, 5, 20
NOTHING: Any = None


def test_who_has_all_and_fetches_no_more_stays_out_once_it_left(tmp_path: Path) -> None:
    """Cut off, with all of a partition that nobody writes to: it must not come and go."""
    living = {each: SimpleNamespace(life=LIFE) for each in (US, OTHER, THIRD)}
    cluster: Any = SimpleNamespace(
        member=SimpleNamespace(node_id=US), brokers=living, leaving=frozenset()
    )
    in_sync = InSyncReplicas(cluster, NOTHING, NOTHING, LAG_MAX_MS)
    with one_log(tmp_path) as log:
        log.append(batch("a"))
        log.await_durable(0, 20)
        log.lead(EPOCH, US, [OTHER, THIRD], [THIRD], 2)
        for each in (OTHER, THIRD):
            log.fetched_by(each, LIFE, EPOCH, 1)
        state = PartitionState(US, LIFE, EPOCH, (US, THIRD))
        assert in_sync.wanted(log, state) == ({US, OTHER, THIRD}, {OTHER: LIFE})
        time.sleep(2 * LAG_MAX_MS / 1000)
        log.fetched_by(THIRD, LIFE, EPOCH, 1)
        assert in_sync.wanted(log, state) == ({US, THIRD}, {})
        log.fetched_by(OTHER, LIFE, EPOCH, 1)
        assert in_sync.wanted(log, state) == ({US, OTHER, THIRD}, {OTHER: LIFE})
