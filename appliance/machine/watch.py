"""Looks at the machine every few seconds, and keeps what was found for whoever asks."""

from __future__ import annotations

from appliance.machine import raid
from appliance.machine.clock import Clock
from appliance.machine.raid import Array

LOOK_S = 2.0  # between two looks: as often as an open page is told of health


class Machine:
    def __init__(self) -> None:
        self.clock = Clock()
        self.arrays: list[Array] = []

    def look(self) -> None:
        """Reads files of the kernel: for a thread."""
        self.clock.look()
        self.arrays = raid.snapshot()
