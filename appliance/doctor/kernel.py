"""Advice on kernel and processor: source of the time, checksums, frequency."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.doctor import known_bugs
from appliance.doctor.check import Check
from appliance.machine.kernel_files import KernelFiles
from appliance.machine.watch import Machine

SLOW_CLOCKS = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")
CHECKSUM_FLAGS = {"sse4_2", "crc32"}  # of x86, of ARM


def checks(machine: Machine) -> Iterator[Check]:
    kernel = machine.kernel
    yield from errors_of_syncfs(kernel)
    yield clock_source(kernel)
    yield checksum(kernel)
    yield governor(kernel)


def errors_of_syncfs(kernel: KernelFiles) -> Iterator[Check]:
    release = kernel.text("proc/sys/kernel/osrelease")
    version = known_bugs.version_of(release)
    if version is not None and version < known_bugs.SYNCFS_TELLS:
        found = f"{release}: one sync of a file system tells no errors before Linux 5.8"
        why = "a write that failed would be acknowledged"
        yield Check("kernel syncfs", "advice", found, why, "set commit.sync=files")


def clock_source(kernel: KernelFiles) -> Check:
    why = "the time is read many times for each request"
    folder = "sys/devices/system/clocksource/clocksource0"
    chosen = kernel.text(f"{folder}/current_clocksource")
    if chosen not in SLOW_CLOCKS:
        return Check("clock source", "ok", chosen or "not told", why)
    offered = kernel.text(f"{folder}/available_clocksource")
    better = next((each for each in offered.split() if each not in SLOW_CLOCKS), "")
    fix = f"echo {better} > /{folder}/current_clocksource" if better else "look at the firmware"
    return Check("clock source", "advice", f"{chosen}, a slow one (of {offered})", why, fix)


def checksum(kernel: KernelFiles) -> Check:
    why = "each batch has a checksum (CRC-32C), of which the processor can do a block at a time"
    text = kernel.text("proc/cpuinfo")
    line = next((each for each in text.splitlines() if each.startswith(("flags", "Features"))), "")
    if CHECKSUM_FLAGS & set(line.split()):
        return Check("checksums", "ok", "the processor has an instruction", why)
    return Check("checksums", "unknown", "no instruction of the processor is told of", why)


def governor(kernel: KernelFiles) -> Check:
    why = "a processor that is slow until it is busy makes single requests slow"
    chosen = kernel.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if chosen == "powersave" and not is_pstate(kernel):
        return Check("frequency", "advice", chosen, why, "cpupower frequency-set -g performance")
    return Check("frequency", "ok", chosen or "not governed", why)


def is_pstate(kernel: KernelFiles) -> bool:
    """There powersave goes up as fast as others."""
    driver = kernel.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver")
    return driver.startswith(("intel_pstate", "amd-pstate"))
