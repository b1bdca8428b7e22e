"""Who was proposed for the ISR is waited for as long as ZooKeeper may have taken it."""

from __future__ import annotations

from pathlib import Path

from appliance.broker.broker import Broker
from tests.support.led_partition import EPOCH, KEY, cluster, leading
from tests.support.logs import batch
from tests.support.several_dirs import live

LIFE = 1


def test_another_proposal_forgets_nobody_whose_outcome_is_not_known(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        roles, log = await leading(broker, cluster((1, 2, 3, 4), (1, 2)))
        for each in (2, 3, 4):
            log.fetched_by(each, LIFE, EPOCH, 0)
        roles.propose(KEY, {3})
        roles.propose(KEY, {4})  # what became of the former one nobody knows
        log.append(batch("a"))
        log.flush()
        for each in (2, 4):
            log.fetched_by(each, LIFE, EPOCH, 1)
        assert log.high_watermark == 0, "3 may be in the ISR"
        roles.settle(KEY)
        roles.apply([KEY])
        assert log.high_watermark == 1

    live(tmp_path, use)
