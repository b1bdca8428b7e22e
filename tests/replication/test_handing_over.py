"""A broker that stops, while its session with ZooKeeper is in doubt for a moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.broker import handing_over
from appliance.broker.broker import Broker
from appliance.broker.handing_over import hand_over, is_ready
from appliance.errors import NotLeader
from tests.support.led_partition import EPOCH, KEY, cluster, leading
from tests.support.logs import batch
from tests.support.several_dirs import live


def test_a_doubt_of_the_session_hands_over_nothing_that_followers_lack(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster()
        roles, log = await leading(broker, known)
        log.append(batch("acks=1"))
        roles.end_leading()
        assert roles.to_hand_over() == [(KEY, log)]
        assert not is_ready(log)
        roles.is_paused = True
        roles.apply_all()
        assert log.role != "leader"
        assert not is_ready(log)
        roles.is_paused = False
        roles.apply_all()
        assert log.role == "leader"
        assert not is_ready(log)
        with pytest.raises(NotLeader):
            log.append(batch("after the end"))
        log.fetched_by(2, 1, EPOCH, log.log_end_offset, 0)
        assert is_ready(log)

    live(tmp_path, use)


def test_what_another_one_leads_is_waited_for_no_more(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster()
        roles, log = await leading(broker, known)
        log.append(batch("acks=1"))
        roles.end_leading()
        known.leads = lambda key: False
        assert roles.to_hand_over() == []

    live(tmp_path, use)


def test_who_is_joining_is_waited_for_too(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster((1, 2, 3), (1, 2))
        roles, log = await leading(broker, known)
        for each in (2, 3):
            log.fetched_by(each, 1, EPOCH, 0)
        roles.propose(KEY, {3})
        log.append(batch("acks=1"))
        roles.end_leading()
        log.fetched_by(2, 1, EPOCH, 1)
        assert not is_ready(log)
        log.fetched_by(3, 1, EPOCH, 1)
        assert is_ready(log)

    live(tmp_path, use)


def test_who_stops_in_a_doubt_of_the_session_waits_until_it_goes_on(tmp_path: Path) -> None:
    """Nothing is led here then, and followers lack what acks=1 was told of."""
    async def use(broker: Broker) -> None:
        known = cluster()
        roles, log = await leading(broker, known)
        log.append(batch("acks=1"))
        known.brokers, known.has_session, had = {1, 2}, False, []
        roles.is_paused = True
        roles.apply_all()
        assert roles.led() == []

        async def leave(timeout_s: float) -> bool:
            had.append([each.end_offset for each in log.replicas()])
            known.leads = lambda key: False
            return True

        known.leave = leave
        stopping = asyncio.create_task(hand_over(known, roles))
        await asyncio.sleep(0.05)
        known.has_session, roles.is_paused = True, False
        roles.apply_all()
        await asyncio.sleep(0.05)
        assert (log.role, had) == ("leader", []), "the follower has nothing yet"
        log.fetched_by(2, 1, EPOCH, 1)
        await stopping
        assert had == [[1]]

    live(tmp_path, use)


def test_a_stop_does_not_wait_for_ever_for_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "HAND_OVER_S", 0.05)

    async def use(broker: Broker) -> None:
        known = cluster()
        roles, log = await leading(broker, known)
        log.append(batch("acks=1"))
        known.brokers, known.has_session = {1, 2}, False
        roles.is_paused = True
        roles.apply_all()
        await hand_over(known, roles)

    live(tmp_path, use)


def test_who_is_elected_while_it_stops_takes_nothing(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        known = cluster()
        known.leads = lambda key: False
        roles, log = await leading(broker, known)
        roles.end_leading()
        known.leads = lambda key: key == KEY
        known.states[KEY] = replace(known.states[KEY], leader_epoch=EPOCH + 1)
        roles.apply_all()
        assert (log.role, roles.to_hand_over()) == ("leader", [(KEY, log)])
        with pytest.raises(NotLeader):
            log.append(batch("after the end"))

    live(tmp_path, use)
