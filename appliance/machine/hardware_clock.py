"""The clock of the board, which runs on a battery while the machine is off.

With an empty battery a machine wakes up in 1970, 2000 or the year of its firmware. Until a time
server was asked, whatever is written has that time. The kernel reads it as UTC; a board that keeps
local time is some hours off, in quarters of an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.machine.kernel_files import KernelFiles
from appliance.process.spoken import duration, moment

# 2025-01-01: this program is younger, so no right clock is before it.
YOUNGER_THAN_S = 1_735_689_600
OFF_MAX_S = 60.0  # what a board loses in a year without anybody who sets it is more
ZONE_S, ZONES_MAX_S = 900, 14 * 3600
ZONE_SLACK_S = 30.0


@dataclass(frozen=True)
class HardwareClock:
    board_s: int | None  # None: there is none, or it cannot be read
    wall_s: float

    @property
    def is_board_wrong(self) -> bool:
        return self.board_s is not None and self.board_s < YOUNGER_THAN_S

    @property
    def is_wall_wrong(self) -> bool:
        return self.wall_s < YOUNGER_THAN_S

    @property
    def ahead_s(self) -> float:
        """Of the wall."""
        return 0.0 if self.board_s is None else self.board_s - self.wall_s

    @property
    def is_local_time(self) -> bool:
        off = abs(self.ahead_s) % ZONE_S
        is_zone = min(off, ZONE_S - off) <= ZONE_SLACK_S
        return is_zone and ZONE_S / 2 < abs(self.ahead_s) <= ZONES_MAX_S

    def warnings(self) -> list[str]:
        return [*self._of_wall(), *self._of_board()]

    def _of_wall(self) -> list[str]:
        if not self.is_wall_wrong:
            return []
        return [
            f"the machine's clock says {moment(round(self.wall_s * 1000))}, before this program "
            "was made: it woke up with a wrong time"
        ]

    def _of_board(self) -> list[str]:
        if not self.is_board_wrong:
            return []
        return [
            f"the board's own clock says {self._board_says}: its battery is empty, and the next "
            "start begins with that time"
        ]

    def advice(self) -> list[str]:
        """A clock that is right now will be a little wrong for a while after the next start."""
        off = abs(self.ahead_s)
        if self.board_s is None or self.is_board_wrong or self.is_local_time or off <= OFF_MAX_S:
            return []
        way = "ahead of" if self.ahead_s > 0 else "behind"
        return [f"the board's own clock is {duration(off)} {way} the system's"]

    @property
    def _board_says(self) -> str:
        return moment(None if self.board_s is None else self.board_s * 1000)


def look(kernel: KernelFiles, wall_s: Callable[[], float] = time.time) -> HardwareClock:
    return HardwareClock(kernel.number("sys/class/rtc/rtc0/since_epoch"), wall_s())
