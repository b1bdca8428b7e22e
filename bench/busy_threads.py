"""What the threads of a process do with their time: whether one of them is what limits the rest.

A thread runs, waits for a core that others have, or sleeps until there is something to do. The
kernel counts the first two of each thread (`/proc/PID/task/TID/schedstat`), in nanoseconds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

LOOK_S = 0.02  # between two looks: what a thread did after the last one before its end is not seen


@dataclass
class Busiest:
    """The thread that ran most. Where nothing else took the cores, a transfer takes no less than
    it ran; it slept while others were what it waited for."""

    run_s: float
    wait_s: float
    sleeps: float  # percent of the time


@dataclass
class BusyThreads:
    """While it is entered it watches these processes."""

    pids: Iterable[int]
    _first: dict[int, tuple[int, int]] = field(default_factory=dict)
    _last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __enter__(self) -> BusyThreads:
        self._began, self._ended = time.monotonic(), threading.Event()
        self._look()
        self._watch = threading.Thread(target=self._look_on)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.join()
        self._look()
        self._took_ns = (time.monotonic() - self._began) * 1e9

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        for pid in self.pids:
            for thread, counts in counted(pid).items():
                self._first.setdefault(thread, counts)
                self._last[thread] = counts

    def busiest(self) -> Busiest:
        spent = [(run - self._first[thread][0], wait - self._first[thread][1])
                 for thread, (run, wait) in self._last.items()]
        runs, waits = max(spent, default=(0, 0))
        return Busiest(runs / 1e9, waits / 1e9, 100 * (1 - (runs + waits) / self._took_ns))


def counted(pid: int) -> dict[int, tuple[int, int]]:
    """By thread: how long it ran, and how long it waited for a core."""
    found: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob(f"{pid}/task/*/schedstat"):
        with contextlib.suppress(OSError):  # it ended meanwhile: what was seen of it counts
            run, wait, _ = path.read_text().split()
            found[int(path.parent.name)] = int(run), int(wait)
    return found
