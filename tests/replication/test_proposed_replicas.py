"""Who was proposed for the ISR is waited for as long as ZooKeeper may have taken it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("in_sync", [(1,), (1, 2)], ids=["alone", "another one"])
def test_a_doubt_of_the_session_forgets_nobody_who_is_proposed(
    in_sync: tuple[int, ...], tmp_path: Path
) -> None:
    async def use(broker: Broker) -> None:
        roles, log = await leading(broker, cluster((1, 2, 3), in_sync))
        for each in (2, 3):
            log.fetched_by(each, LIFE, EPOCH, 0)
        assert roles.propose(KEY, {3}) == {3}
        log.append(batch("a"))
        log.flush()
        for is_paused in (True, False):
            roles.is_paused = is_paused
            roles.apply_all()
        log.fetched_by(2, LIFE, EPOCH, 1)
        assert [each.is_joining for each in log.replicas()] == [False, True]
        assert log.high_watermark == 0, "3 may be in the ISR, and lead next"
        log.fetched_by(3, LIFE, EPOCH, 1)
        assert log.high_watermark == 1

    live(tmp_path, use)


def test_of_whom_zookeeper_was_not_told_nobody_waits(tmp_path: Path) -> None:
    """But for those who were proposed before, and of whom it may know."""
    async def use(broker: Broker) -> None:
        roles, log = await leading(broker, cluster((1, 2, 3, 4), (1, 2)))
        for each in (2, 3, 4):
            log.fetched_by(each, LIFE, EPOCH, 0)
        roles.propose(KEY, {3})
        assert roles.propose(KEY, {3, 4}) == {4}
        roles.withdraw(KEY, {4})
        assert roles.proposed(KEY) == {3}
        log.append(batch("a"))
        log.flush()
        log.fetched_by(2, LIFE, EPOCH, 1)
        assert log.high_watermark == 0
        roles.withdraw(KEY, {3})
        assert (log.high_watermark, roles.proposed(KEY)) == (1, set())

    live(tmp_path, use)


def test_what_was_proposed_in_an_election_that_is_over_is_forgotten(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster((1, 2, 3), (1, 2))
        roles, log = await leading(broker, known)
        roles.propose(KEY, {3})
        known.states[KEY] = replace(known.states[KEY], leader_epoch=EPOCH + 1)
        roles.apply_all()
        assert (log.election, roles.proposed(KEY)) == (EPOCH + 1, set())
        assert not any(each.is_joining for each in log.replicas())

    live(tmp_path, use)
