"""Directories of records in the catalog, and in which of them each partition is.

All three tables are empty while `data.dir` is the only directory and always was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from appliance.catalog.catalog import Catalog, Run

Key = tuple[str, int]  # topic, partition
Places = Mapping[Key, str]  # the directory's id


class Move(NamedTuple):
    """From one directory to another, by their ids."""

    source: str
    target: str


class LogDirectoryRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def directories(self) -> dict[str, str]:
        """The path at which each was last, by id."""
        return dict(self._catalog.rows("SELECT id, path FROM log_directories"))

    def put_directory(self, directory: str, path: str) -> None:
        """Where one is, that is new or was moved."""
        self._catalog.run("INSERT OR REPLACE INTO log_directories VALUES (?, ?)",
                          (directory, path))  # fmt: skip

    def places(self) -> dict[Key, str]:
        query = "SELECT topic, partition, directory FROM partition_directories"
        return {(topic, number): found for topic, number, found in self._catalog.rows(query)}

    def place(self, places: Places) -> None:
        """All of them, in one transaction."""
        if places:
            with self._catalog.change() as run:
                insert_places(run, places)

    def forget(self, directory: str) -> None:
        """It is given up, with all that was in it."""
        with self._catalog.change() as run:
            run("DELETE FROM partition_moves WHERE ? IN (source, target)", (directory,))
            run("DELETE FROM partition_directories WHERE directory = ?", (directory,))
            run("DELETE FROM log_directories WHERE id = ?", (directory,))

    def forget_all(self) -> None:
        """There is one directory from now on, and no other."""
        with self._catalog.change() as run:
            for table in ("partition_moves", "partition_directories", "log_directories"):
                run(f"DELETE FROM {table}")

    # Moves

    def moves(self) -> dict[Key, Move]:
        query = "SELECT topic, partition, source, target FROM partition_moves"
        return {(row[0], row[1]): Move(row[2], row[3]) for row in self._catalog.rows(query)}

    def begin_move(self, key: Key, move: Move) -> None:
        self._catalog.run("INSERT OR REPLACE INTO partition_moves VALUES (?, ?, ?, ?)",
                          (*key, *move))  # fmt: skip

    def end_move(self, key: Key) -> None:
        self._catalog.run("DELETE FROM partition_moves WHERE topic = ? AND partition = ?", key)


def insert_places(run: Run, places: Places) -> None:
    for key, directory in places.items():
        run("INSERT OR REPLACE INTO partition_directories VALUES (?, ?, ?)", (*key, directory))
