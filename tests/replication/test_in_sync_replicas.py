"""Who is to be in the ISR, as a leader's log shows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from appliance._log import Log
from appliance.broker.in_sync_replicas import InSyncReplicas
from appliance.cluster.forms import PartitionState
from appliance.data_dir.partition_names import Key
from tests.support.logs import batch, one_log

US, OTHER, THIRD = 1, 2, 3
LIFE, EPOCH, LAG_MAX_MS = 4, 5, 20
NOTHING: Any = None
KEY = ("t", 0)


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


class Roles:
    """A fake of the roles: one log that is led, and the ISR of a state."""

    def __init__(self, log: Log) -> None:
        self.log, self.is_paused = log, False

    def led(self) -> list[tuple[Key, Log]]:
        return [(KEY, self.log)]

    def propose(self, key: Key, joining: set[int]) -> None:
        self.log.set_in_sync(EPOCH, [THIRD], sorted(joining), 2)

    def settle(self, key: Key) -> None:
        self.log.set_in_sync(EPOCH, [THIRD], [], 2)

    def apply(self, keys: list[Key]) -> None:
        pass


def test_who_lacks_what_counts_by_now_is_not_written_into_the_isr(tmp_path: Path) -> None:
    """Between the look and the proposal a record counts, without who is to join: who was elected
    then would not have it."""
    written: list[list[int]] = []
    state = PartitionState(US, LIFE, EPOCH, (US, THIRD))

    async def write_isr(key: Key, version: int, isr: list[int], *more: Any) -> Any:
        written.append(isr)
        return SimpleNamespace(is_written=False, state=state)

    cluster: Any = SimpleNamespace(
        member=SimpleNamespace(node_id=US), leaving=frozenset(), states={KEY: state},
        brokers={each: SimpleNamespace(life=LIFE) for each in (US, OTHER, THIRD)},
        leads=lambda key: True, least_in_sync=lambda *key: 2, write_isr=write_isr,
    )  # fmt: skip
    with one_log(tmp_path) as log:
        log.lead(EPOCH, US, [OTHER, THIRD], [THIRD], 2)
        in_sync = InSyncReplicas(cluster, NOTHING, cast(Any, Roles(log)), 60_000)

        async def look(then: Callable[[], object]) -> None:
            in_sync._look()
            then()
            await asyncio.gather(*in_sync._writes.values())

        def count_one() -> None:
            log.append(batch("a"))
            log.flush()
            log.fetched_by(THIRD, LIFE, EPOCH, 1)

        for each in (OTHER, THIRD):
            log.fetched_by(each, LIFE, EPOCH, 0)
        asyncio.run(look(count_one))
        assert (log.high_watermark, written) == (1, [])
        asyncio.run(look(lambda: log.fetched_by(OTHER, LIFE, EPOCH, 1)))
        assert written == [], "it had not caught up at the look"
        asyncio.run(look(lambda: None))
        assert written == [[US, OTHER, THIRD]]
