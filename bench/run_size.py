"""The extent of a run: rounds, time limit, and size of the loads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    rounds: int = 5
    long_rounds: int = 3  # rounds of a case that takes a minute
    minutes: float = 60
    load: float = 1  # share of the full records and seconds of a case
    recovered_gb: int = 10
    grown_gb: int = 100

    def records(self, count: int) -> int:
        return round(count * self.load)

    def seconds(self, count: float) -> float:
        """At least a second: shorter loads measure the start-up."""
        return max(1.0, count * self.load)


WHOLE = Extent()
QUICK = Extent(rounds=3, long_rounds=2, minutes=15, load=0.2, recovered_gb=2, grown_gb=20)
