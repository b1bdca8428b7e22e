"""kill -9 at random times under load: the broker restarts with all acknowledged records."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.support.logs import until

from .harness import NIGHTLY
from .rounds import Acks, LoadProcess, problems_of
from .test_power_cut_states import SEED

ROUNDS = 300 if NIGHTLY else 4
ACKED = 20  # at least, in a round: otherwise it were no load


def test_kill_9_under_load_loses_nothing_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    root = tmp_path / "data"
    root.mkdir()
    acks: Acks = {}
    for turn in range(ROUNDS):
        load = LoadProcess(root, acks)
        load.wait_open()
        time.sleep(chance.uniform(0.02, 0.4))
        until(lambda load=load: load.acked > ACKED or load.process.poll() is not None, 60)
        said = load.end()
        assert load.process.returncode == -9, f"round {turn}: the load ended by itself: {said}"
        if turn % 3 == 2:
            assert problems_of(root, acks, tmp_path) == [], f"seed {SEED}, round {turn}"
    assert problems_of(root, acks, tmp_path) == [], f"seed {SEED}"
    assert sum(map(len, acks.values())) > ROUNDS * ACKED
