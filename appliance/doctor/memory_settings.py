"""Advice on memory: how much may wait to be written, swap, overcommit, huge pages, NUMA."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.doctor.check import Check, sysctl
from appliance.machine.disks import Device
from appliance.machine.kernel_files import KernelFiles, chosen_in
from appliance.machine.watch import Machine
from appliance.process.spoken import duration, size, some

MIB = 1 << 20
# What waits in memory is written before a sync returns, if it is in the same file system's journal.
BACKLOG_S = 2.0
BACKGROUND, HARD = 256 * MIB, 1024 * MIB
PLATTERS_BYTES_S, FLASH_BYTES_S = 150 * MIB, 500 * MIB  # of one disk, in a row
SWAPPINESS_MAX = 10
NEVER_OVERCOMMIT = 2


def checks(machine: Machine) -> Iterator[Check]:
    kernel = machine.kernel
    yield dirty(machine)
    yield swap(kernel)
    yield overcommit(kernel)
    yield huge_pages(kernel)
    yield numa(kernel)


def disk_bytes_per_s(devices: list[Device]) -> int:
    """In a row, at best. An array writes to its disks together."""
    speeds = [
        PLATTERS_BYTES_S if each.is_rotating else FLASH_BYTES_S for each in devices if each.is_disk
    ]
    return sum(speeds) or FLASH_BYTES_S


def dirty_bytes(kernel: KernelFiles, name: str, of_bytes: int) -> int:
    """The limit in bytes, which is set so or as a part of the memory that is available."""
    own = kernel.number(f"proc/sys/vm/{name}_bytes") or 0
    return own or (kernel.number(f"proc/sys/vm/{name}_ratio") or 0) * of_bytes // 100


def dirty(machine: Machine) -> Check:
    kernel, speed = machine.kernel, disk_bytes_per_s(machine.devices)
    available = machine.memory.available_bytes or machine.memory.total_bytes or 0
    background = dirty_bytes(kernel, "dirty_background", available)
    hard = dirty_bytes(kernel, "dirty", available)
    takes = duration(background / speed)
    found = (
        f"{size(background)} wait before the kernel writes, {size(hard)} at most: {takes} of disk"
    )
    why = "what others wrote is written before a commit's sync returns: that is its longest wait"
    if background <= BACKLOG_S * speed:
        return Check("dirty limits", "ok", found, why)
    first, background_too = sysctl("vm.dirty_background_bytes", BACKGROUND)
    second, hard_too = sysctl("vm.dirty_bytes", HARD)
    changes = (background_too, hard_too)
    return Check("dirty limits", "advice", found, why, f"{first}; {second}", changes)


def swap(kernel: KernelFiles) -> Check:
    why = "a broker of which parts are on a disk answers when that disk does"
    used = kernel.text("proc/swaps").splitlines()[1:]
    swappiness = kernel.number("proc/sys/vm/swappiness") or 0
    found = f"{some(len(used), 'swap area')}, vm.swappiness {swappiness}"
    if not used or swappiness <= SWAPPINESS_MAX:
        return Check("swap", "ok", found, why)
    fix, change = sysctl("vm.swappiness", 1)
    return Check("swap", "advice", found, why, fix, (change,))


def overcommit(kernel: KernelFiles) -> Check:
    why = "with strict accounting a process is refused memory that is free"
    mode = kernel.number("proc/sys/vm/overcommit_memory") or 0
    if mode != NEVER_OVERCOMMIT:
        return Check("overcommit", "ok", f"vm.overcommit_memory {mode}", why)
    fix, change = sysctl("vm.overcommit_memory", 0)
    return Check("overcommit", "advice", f"vm.overcommit_memory {mode}", why, fix, (change,))


def huge_pages(kernel: KernelFiles) -> Check:
    why = "pages that are merged behind its back make a process wait, and take more memory"
    file = kernel.sys / "kernel" / "mm" / "transparent_hugepage" / "enabled"
    chosen = chosen_in(file)
    if chosen == "always":
        fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; for the next start: the "
        fix += "kernel's option transparent_hugepage=madvise"
        return Check("huge pages", "advice", chosen, why, fix)
    return Check("huge pages", "ok", chosen or "not there", why)


def numa(kernel: KernelFiles) -> Check:
    why = "memory of another processor's is slower, and reclaim within one node drops the cache"
    nodes = sum(1 for _ in (kernel.sys / "devices" / "system" / "node").glob("node[0-9]*")) or 1
    reclaim = kernel.number("proc/sys/vm/zone_reclaim_mode") or 0
    found = f"{some(nodes, 'node')}, vm.zone_reclaim_mode {reclaim}"
    if nodes > 1 and reclaim:
        fix, change = sysctl("vm.zone_reclaim_mode", 0)
        return Check("numa", "advice", found, why, fix, (change,))
    return Check("numa", "ok", found, why)
