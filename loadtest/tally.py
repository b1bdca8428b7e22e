"""Counts of the users: of one process since the last report, of all since the start."""

from __future__ import annotations

from collections import Counter
from typing import Any

from loadtest.acknowledged_batches import Ledger
from loadtest.histogram import Histogram

# The timings of users. Locust shows them under these names.
PRODUCE, END_TO_END, FETCH, COMMIT, REBALANCE = "PRODUCE", "END-TO-END", "FETCH", "COMMIT", "JOIN"


class Tally:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # by "PRODUCE records" and the like
        self.times: dict[str, Histogram] = {}
        self.ledger = Ledger()

    def done(self, kind: str, seconds: float, records: int, size: int) -> None:
        counts = self.counts
        counts[f"{kind} events"] += 1
        counts[f"{kind} records"] += records
        counts[f"{kind} bytes"] += size
        times = self.times.get(kind)
        if times is None:
            times = self.times[kind] = Histogram()
        times.put(seconds)

    def count(self, what: str, more: int = 1) -> None:
        self.counts[what] += more

    def take(self) -> dict[str, Any]:
        """Returns the counts for the total; this tally starts again."""
        taken = {
            "counts": dict(self.counts),
            "times": {kind: dict(times.counts) for kind, times in self.times.items()},
            "acked": self.ledger.take(),
        }
        self.counts.clear()
        self.times.clear()
        return taken

    def add(self, taken: dict[str, Any]) -> None:
        self.counts.update(taken["counts"])
        for kind, counts in taken["times"].items():
            self.times.setdefault(kind, Histogram()).add(counts)
        self.ledger.add(taken["acked"])
