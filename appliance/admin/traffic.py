"""What goes through the broker, second by second: the data plane's counters, ten minutes of them.

Reading the counters stops nobody and costs the same whatever is stored. A page that is slow to take
its events loses none: it gets what the ring still has, and is told how many it missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any, NamedTuple

from appliance.admin.process import Process

INTERVAL_S = 1.0
KEPT = 600  # samples: what the plots of the console show
COUNTED = ("produced_bytes", "fetched_bytes", "produce_requests", "fetch_requests")


class Rates(NamedTuple):
    """A second."""

    in_bytes_per_s: float
    out_bytes_per_s: float
    produces_per_s: float
    fetches_per_s: float


class Sample(NamedTuple):
    number: int
    at_ms: int
    connections: int
    rates: Rates

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at_ms": self.at_ms,
            "connections": self.connections,
            **self.rates._asdict(),
        }


class Traffic:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._last: tuple[float, list[int]] | None = None
        self._grown = asyncio.Event()
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.count = 0  # samples taken since the start

    async def run(self) -> None:
        while True:
            self.take()
            await asyncio.sleep(INTERVAL_S)

    def take(self) -> None:
        data_plane = self._process.data_plane
        if data_plane is None:
            self._last = None
            return
        now, counters = time.monotonic(), data_plane.counters()
        values = [counters[name] for name in COUNTED]
        if self._last is not None:
            then, before = self._last
            took = max(now - then, 1e-3)
            rates = [(new - old) / took for new, old in zip(values, before, strict=True)]
            self._add(Rates(*rates), counters["connections_open"])
        self._last = now, values

    def _add(self, rates: Rates, connections: int) -> None:
        self.count += 1
        at_ms = int(time.time() * 1000)
        self.samples.append(Sample(self.count, at_ms, connections, rates))
        self._grown.set()
        self._grown = asyncio.Event()

    async def grown(self, timeout_s: float) -> None:
        """Returns with the next sample, or after this time without one."""
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._grown.wait(), timeout_s)

    def since(self, number: int) -> list[Sample]:
        return [each for each in self.samples if each.number > number]
