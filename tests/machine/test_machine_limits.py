"""What the kernel lets a process have: told before it is used up, and at a start that cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.machine.limits import OTHER_THREADS, Limit, LimitTooLow, look, require, warnings

PIDS = "pids.max of the control group small; raise TasksMax"


def kernel(path: Path, *, pids_max: str, pids_current: int, maps: int = 3) -> list[Limit]:
    """What is found where the kernel says so."""
    proc, group = path / "proc", path / "cgroup" / "small"
    for folder in (proc / "self", proc / "sys/vm", group):
        folder.mkdir(parents=True)
    (proc / "self/cgroup").write_text("0::/small\n")
    (proc / "self/maps").write_text("7f00-7f01 r--p\n" * maps)
    (proc / "self/statm").write_text("100 50 0 0 0 0 0\n")
    (proc / "sys/vm/max_map_count").write_text("1000\n")
    (group / "pids.max").write_text(f"{pids_max}\n")
    (group / "pids.current").write_text(f"{pids_current}\n")
    return look(proc, path / "cgroup")


def test_there_is_nothing_to_tell_while_there_is_room(tmp_path: Path) -> None:
    found = kernel(tmp_path, pids_max="100", pids_current=20)
    assert {(each.what, each.most, each.used) for each in found if each.what != "threads"} >= {
        ("memory maps", 1000, 3)
    }
    assert list(warnings(found)) == []
    require(20, found)


def test_the_last_threads_and_maps_are_told_of(tmp_path: Path) -> None:
    found = kernel(tmp_path, pids_max="100", pids_current=95, maps=950)
    threads, maps = warnings(found)
    assert threads.startswith(f"95 of 100 threads are in use, near the limit: {PIDS}")
    assert maps.startswith("950 of 1000 memory maps are in use")


def test_a_start_that_cannot_have_its_threads_is_refused(tmp_path: Path) -> None:
    found = kernel(tmp_path, pids_max="30", pids_current=10)
    wanted = f"20 more threads can be made, wanted {10 + OTHER_THREADS}: 30 may be there and 10 are"
    with pytest.raises(LimitTooLow, match=wanted):
        require(10, found)


def test_no_limit_is_none(tmp_path: Path) -> None:
    found = kernel(tmp_path, pids_max="max", pids_current=10)
    assert not [each for each in found if PIDS in each.name]


STARTED_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from appliance.network._data_plane import DataPlane
from appliance.config import NetworkConfig
from appliance.data_dir.log_dir import LogDir
log_dir = LogDir.open(Path(sys.argv[1]))
data_plane = DataPlane(NetworkConfig(disk_threads=8, network_threads=8))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, resource.RLIM_INFINITY))
try:
    data_plane.start()
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
del data_plane
log_dir.close()
"""


def test_threads_that_cannot_be_made_leave_none_behind(tmp_path: Path) -> None:
    """Some of them were made before: they end, and use nothing that is gone."""
    done = subprocess.run(
        [sys.executable, "-c", STARTED_WITHOUT_ROOM, str(tmp_path / "data")],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the threads of the data plane cannot be started" in done.stdout


def test_a_start_with_too_little_address_space_says_so_in_one_line(tmp_path: Path) -> None:
    command = 'ulimit -v 300000 && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "appliance", "serve", "--data-dir",
         str(tmp_path / "data"), "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "of address space, wanted at least 384.0 MiB" in done.stderr.splitlines()[-1]
    assert "ulimit -v" in done.stderr.splitlines()[-1]
