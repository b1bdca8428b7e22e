"""The disk is measured as it is, within bounds, and nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from appliance.cli import bench, disk_bench
from appliance.cli.main import main
from appliance.config import StorageConfig

DEADLINE_S = 60.0
SLOW_S = 0.004


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The command's own handler of SIGTERM is not for the process of the tests."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with less of everything."""
    monkeypatch.setattr(disk_bench, "SPACE_BYTES", 16 << 20)
    monkeypatch.setattr(disk_bench, "DRAIN_BYTES", 1 << 20)
    monkeypatch.setattr(disk_bench, "PARTITIONS", (1, 3))
    monkeypatch.setattr(disk_bench, "SIZES", (4096, 1 << 20))


def run(directory: Path, *more: str) -> Result:
    words = "bench", "disk", "--data-dir", str(directory), "--seconds", "0.2", *more
    return CliRunner().invoke(main, words)


@pytest.mark.usefixtures("small")
def test_every_way_is_measured_and_nothing_stays(tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    found = {(each["way"], each["size_bytes"]) for each in told["writes"]}
    assert found == {(way, size) for way in disk_bench.WAYS for size in disk_bench.SIZES}
    commits = {(each["sync"], each["partitions"]) for each in told["group_commits"]}
    assert commits == {(sync, count) for sync in disk_bench.SYNCS for count in (1, 3)}
    for each in [*told["writes"], *told["group_commits"]]:
        assert each["samples"] >= disk_bench.SAMPLES_MIN
        assert 0 < each["p50_us"] <= each["p99_us"]
    best = max(each["partitions_per_s"] for each in told["group_commits"])
    assert told["expect"]["partitions_per_s"] == best
    assert told["expect"]["bytes_per_s"] > 0
    assert told["file_system"] == disk_bench.file_system(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small")
def test_tables_end_with_what_to_expect(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert sum(line.startswith("growing") for line in lines) == 2
    assert sum(line.startswith("filesystem") for line in lines) == 2
    assert any(line.startswith("Expect about ") and "MB/s" in line for line in lines)


@pytest.mark.usefixtures("small")
def test_a_slow_disk_is_told(tmp_path: Path) -> None:
    def slow(fd: int) -> None:
        os.fdatasync(fd)
        time.sleep(SLOW_S)

    way = disk_bench.Way(slow, disk_bench.emptied)
    found = way.durations(tmp_path / "file", 4096, 0.1)
    times = disk_bench.Times.of(found)
    assert times.p50_us >= SLOW_S * 1e6
    assert times.per_s <= 1 / SLOW_S


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", disk_bench.WAYS)
def test_a_file_is_bounded(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    real = os.pwrite

    def counted(fd: int, data: bytes, position: int) -> int:
        ends.append(position + len(data))
        return real(fd, data, position)

    monkeypatch.setattr(os, "pwrite", counted)
    monkeypatch.setattr(disk_bench, "SAMPLES_MIN", 10)
    disk_bench.WAYS[way].durations(tmp_path / "file", 1 << 20, 0.0)
    assert len(ends) >= 10
    assert max(ends) == disk_bench.SPACE_BYTES // 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small")
def test_logs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_bench, "SPACE_BYTES", 1 << 20)
    with disk_bench.logs_of(tmp_path / "group", "files", 2) as logs:
        took = disk_bench.rounds(logs, 16 << 10, DEADLINE_S)
        written = sum(each.size for each in logs)
        assert all(each.durable_offset == each.log_end_offset == len(took) for each in logs)
    assert 0.9 * (1 << 20) < written <= 1 << 20


def test_a_full_disk_is_refused_with_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_bench.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    done = run(tmp_path)
    wanted = disk_bench.SPACE_BYTES + StorageConfig().low_water_bytes
    assert done.exit_code == 1
    assert f"{tmp_path}: 1000 bytes free, wanted {wanted}" in done.output
    assert list(tmp_path.iterdir()) == []


def test_who_is_stopped_cleans_up(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "appliance", "bench", "disk", "--data-dir", str(tmp_path),
             "--seconds", "3000"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + DEADLINE_S
    while not list(tmp_path.glob(".bench-disk-*/file")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_has_a_name(tmp_path: Path) -> None:
    assert disk_bench.file_system(Path("/proc/self")) == "proc"
    assert disk_bench.file_system(tmp_path) not in ("", "unknown")


def found_with(p50_us: float, file_system: str) -> disk_bench.DiskFigures:
    times = disk_bench.Times(100, p50_us, 2 * p50_us, 1e6 / p50_us)
    writes = [disk_bench.Write("growing", 4096, times)]
    commits = [disk_bench.GroupCommit("files", 1, times)]
    return disk_bench.DiskFigures("data", file_system, 1 << 30, writes, commits, 1e8)


def test_figures_that_mean_little_are_doubted() -> None:
    assert bench.doubts(found_with(1000.0, "ext4")) == []
    assert "confirms writes too early" in bench.doubts(found_with(5.0, "ext4"))[0]
    assert "tmpfs is in memory" in bench.doubts(found_with(1000.0, "tmpfs"))[0]
