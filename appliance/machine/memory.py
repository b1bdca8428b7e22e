"""Memory: of the machine, of our control group, and kills by the kernel.

A control group (of a container, or of a systemd unit with MemoryMax) has its own limit and may run
out while the machine has plenty. It counts page cache as used, too, but the kernel reclaims that
before a kill. So this room looks at the memory that cannot be reclaimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.machine.kernel_counters import Grown
from appliance.machine.kernel_files import number_in, text_in
from appliance.process.spoken import size

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

# Share of the total; with less the kernel is busy with reclaim and soon kills.
AVAILABLE_SHARE_MIN = 0.05
USED_SHARE_MAX = 0.9  # of the group's limit, by memory that cannot be reclaimed

# Measured: 111 MB with 10,000 partitions. Requests and responses add to it.
NEEDED_BYTES = 128 << 20

# How long a kill is a warning: a daily look must show it.
KILLED_TOLD_MS = 86_400_000

_KILOBYTES = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_FIELD = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)

# Version 1 shows the largest number, in whole pages, if there is no limit.
NO_LIMIT_MIN = 1 << 62


@dataclass(frozen=True)
class Memory:
    total_bytes: int | None
    available_bytes: int | None
    resident_bytes: int | None  # ours
    limit_bytes: int | None  # of our control group; None: it has none
    used_bytes: int | None  # of that limit, by memory that cannot be reclaimed
    kills: int | None  # in our control group since its creation; None: unknown

    def warnings(self) -> Iterator[str]:
        total, available = self.total_bytes, self.available_bytes
        if total and available is not None and available < AVAILABLE_SHARE_MIN * total:
            yield (
                f"the machine has {size(available)} of {size(total)} memory left: soon the kernel "
                f"kills processes; the broker has {size(self.resident_bytes)}"
            )
        limit, used = self.limit_bytes, self.used_bytes
        if limit and used is not None and used > USED_SHARE_MAX * limit:
            yield (
                f"{size(used)} of the {size(limit)} of memory that the broker's control group may "
                "have are in use: at the limit the kernel kills it; give it more (MemoryMax, or "
                "the container's limit), or less to do"
            )


class KillsWatch:
    """Warns of kills for a day. A kill before our start may have hit our predecessor."""

    def __init__(self, grown: Grown) -> None:
        self._grown = grown
        self._seen = 0
        self._is_new = False

    def note(self, kills: int | None) -> None:
        self._seen = kills or 0
        self._is_new = self._grown.is_new("kills", self._seen, KILLED_TOLD_MS)

    def warnings(self) -> Iterator[str]:
        if self._is_new:
            killed = f"{self._seen} process" + ("es" if self._seen > 1 else "")
            yield (
                f"the kernel killed {killed} of the broker's control group for want of memory: "
                "`journalctl -k -g 'Memory cgroup out of memory'` says which"
            )


def look(proc: Path = PROC, cgroups: Path = CGROUPS) -> Memory:
    machine = _kilobytes(proc / "meminfo")
    group = _group(proc, cgroups)
    limit, used, kills = group if group is not None else (None, None, None)
    return Memory(
        machine.get("MemTotal"),
        machine.get("MemAvailable"),
        _kilobytes(proc / "self" / "status").get("VmRSS"),
        limit,
        used,
        kills,
    )


def _kilobytes(file: Path) -> dict[str, int]:
    return {name: int(count) << 10 for name, count in _KILOBYTES.findall(text_in(file))}


def _group(proc: Path, cgroups: Path) -> tuple[int | None, int | None, int | None] | None:
    """Limit, use and kills; from version 1 of control groups if that one controls memory."""
    for line in text_in(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return _by_version_1(_folder(cgroups / "memory", path))
    for line in text_in(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            return _by_version_2(cgroups, _folder(cgroups, path))
    return None


def _folder(root: Path, path: str) -> Path:
    """In a container the path is often the host's, and the mount begins at our group."""
    group_folder = root / path.lstrip("/")
    return group_folder if group_folder.is_dir() else root


def _by_version_1(folder: Path) -> tuple[int | None, int | None, int | None]:
    limit = number_in(folder / "memory.limit_in_bytes")
    limit = None if limit is None or limit >= NO_LIMIT_MIN else limit
    stat, oom = _fields(folder / "memory.stat"), _fields(folder / "memory.oom_control")
    return limit, stat.get("total_rss"), oom.get("oom_kill")


def _by_version_2(root: Path, folder: Path) -> tuple[int | None, int | None, int | None]:
    """The limit of a parent group applies too, and its other children share it."""
    limits = []
    above = folder
    while True:
        if (limit := number_in(above / "memory.max")) is not None:
            limits.append((limit, above))
        if above in (root, above.parent):
            break
        above = above.parent
    kills = _fields(folder / "memory.events").get("oom_kill")
    if not limits:
        return None, None, kills
    limit, held = min(limits)
    stat = _fields(held / "memory.stat")
    used = stat["anon"] + stat.get("slab_unreclaimable", 0) if "anon" in stat else None
    return limit, used, kills


def _fields(file: Path) -> dict[str, int]:
    return {name: int(count) for name, count in _FIELD.findall(text_in(file))}
