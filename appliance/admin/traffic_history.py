"""The broker's traffic by second: ten minutes of the data plane's counters.

Reading the counters blocks nothing and costs the same for any amount of data.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple

from appliance.admin.broker_process import Process

INTERVAL_S = 1.0
KEPT = 600  # samples: the range of the console's charts
COUNTED = ("produced_bytes", "fetched_bytes", "produce_requests", "fetch_requests")


class Rates(NamedTuple):
    """One second."""

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
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.count = 0  # samples since the start

    def take(self) -> Sample | None:
        """None: there is no earlier sample yet."""
        data_plane = self._process.data_plane
        if data_plane is None:
            self._last = None
            return None
        now, counters = time.monotonic(), data_plane.counters()
        values = [counters[name] for name in COUNTED]
        last, self._last = self._last, (now, values)
        if last is None:
            return None
        took = max(now - last[0], 1e-3)
        rates = [(new - old) / took for new, old in zip(values, last[1], strict=True)]
        return self.add(Rates(*rates), counters["connections_open"])

    def add(self, rates: Rates, connections: int) -> Sample:
        self.count += 1
        sample = Sample(self.count, int(time.time() * 1000), connections, rates)
        self.samples.append(sample)
        return sample
