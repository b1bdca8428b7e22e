"""A wall clock that does not delete data when somebody sets it wrong.

Retention compares record timestamps with now. A clock that jumps a year forward would make every
record a year old at once. So a forward jump is believed only after it has lasted; a jump backward
only delays deletions and is believed immediately.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_MAX_MS = 600_000  # more than any slewing or leap; less than the shortest sensible retention
SETTLE_MS = 3_600_000  # time for a person, or NTP, to put a wrong clock right


class WallClock:
    def __init__(
        self,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._believed = wall_ms()
        self._at = monotonic_ms()
        self._jumped_at: int | None = None

    def now_ms(self) -> int:
        wall, monotonic = self._wall_ms(), self._monotonic_ms()
        expected = self._believed + monotonic - self._at
        if wall - expected <= STEP_MAX_MS:
            self._jumped_at = None
            return self._believe(wall, monotonic)
        if self._jumped_at is None:
            self._jumped_at = monotonic
        if monotonic - self._jumped_at >= SETTLE_MS:
            self._jumped_at = None
            return self._believe(wall, monotonic)
        return expected

    def _believe(self, wall: int, monotonic: int) -> int:
        self._believed, self._at = wall, monotonic
        return wall
