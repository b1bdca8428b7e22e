"""Power cuts and full disks on a real ext4: checks the models of this folder with a kernel."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.logs import until

from .build import engine_environment, run_module
from .harness import NIGHTLY
from .loop_disk import LoopDisk, why_not
from .rounds import Acks, LoadProcess, problems_of
from .test_power_cut_states import SEED

ROUNDS = 300 if NIGHTLY else 4
ACKED = 5  # at least, in a round: otherwise it were no load
reason = why_not()
pytestmark = pytest.mark.skipif(bool(reason), reason=reason)


def test_a_power_cut_under_load_loses_nothing_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    acks: Acks = {}
    with LoopDisk(tmp_path, 96) as disk:
        data = disk.root / "data"
        data.mkdir()
        options = ("--retention-bytes", str(4 << 20))
        for turn in range(ROUNDS):
            load = LoadProcess(data, acks, *options)
            load.wait_open()
            time.sleep(chance.uniform(0.02, 0.5))
            until(lambda load=load: load.acked > ACKED or load.process.poll() is not None, 60)
            # An fdatasync that ends while the ioctl runs may return 0 without a write, for any
            # program: four threads that only write and sync lose a write in one of five such cuts.
            load.stop_counting()
            disk.cut_the_power()
            load.end()
            disk.unmount()
            disk.mount()
            assert problems_of(data, acks, tmp_path, *options) == [], f"seed {SEED}, round {turn}"
    assert sum(map(len, acks.values())) > ROUNDS * ACKED


def full_disk(data: Path, part: str, neighbour: Path) -> subprocess.CompletedProcess[str]:
    return run_module("crash.full_disk", data, part, neighbour, environment=engine_environment())


def test_a_disk_filled_by_a_neighbour_stops_writes_and_nothing_else(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, 24) as disk:
        data = disk.root / "data"
        data.mkdir()
        done = full_disk(data, "neighbour", disk.root / "neighbour")
        assert done.returncode == 0, f"the process did not stay up: {done.stderr[-3000:]}"
        assert json.loads(done.stdout.splitlines()[-1]) == []


def test_it_starts_and_serves_with_0_bytes_free_after_a_kill(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, 24) as disk:
        data = disk.root / "data"
        data.mkdir()
        done = full_disk(data, "fill and die", disk.root / "neighbour")
        assert done.returncode == -9, done.stderr[-3000:]
        assert disk.free_bytes() == 0
        done = full_disk(data, "start full", disk.root / "neighbour")
        assert done.returncode == 0, f"it did not start: {done.stderr[-3000:]}"
        assert json.loads(done.stdout.splitlines()[-1]) == []
