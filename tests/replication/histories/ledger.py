"""What the clients know: what was sent and acknowledged, and what anybody ever saw. Times are those
of one clock, `time.monotonic`, so that what was before and after is known."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

from tests.replication.histories.site import Partition

SHOWN_MAX = 20  # of each kind of anomaly
NEVER = float("inf")


@dataclass
class Append:
    """A value that was sent. Who reads the history knows it by its value."""

    producer: str
    number: int
    partition: Partition
    sent_s: float
    acked_s: float = NEVER
    offset: int = -1
    error: str = ""


class Anomalies:
    """By kind, with words; any thread adds."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = defaultdict(list)
        self.counts: dict[str, int] = defaultdict(int)
        self._guard = threading.Lock()

    def add(self, kind: str, words: str) -> None:
        with self._guard:
            self.counts[kind] += 1
            if len(self.found[kind]) < SHOWN_MAX:
                self.found[kind].append(words)

    def __str__(self) -> str:
        return "\n".join(
            f"{kind} ({self.counts[kind]}): " + "; ".join(words)
            for kind, words in self.found.items()
        )


@dataclass
class Ledger:
    anomalies: Anomalies = field(default_factory=Anomalies)
    appends: dict[str, Append] = field(default_factory=dict)  # by value
    guard: threading.Lock = field(default_factory=threading.Lock)
    seen: dict[Partition, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    # the end of what was acknowledged with acks=all, by partition
    acked_ends: dict[Partition, int] = field(default_factory=lambda: defaultdict(int))

    def saw(self, who: str, partition: Partition, offset: int, value: str) -> None:
        """There is one value at an offset, whoever reads it and when."""
        known = self.seen[partition].setdefault(offset, value)
        if known != value:
            self.anomalies.add("changed", f"{who} saw {value} at {partition} {offset}, where "
                                          f"{known} was seen")  # fmt: skip

    def acked_end(self, partition: Partition) -> int:
        with self.guard:
            return self.acked_ends[partition]

    def acked(self, append: Append, offset: int, now_s: float, is_all: bool) -> None:
        with self.guard:
            append.acked_s, append.offset = now_s, offset
            if is_all and offset >= 0:
                end = max(self.acked_ends[append.partition], offset + 1)
                self.acked_ends[append.partition] = end
