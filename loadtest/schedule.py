"""When requests should be sent: at a fixed rate, whatever became of the ones before.

Times are taken from the intended moment, not from the one at which a request was sent at last. Else
a broker that stalls for a second would be forgiven all requests that could not be sent meanwhile,
which is known as coordinated omission.
"""

from __future__ import annotations

import random
import time


class Schedule:
    def __init__(self, per_second: float) -> None:
        self._interval_s = 1 / per_second
        self._next_s = time.monotonic() + random.random() * self._interval_s

    def wait_s(self) -> float:
        """0 when the next one is due, or late."""
        return max(0.0, self._next_s - time.monotonic())

    def take(self) -> float:
        """The moment for which the next one was intended, of time.monotonic."""
        due, self._next_s = self._next_s, self._next_s + self._interval_s
        return due
