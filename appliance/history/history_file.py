"""`history.db`, in SQLite: for each series and step of time the mean and the largest value.

    series   id, name
    samples  level, at (seconds, the begin of the step), series, how many values, their sum, the
             largest

A step is written in parts, which add up: so a restart within an hour loses at most a minute of it.
The order of the key lets all that one minute has be written side by side. A read passes over other
series, which takes 0.1 s for a month of a thousand.

It is no promise: WAL without a sync at each write. A power cut may take the last writes, not the
file. A file that is damaged all the same is begun anew, and said to be.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from appliance.history.levels import Level

NAME = "history.db"
APPLICATION_ID = 0x41706873  # "Aphs"
FORMAT = 1
TABLES = """
    CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE samples (
        level INTEGER NOT NULL,
        at INTEGER NOT NULL,
        series INTEGER NOT NULL,
        number INTEGER NOT NULL,
        sum REAL NOT NULL,
        max REAL NOT NULL,
        PRIMARY KEY (level, at, series)
    ) WITHOUT ROWID;
"""
ADD = """
    INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
        number = number + excluded.number, sum = sum + excluded.sum, max = max(max, excluded.max)
"""
FORGET_NAMES = "DELETE FROM series WHERE id NOT IN (SELECT DISTINCT series FROM samples)"


class Step(NamedTuple):
    """Of one series, or a part of it."""

    values: int
    sum: float
    max: float

    def and_also(self, value: float) -> Step:
        return Step(self.values + 1, self.sum + value, max(self.max, value))


Place = tuple[int, int, str]  # level, second, series


class Sample(NamedTuple):
    at_s: int
    mean: float
    max: float


class HistoryFile:
    """One thread at a time. Everything raises sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # names are in it
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise
        self._ids: dict[str, int] = {}  # empty: not read yet

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        return self._database.execute(statement, values)

    def _prepare(self) -> None:
        self._run("PRAGMA locking_mode = EXCLUSIVE")  # no mapped file beside it
        fault = self._run("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise sqlite3.DatabaseError(fault)
        found = self._run("PRAGMA user_version").fetchone()[0]
        if found not in (0, FORMAT):
            # not the fault of the file, which is not to be begun anew
            raise sqlite3.OperationalError(f"format {found}; this appliance knows {FORMAT}")
        self._run("PRAGMA journal_mode = WAL")
        self._run("PRAGMA synchronous = NORMAL")
        if found != FORMAT:
            self._database.executescript(
                f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {FORMAT}; COMMIT;"
            )

    def close(self) -> None:
        self._database.close()

    def add(self, steps: Mapping[Place, Step], series_max: int) -> int:
        """How many series had no place any more."""
        left_out: set[str] = set()
        with self._database:
            self._run("BEGIN")
            try:
                rows = []
                for (level, at, name), step in steps.items():
                    number = self._id_of(name, series_max)
                    if number is None:
                        left_out.add(name)
                    else:
                        rows.append((level, at, number, *step))
                self._database.executemany(ADD, rows)
            except BaseException:
                self._ids = {}  # of what is undone now
                raise
        return len(left_out)

    def _id_of(self, name: str, series_max: int) -> int | None:
        if not self._ids:
            self._ids = {name: number for number, name in self._run("SELECT id, name FROM series")}
        if name not in self._ids:
            if len(self._ids) >= series_max:
                return None
            added = self._run("INSERT INTO series (name) VALUES (?) RETURNING id", (name,))
            self._ids[name] = added.fetchone()[0]
        return self._ids[name]

    def read(
        self, level: Level, names: Collection[str], from_s: int, to_s: int
    ) -> dict[str, list[Sample]]:
        found: dict[str, list[Sample]] = {}
        for name in names:
            rows: Iterable[tuple[int, int, float, float]] = self._run(
                "SELECT at, number, sum, max FROM samples WHERE level = ? AND at BETWEEN ? AND ? "
                "AND series = (SELECT id FROM series WHERE name = ?) ORDER BY at",
                (level.number, from_s, to_s, name),
            )
            found[name] = [Sample(at, total / number, top) for at, number, total, top in rows]
        return found

    def forget(self, levels: Iterable[Level], now_s: int) -> None:
        """What is older than its level keeps, and names of which nothing is left."""
        with self._database:
            self._run("BEGIN")
            for each in levels:
                before = now_s - each.kept_s
                self._run(
                    "DELETE FROM samples WHERE level = ? AND at < ?", (each.number, before)
                )
            self._run(FORGET_NAMES)
        self._ids = {}
