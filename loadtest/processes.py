"""Processor time and memory of processes, sampled from /proc while a test runs."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_S = 1.0
UTIME, STIME, RESIDENT = 11, 12, 21  # fields of /proc/<pid>/stat after the name


class Processes:
    def __init__(self, pids: dict[str, int]) -> None:
        self.pids = pids
        self.cores: defaultdict[str, list[float]] = defaultdict(list)  # per second
        self.resident_most: defaultdict[str, int] = defaultdict(int)
        self._seconds: dict[int, float] = {}
        self._at = time.monotonic()

    def look(self) -> None:
        """Waits a second and samples it."""
        time.sleep(LOOK_S)
        now = time.monotonic()
        passed, self._at = now - self._at, now
        for name, pid in self.pids.items():
            used = self._used(name, pid)
            before = self._seconds.get(pid)
            if used is None:
                continue
            self._seconds[pid] = used
            if before is not None:
                self.cores[name].append((used - before) / passed)

    def _used(self, name: str, pid: int) -> float | None:
        """Processor seconds since its start; None: it has ended."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()
        resident = int(fields[RESIDENT]) * PAGE
        self.resident_most[name] = max(self.resident_most[name], resident)
        return (int(fields[UTIME]) + int(fields[STIME])) / TICKS

    def cores_most(self, name: str) -> float:
        return max(self.cores[name], default=0.0)

    def cores_mean(self, name: str) -> float:
        found = self.cores[name]
        return sum(found) / len(found) if found else 0.0


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]
