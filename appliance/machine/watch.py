"""Reads the state of the machine every few seconds and keeps it for requests."""

from __future__ import annotations

from pathlib import Path

from appliance.machine import devices, file_system, limits, memory, raid
from appliance.machine.clock_state import Clock
from appliance.machine.file_system import FileSystem
from appliance.machine.kernel_counters import Grown
from appliance.machine.limits import Limit
from appliance.machine.memory import KillsWatch, Memory
from appliance.machine.raid import Array

LOOK_S = 2.0  # between two checks: an open page reads the health as often


class Machine:
    """The machine below one data directory."""

    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        self.arrays: list[Array] = []
        self.memory = Memory(None, None, None, None, None, None)
        self._grown = Grown(directory)
        self.kills = KillsWatch(self._grown)
        self.limits: list[Limit] = []
        self.file_system = FileSystem()
        self._was_seen = False  # the first start creates the directory during the first check
        self._directory = directory

    def look(self) -> None:
        """Reads files of the kernel: must run on a thread."""
        self.clock.look()
        self.memory = memory.look()
        self.kills.note(self.memory.kills)
        self.limits = limits.look()
        self.arrays = raid.snapshot(raid.BLOCK, devices.beneath(self._directory), self._grown)
        # Last, because a hanging file system blocks the thread here.
        state = file_system.look(self._directory)
        self._was_seen |= not state.unseen
        self.file_system = state if self._was_seen else FileSystem()
