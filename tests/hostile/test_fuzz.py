"""Some seconds of `python -m tests.hostile.fuzz`, which runs for half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.testing import running_broker
from tests.hostile.conftest import GROWTH_MAX, MIB
from tests.hostile.fuzz import SCENES, Run, Storm
from tests.hostile.generator import cleared, ground
from tests.support.wire_client import WireClient

SEED = 20261123


def test_a_storm_and_a_start_on_what_it_left(tmp_path: Path) -> None:
    run = Run(tmp_path, {}, GROWTH_MAX + 100 * MIB, Storm(SEED))
    for number in (1, 2):
        run.round(5, number)
    print(run.storm.told())
    assert run.faults == []
    assert run.storm.answers > 200


@pytest.mark.parametrize("scene", [each for each in SCENES if each != "open"])
def test_a_storm_on_a_listener_with_logins_or_tls(tmp_path: Path, scene: str) -> None:
    run = Run(tmp_path, {}, GROWTH_MAX + 100 * MIB, Storm(SEED, SCENES[scene]))
    run.round(2, 1)
    print(run.storm.told())
    assert run.faults == []
    assert run.storm.answers > 20
    assert set(run.storm.frames) == set(SCENES[scene].kinds)


def test_a_round_has_room_when_the_storm_before_it_left_none(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"max.partitions.total": 3}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        address = host, int(port)
        with WireClient(address) as client:
            client.create_topic("full", 3)
        with pytest.raises(AssertionError, match="wanted at most 3 together"):
            ground(address)
        cleared(address)
        assert ground(address).topic == "ground"
