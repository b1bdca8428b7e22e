"""Reads the state of the machine every few seconds and keeps it for requests."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from appliance.config import NO_FILE, MachineConfig
from appliance.machine import (
    devices,
    disk_report,
    disks,
    expected_mounts,
    file_system,
    hardware_clock,
    limits,
    memory,
    raid,
    sync_rate,
    throughput,
)
from appliance.machine.clock_state import Clock
from appliance.machine.disk_errors import DiskErrors
from appliance.machine.disk_report import DiskReport, DiskState
from appliance.machine.disks import Device
from appliance.machine.expected_mounts import Expected
from appliance.machine.file_system import FileSystem
from appliance.machine.hardware_clock import HardwareClock
from appliance.machine.kernel_counters import Grown
from appliance.machine.kernel_files import THIS_MACHINE, KernelFiles
from appliance.machine.limits import Limit
from appliance.machine.memory import KillsWatch, Memory
from appliance.machine.raid import Array
from appliance.machine.sync_rate import SyncRate
from appliance.machine.throughput import Throughput, Tick

WATCH_BEGINS_S = 300.0  # after a boot: its timer waits a minute, and disks may be slow
LOOK_S = 2.0  # between two checks: an open page reads the health as often
LIMITS_S = 10.0  # between two looks at limits: the list of memory maps is long


class Machine:
    """The machine below one data directory. `is_guest`: nothing is written into the directory, and
    only who owns it measures by itself."""

    def __init__(
        self,
        directory: Path,
        config: MachineConfig | None = None,
        kernel: KernelFiles = THIS_MACHINE,
        *,
        clock: Clock | None = None,
        measure: Callable[[Path], SyncRate] = sync_rate.measure,
        wall_s: Callable[[], float] = time.time,
        statvfs: Callable[[Path], os.statvfs_result] = os.statvfs,
        is_guest: bool = False,
    ) -> None:
        self.directory = directory
        self.config = config or MachineConfig()
        self.kernel = kernel
        self.clock = clock or Clock()
        self.hardware_clock = HardwareClock(None, wall_s())
        self.arrays: list[Array] = []
        self.devices: list[Device] = []
        self.disk_report = DiskReport()
        self._report_mark: tuple[int, int, int] | None = None
        self.disk_news: list[tuple[DiskState, str]] = []  # counters of the report that grew
        self.up_s = math.inf
        self.memory = Memory(None, None, None, None, None, None)
        self.grown = Grown(directory, is_kept=not is_guest)
        self.kills = KillsWatch(self.grown)
        self.disk_errors = DiskErrors(self.grown)
        self.limits: list[Limit] = []
        self._limits_at = -math.inf
        self.file_system = FileSystem()
        self.unmounted: Expected | None = None
        self.sync_rate: SyncRate | None = None
        self.throughput: Throughput | None = None  # once somebody asked
        # of the kernel, which does not change while we run
        self.release = kernel.text("proc/sys/kernel/osrelease")
        self.banner = kernel.text("proc/version")
        self.is_being_measured = False
        self._is_guest = is_guest
        self._measure, self._wall_s, self.statvfs = measure, wall_s, statvfs
        self._has_measured = False
        self._was_seen = False  # the first start creates the directory during the first check

    def look(self) -> None:
        """Reads files of the kernel: must run on a thread."""
        kernel = self.kernel
        self.clock.look()
        self.hardware_clock = hardware_clock.look(kernel, self._wall_s)
        self.memory = memory.look(kernel.proc, kernel.control_groups)
        self.kills.note(self.memory.kills)
        if (now_s := time.monotonic()) - self._limits_at >= LIMITS_S:
            self.limits = limits.look(kernel.proc, kernel.control_groups)
            self._limits_at = now_s
        beneath = devices.beneath(self.directory, kernel.sys, kernel.mounts)
        self.arrays = raid.snapshot(kernel.sys / "block", beneath, self.grown)
        self.devices = disks.look(self.directory, kernel)
        self.disk_errors.note(self.devices)
        self.up_s = _up_s(kernel)
        self._look_at_report()
        self.unmounted = expected_mounts.missing(self.directory.resolve(), kernel)
        # Last, because a hanging file system blocks the thread here.
        state = file_system.look(self.directory, kernel.sys, kernel.mounts)
        self._was_seen |= not state.unseen
        self.file_system = state if self._was_seen else FileSystem()
        self._measure_once()

    def _look_at_report(self) -> None:
        path = self.config.disk_watch_file
        mark = None if path == NO_FILE else disk_report.mark_of(path)
        if mark is None or mark != self._report_mark:
            self.disk_report = disk_report.read(None if path == NO_FILE else path)
        self._report_mark = mark
        self.disk_news = [
            (each, text) for each in self.disk_report.disks for text in each.news(self.grown)
        ]

    def _measure_once(self) -> None:
        """Where only platters are below: nothing else can be told by it."""
        if self._is_guest or self._has_measured or not self._was_seen:
            return
        if sync_rate.is_on_platters(self.devices):
            self.measure_syncs()
        self._has_measured = True

    def measure_syncs(self) -> None:
        """OSError: nothing can be written there."""
        self.sync_rate = self._measure(self.directory)

    def measure_throughput(
        self,
        seconds: float = throughput.SECONDS,
        tick: Tick | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """OSError: nothing can be written there."""
        self.throughput = throughput.measure(
            self.directory, seconds, tick=tick, is_wanted=is_wanted
        )

    def silence(self) -> str:
        """Of the disk watch. After a boot its file is old, or not there, before its first round."""
        if not self.disk_report.fault and self.up_s < WATCH_BEGINS_S:
            return ""
        now_ms = round(self._wall_s() * 1000)
        return self.disk_report.silence(now_ms, self.config.disk_watch_silent_ms)


def _up_s(kernel: KernelFiles) -> float:
    words = kernel.text("proc/uptime").split()
    return float(words[0]) if words else math.inf
