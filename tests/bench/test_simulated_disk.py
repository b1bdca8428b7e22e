"""The simulated disk of `bench/disks` takes the time that spinning disks take."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.disks import disk, tables

MIB, PAGE, GIB = 1 << 20, 4096, 1 << 30
SIZE_MB = 64 << 10
TURN_MS = 60_000 / 7200
RAID5 = ("level=5", "members=6", "stripe_cache=4096")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model without FUSE, and without a clock."""
    return disk.build_replay(tmp_path_factory.mktemp("replay"))


def replayed(program: Path, lines: Sequence[str], *settings: str) -> dict[str, float]:
    done = subprocess.run([program, str(SIZE_MB), *settings], input="\n".join(lines) + "\n",
                          text=True, capture_output=True, check=True)
    words = done.stdout.splitlines()[-1].split()
    found = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    return {"ms": found["all"] / 1e6, "whole": found["whole_rows"], "read": found["read_rows"]}


def places(count: int) -> list[int]:
    chance = random.Random(1)
    return [chance.randrange(60 * GIB) // PAGE * PAGE for _ in range(count)]


def one_by_one(kind: str, offsets: Sequence[int], size: int = PAGE) -> list[str]:
    return [f"-1 {kind} {each} {size}" for each in offsets]


def test_a_disk_reads_in_line_at_the_rate_of_its_platters(program: Path) -> None:
    took = replayed(program, one_by_one("r", [each * MIB for each in range(300)], MIB))["ms"]
    assert 300 * MIB / took / 1000 == pytest.approx(150, rel=0.02)


def test_random_reads_wait_for_the_arm_and_half_a_turn(program: Path) -> None:
    rate = 1000 / replayed(program, one_by_one("r", places(1000)))["ms"] * 1000
    assert 70 < rate < 95


def test_a_full_queue_is_served_in_the_order_of_the_shortest_way(program: Path) -> None:
    queued = [f"0 r {each} {PAGE}" for each in places(2000)]
    assert 170 < 2000 / replayed(program, queued)["ms"] * 1000 < 230


def test_a_flush_waits_for_a_turn_and_a_cached_write_for_nothing(program: Path) -> None:
    writes = [f"-1 w {each * PAGE} {PAGE}" for each in range(100)]
    synced = [line for each in writes for line in (each, "-1 f 0 0")]
    assert replayed(program, synced)["ms"] == pytest.approx(100 * TURN_MS, rel=0.02)
    assert replayed(program, writes)["ms"] < TURN_MS


def test_without_a_write_cache_a_write_that_comes_late_waits_for_the_next_turn(program: Path
                                                                               ) -> None:
    late = [f"{each * 20_000_000} w {each * PAGE} {PAGE}" for each in range(100)]
    took = replayed(program, late, "cache_mib=0")["ms"] - 99 * 20
    assert 1 < took < 2 * TURN_MS
    at_once = replayed(program, [f"-1 w {each} {PAGE}" for each in places(200)], "cache_mib=0")
    assert at_once["ms"] > 200 * TURN_MS


def test_raid_5_reads_before_it_writes_a_part_of_a_stripe(program: Path) -> None:
    whole = replayed(program, [f"0 w {each * MIB} {MIB}" for each in range(500)], *RAID5)
    assert (whole["whole"], whole["read"]) == (500 * MIB / PAGE / 5, 0)
    small = replayed(program, one_by_one("w", places(200)), *RAID5)
    assert (small["whole"], small["read"]) == (0, 200)
    again = replayed(program, one_by_one("w", places(1) * 200), *RAID5)
    assert again["read"] == 1, "what the stripe cache holds was read again"


def test_an_array_reads_as_fast_as_its_members_together(program: Path) -> None:
    lines = [f"0 r {each * MIB} {MIB}" for each in range(1000)]
    one, five = replayed(program, lines)["ms"], replayed(program, lines, *RAID5)["ms"]
    assert one / five > 4


def test_a_setting_that_makes_no_array_is_refused(program: Path) -> None:
    for words, reason in ((("level=5", "members=2"), "RAID-5 from 3"),
                          (("speed=9",), "speed=9 is no setting")):
        done = subprocess.run([program, str(SIZE_MB), *words], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 2
        assert reason in done.stderr


def test_what_is_not_installed_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk.os, "geteuid", lambda: 0)
    monkeypatch.setattr(disk.os.path, "exists", lambda _: True)
    monkeypatch.setattr(disk.shutil, "which", lambda tool: tool != "fio" and tool)
    monkeypatch.setattr(disk, "has_libfuse", lambda: False)
    assert disk.missing() == "not installed: apt-get install fio libfuse3-dev"


def test_a_table_has_the_median_with_the_lowest_and_the_highest() -> None:
    table = tables.written("one disk", {"ours": {"MB/s": [3, 1, 2]}, "theirs": {"MB/s": [1000.4]}})
    assert table.splitlines()[-1] == "| MB/s | 2 (1-3) | 1,000 |"
