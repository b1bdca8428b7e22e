"""The history as its users see it: `add` what was measured, `read` a range of it.

What was added is in memory until `write`, once a minute; a read writes first. Both are for a
thread beside the event loop; `add` is for any.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from appliance.errors import ApplianceError
from appliance.history.history_file import NAME, HistoryFile, Place, Sample, Step
from appliance.history.levels import HOUR_S, Level, Levels
from appliance.process import event_log

log = event_log.named("history")

WAITING_MAX = 200_000  # steps in memory while the disk takes none: some 40 MB, then they are lost


class HistoryUnread(ApplianceError):
    """The disk does not give it."""

    kafka_code = 56


class Range(NamedTuple):
    level: Level
    series: dict[str, list[Sample]]


class History:
    """The file is opened at the first write: a start does not wait for it."""

    def __init__(self, directory: Path, days: int, series_max: int) -> None:
        self.levels = Levels(days)
        self.left_out = 0  # series without a place in the last write
        self._path = directory / NAME
        self._series_max = series_max
        self._file: HistoryFile | None = None
        self._waiting: dict[Place, Step] = {}
        self._waiting_lock = threading.Lock()
        self._file_lock = threading.Lock()
        self._fault = ""
        self._forgotten_s = 0

    def add(self, at_s: int, values: Mapping[str, float]) -> None:
        with self._waiting_lock:
            for name, value in values.items():
                for level in self.levels.of(name):
                    place = (level.number, at_s - at_s % level.step_s, name)
                    step = self._waiting.get(place)
                    self._waiting[place] = step.and_also(value) if step else Step(1, value, value)

    def write(self, now_s: int) -> None:
        """Logs a fault once. What is not written waits for the next time."""
        with self._file_lock:
            try:
                self._write(now_s)
            except (sqlite3.Error, OSError) as error:
                self._say(f"{self._path}: {error}")
                self._shut()
            else:
                self._say("")

    def read(self, names: Collection[str], from_s: int, to_s: int, now_s: int) -> Range:
        """All of one kind. Raises HistoryUnread."""
        level = self.levels.for_range(next(iter(names)), from_s, to_s, now_s)
        with self._file_lock:
            try:
                self._write(now_s)
                file = self._opened()
                begin_s = from_s - from_s % level.step_s
                return Range(level, file.read(level, names, begin_s, to_s))
            except (sqlite3.Error, OSError) as error:
                self._shut()
                raise HistoryUnread(f"the history in {self._path}: {error}") from error

    def close(self, now_s: int) -> None:
        self.write(now_s)
        with self._file_lock:
            self._shut()

    def _shut(self) -> None:
        """The next use opens it, and looks whether it is whole."""
        if self._file:
            self._file.close()
        self._file = None

    def _write(self, now_s: int) -> None:
        file = self._opened()
        with self._waiting_lock:
            steps, self._waiting = self._waiting, {}
        try:
            self.left_out = file.add(steps, self._series_max) if steps else 0
        except (sqlite3.Error, OSError):
            self._take_back(steps)
            raise
        if abs(now_s - self._forgotten_s) >= HOUR_S:
            file.forget(self.levels.all, now_s)
            self._forgotten_s = now_s

    def _take_back(self, steps: dict[Place, Step]) -> None:
        with self._waiting_lock:
            for place, step in steps.items():
                newer = self._waiting.get(place)
                self._waiting[place] = _sum(step, newer) if newer else step
            if len(self._waiting) > WAITING_MAX:
                log.warning("history is lost, for the disk takes none", steps=len(self._waiting))
                self._waiting = {}

    def _opened(self) -> HistoryFile:
        if self._file is None:
            try:
                self._file = HistoryFile(self._path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # the disk's, not the file's
                log.warning("history begins anew", file=str(self._path), error=str(error))
                self._remove()
                self._file = HistoryFile(self._path)
        return self._file

    def _remove(self) -> None:
        for ending in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(self._path.name + ending).unlink()

    def _say(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.warning("history is not written", error=fault)
        self._fault = fault


def _sum(one: Step, other: Step) -> Step:
    return Step(one.values + other.values, one.sum + other.sum, max(one.max, other.max))
