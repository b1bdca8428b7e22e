"""The times of requests: at a fixed rate, whatever happens to earlier ones.

Times count from the intended moment, not from the moment at which a request was sent. Otherwise a
broker that stalls for a second would be excused for all requests that could not be sent in it: this
is called coordinated omission.
"""

from __future__ import annotations

import random
import time


class Schedule:
    def __init__(self, per_second: float) -> None:
        self._interval_s = 1 / per_second
        self._next_s = time.monotonic() + random.random() * self._interval_s

    def wait_s(self) -> float:
        """0 if the next request is due or late."""
        return max(0.0, self._next_s - time.monotonic())

    def take(self) -> float:
        """The intended moment of the next request, of time.monotonic."""
        due, self._next_s = self._next_s, self._next_s + self._interval_s
        return due
