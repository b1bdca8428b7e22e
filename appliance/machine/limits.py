"""The kernel's limits for this process beside descriptors and memory: threads, memory maps and
address space.

Measured with 10,000 partitions: 650 maps; threads do not grow with partitions. Too few threads make
a start fail half-way, in any library that starts a thread. So `require` checks before it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.machine.kernel_files import number_in, text_in
from appliance.machine.memory import CGROUPS, PROC
from appliance.process.spoken import size

MIB = 1 << 20

# Beside the threads in the settings: event loop, SQLite, machine watch, acceptor, committer,
# write-behind, and the pool for blocking work.
OTHER_THREADS = 16

# Measured without partitions: with 200 MB a start fails, with 300 MB it works. Stacks and the
# allocator's arenas take most of it.
ADDRESS_SPACE_MIN = 384 * MIB

NEARLY_ALL = 0.9


class LimitTooLow(ApplianceError):
    """The start cannot continue; the text names the limit and the remedy."""


@dataclass(frozen=True)
class Limit:
    what: str
    most: int
    used: int
    name: str  # the limit, and how to raise it
    is_bytes: bool = False

    @property
    def left(self) -> int:
        return self.most - self.used

    def said(self, number: int) -> str:
        return size(number) if self.is_bytes else str(number)

    def warning(self) -> str:
        """The warning, or "" while there is room."""
        if self.used <= NEARLY_ALL * self.most:
            return ""
        used, most = self.said(self.used), self.said(self.most)
        return f"{used} of {most} {self.what} are in use, near the limit: {self.name}"


def look(proc: Path = PROC, cgroups: Path = CGROUPS) -> list[Limit]:
    """The limits that are set."""
    found = [*_threads(proc, cgroups), *_maps(proc), *_address_space(proc)]
    return [each for each in found if each.most > 0]


def warnings(limits: list[Limit]) -> Iterator[str]:
    return (text for each in limits if (text := each.warning()))


def require(threads: int, limits: list[Limit]) -> None:
    """Raises LimitTooLow if a start could not create this many more threads."""
    wanted = threads + OTHER_THREADS
    for each in limits:
        if each.what == "threads" and each.left < wanted:
            raise LimitTooLow(
                f"{each.left} more threads can be made, wanted {wanted}: {each.most} may be there "
                f"and {each.used} are, {each.name}"
            )
        if each.what == "address space" and each.most < ADDRESS_SPACE_MIN:
            raise LimitTooLow(
                f"this process may have {size(each.most)} of address space, wanted at least "
                f"{size(ADDRESS_SPACE_MIN)}: {each.name}"
            )


def _threads(proc: Path, cgroups: Path) -> Iterator[Limit]:
    for folder in _pids_folders(proc, cgroups):
        most, used = number_in(folder / "pids.max"), number_in(folder / "pids.current")
        if most is not None and used is not None:
            name = f"pids.max of the control group {folder.name}; raise TasksMax of the service"
            yield Limit("threads", most, used, f"{name}, or the container's limit")
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:  # root is exempt
        used = _threads_of_machine(proc)  # an upper bound, cheap to read
        if used > soft // 2:
            used = _threads_of_user(proc, os.geteuid())
        yield Limit("threads", soft, used, "LimitNPROC of the service, or `ulimit -u`")


def _pids_folders(proc: Path, cgroups: Path) -> Iterator[Path]:
    """Our control group and its parents: all of their limits apply."""
    for line in text_in(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        root = cgroups / "pids" if controllers == "pids" else cgroups
        if controllers == "pids" or (number == "0" and not controllers):
            folder = root / path.lstrip("/")
            folder = folder if folder.is_dir() else root  # in a container the path is the host's
            yield folder
            while folder not in (root, folder.parent):
                folder = folder.parent
                yield folder


def _threads_of_machine(proc: Path) -> int:
    words = text_in(proc / "loadavg").split()
    return int(words[3].partition("/")[2]) if len(words) > 3 else 0


def _threads_of_user(proc: Path, user: int) -> int:
    """The limit counts all threads of the user on the machine."""
    count = 0
    for each in proc.glob("[0-9]*"):
        try:
            if each.stat().st_uid == user:
                count += len(os.listdir(each / "task"))
        except OSError:
            continue  # the process ended
    return count


def _maps(proc: Path) -> Iterator[Limit]:
    most = number_in(proc / "sys/vm/max_map_count")
    if most is not None:
        used = text_in(proc / "self/maps").count("\n")
        yield Limit("memory maps", most, used, "raise vm.max_map_count (`sysctl`)")


def _address_space(proc: Path) -> Iterator[Limit]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        pages = text_in(proc / "self/statm").split()[:1]
        used = int(pages[0]) * resource.getpagesize() if pages else 0
        name = "LimitAS of the service, or `ulimit -v`"
        yield Limit("address space", soft, used, name, is_bytes=True)
