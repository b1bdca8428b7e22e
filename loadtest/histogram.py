"""Times in steps of one per cent, from a microsecond on, which add up across processes.

Locust's own percentiles are in whole milliseconds, too coarse for a fast broker.
"""

from __future__ import annotations

import math
from collections import Counter

STEPS = 100  # per factor of e


class Histogram:
    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self.counts = Counter(counts or {})

    def put(self, seconds: float) -> None:
        self.counts[int(math.log(max(seconds * 1e6, 1.0)) * STEPS)] += 1

    def add(self, counts: dict[int, int]) -> None:
        self.counts.update(counts)

    def since(self, before: Histogram) -> Histogram:
        """Those that were put after `before`, an earlier copy of this one."""
        return Histogram(self.counts - before.counts)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, part: float) -> float:
        """Seconds, rounded up by at most one per cent; NaN without times."""
        wanted = math.ceil(self.total * part)
        seen = 0
        for step in sorted(self.counts):
            seen += self.counts[step]
            if seen >= wanted:
                return math.exp((step + 1) / STEPS) / 1e6
        return math.nan
