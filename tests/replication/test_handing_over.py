"""A broker that stops, while its session with ZooKeeper is in doubt for a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.broker.broker import Broker
from appliance.broker.handing_over import is_ready
from appliance.errors import NotLeader
from tests.support.led_partition import EPOCH, KEY, cluster, leading
from tests.support.logs import batch
from tests.support.several_dirs import live


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
        assert not is_ready(known, KEY, log)
        log.fetched_by(3, 1, EPOCH, 1)
        assert is_ready(known, KEY, log)

    live(tmp_path, use)
