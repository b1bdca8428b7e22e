"""Memory of the machine and of our control group, in both versions of these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appliance.machine import memory
from appliance.machine.kernel_counters import Grown
from appliance.machine.memory import KILLED_TOLD_MS, KillsWatch, Memory

GIB = 1 << 30


class Kernel:
    """Its files, with a group of version 2 or 1 at `box`."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroups = root / "proc", root / "cgroup"
        self.write(self.proc / "meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\n"
                   "MemAvailable: 8388608 kB\nHugePages_Total: 0\n")  # fmt: skip
        self.write(self.proc / "self" / "status", "Name:\tpython\nVmRSS:\t 102400 kB\n")

    def write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def is_in(self, lines: str) -> None:
        self.write(self.proc / "self" / "cgroup", lines)

    @property
    def memory(self) -> Memory:
        return memory.look(self.proc, self.cgroups)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def test_a_machine_without_limits(kernel: Kernel) -> None:
    found = kernel.memory
    assert found == Memory(16 * GIB, 8 * GIB, 100 << 20, None, None, None)
    assert list(found.warnings()) == []


def test_a_machine_that_is_short_of_memory_says_so(kernel: Kernel) -> None:
    kernel.write(kernel.proc / "meminfo", "MemTotal: 1048576 kB\nMemAvailable: 40960 kB\n")
    (text,) = kernel.memory.warnings()
    assert text.startswith("the machine has 40.0 MiB of 1.0 GiB memory left")


def test_the_lowest_limit_of_the_groups_above_holds(kernel: Kernel) -> None:
    kernel.is_in("0::/slice/box\n")
    slice_, box = kernel.cgroups / "slice", kernel.cgroups / "slice" / "box"
    for folder, most in ((box, "max"), (slice_, str(2 * GIB))):
        kernel.write(folder / "memory.max", most + "\n")
    kernel.write(slice_ / "memory.stat", f"anon {GIB}\nfile {GIB}\nslab_unreclaimable 5\n")
    kernel.write(box / "memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    found = kernel.memory
    assert (found.limit_bytes, found.used_bytes, found.kills) == (2 * GIB, GIB + 5, 1)
    assert list(found.warnings()) == []


def test_pages_of_files_are_no_want_and_the_rest_is(kernel: Kernel) -> None:
    kernel.is_in("0::/box\n")
    box = kernel.cgroups / "box"
    kernel.write(box / "memory.max", f"{GIB}\n")
    kernel.write(box / "memory.stat", f"anon {GIB // 2}\nfile {GIB // 2}\n")
    assert list(kernel.memory.warnings()) == []
    kernel.write(box / "memory.stat", f"anon {GIB - GIB // 20}\nfile {GIB // 20}\n")
    (text,) = kernel.memory.warnings()
    assert re.match(r"972.8 MiB of the 1.0 GiB of memory that the broker's control group", text)


def test_version_1_of_control_groups(kernel: Kernel) -> None:
    kernel.is_in("4:memory:/box\n3:cpuset:/\n0::/\n")
    box = kernel.cgroups / "memory" / "box"
    kernel.write(box / "memory.limit_in_bytes", f"{GIB}\n")
    kernel.write(box / "memory.stat", f"cache 5\nrss 6\ntotal_rss {GIB // 4}\n")
    kernel.write(box / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    found = kernel.memory
    assert (found.limit_bytes, found.used_bytes, found.kills) == (GIB, GIB // 4, 3)
    kernel.write(box / "memory.limit_in_bytes", "9223372036854771712\n")
    assert kernel.memory.limit_bytes is None


def test_in_a_container_our_group_is_what_is_mounted(kernel: Kernel) -> None:
    kernel.is_in("0::/docker/a-path-of-the-host\n")
    kernel.write(kernel.cgroups / "memory.max", f"{GIB}\n")
    kernel.write(kernel.cgroups / "memory.stat", "anon 7\n")
    assert (kernel.memory.limit_bytes, kernel.memory.used_bytes) == (GIB, 7)


def test_a_kill_is_told_for_a_day_also_one_before_our_start(tmp_path: Path) -> None:
    now = [0]
    watch = KillsWatch(Grown(tmp_path, lambda: now[0]))
    watch.note(None)
    assert list(watch.warnings()) == []
    watch.note(1)
    (text,) = watch.warnings()
    assert text.startswith("the kernel killed 1 process of the broker's control group")
    now[0] = KILLED_TOLD_MS
    watch.note(1)
    assert list(watch.warnings()) == []
    watch.note(3)
    assert "killed 3 processes of" in next(watch.warnings())


def test_an_old_kill_is_no_news_after_a_start(tmp_path: Path) -> None:
    now = [0]

    def told(kills: int) -> bool:
        """By another start each time."""
        watch = KillsWatch(Grown(tmp_path, lambda: now[0]))
        watch.note(kills)
        return any(watch.warnings())

    assert told(2)
    now[0] = KILLED_TOLD_MS - 1
    assert told(2)
    now[0] = KILLED_TOLD_MS
    assert not told(2)
    assert not told(0)  # the group was made anew
    assert told(1)
