"""`catalog.db`: what the broker knows beside its logs, in SQLite. Opened, migrated, read, changed.

The catalog decides whether a topic exists and how it is configured; the logs hold the records. What
the rows of a table mean is said where they are read and written, in the room of their owner
(`schema.py` lists them). A change is on disk when it returns (WAL, `synchronous=FULL`), or it
raises and changed nothing.

Threads: any thread may call, a lock lets one in at a time, and a change takes a disk's sync. So
the control thread reads once at the start, and sends changes to a thread beside it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from appliance.catalog import kafka_uuid
from appliance.catalog.schema import ADDITIONS, SCHEMA, format_of
from appliance.errors import ApplianceError, DataNewer, StorageFull
from appliance.machine.page_cache import read_anew
from appliance.process import owner_only

NAME = "catalog.db"
APPLICATION_ID = 0x4170706C  # "Appl": tells our file from any other program's
COPIES_MAX = 3  # of catalogs from before a migration

Run = Callable[..., sqlite3.Cursor]
Values = tuple[object, ...]  # of a row, in the order of its columns


class CatalogUnusable(ApplianceError):
    """The start cannot go on; the text says what to do."""

    kafka_code = 56


class CatalogFailed(ApplianceError):
    """A change could not be made durable, and was not made."""

    kafka_code = 56


class Catalog:
    """`open` is the constructor."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._database = database
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> Catalog:
        """Makes the file when it is not there."""
        try:
            # SQLite gives its other files the same mode; passwords will be in here.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise CatalogUnusable(f"{path} cannot be opened: {error.strerror}") from error
        for each in (path, path.with_name(f"{path.name}-wal")):
            read_anew(each)
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        catalog = cls(database, path)
        try:
            catalog._prepare()
        except (sqlite3.Error, ApplianceError) as error:
            database.close()
            if isinstance(error, ApplianceError):
                raise
            if "locked" in str(error):
                raise CatalogUnusable(f"{path}: another program has it open; end that") from error
            raise _unusable(path, str(error)) from error
        return catalog

    def _prepare(self) -> None:
        # Exclusive: the index of the write-ahead log is then kept in memory. As a mapped file it
        # would need room at the start, and there must be a start also on a full disk.
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = self._pragma("user_version")
        if version > len(SCHEMA):
            raise DataNewer.of(f"{self.path}: its schema", version, len(SCHEMA))
        is_ours = self._pragma("application_id") == APPLICATION_ID
        if not is_ours and self._pragma("schema_version"):
            raise _unusable(self.path, "it is another program's database")
        fault = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise _unusable(self.path, fault)
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "journal_mode = WAL"):
            self._database.execute(f"PRAGMA {pragma}")
        missing = ADDITIONS.keys() - self._tables()
        if 0 < version < len(SCHEMA):
            self._keep_copy(version)
        if version < len(SCHEMA) or missing:
            self._migrate(version, [ADDITIONS[name] for name in ADDITIONS if name in missing])

    def _tables(self) -> set[str]:
        rows = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in rows}

    def _keep_copy(self, version: int) -> None:
        """Of before a migration that changes tables, for who finds it was wrong: on disk before it
        begins. A kill leaves the copy or nothing."""
        kept = self.path.with_name(f"{self.path.stem}.{format_of(version)}.db")
        try:
            fresh = self._copied()
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(fresh, kept)
            for each in copies(self.path.parent)[:-COPIES_MAX]:
                each.unlink()
            sync_directory(self.path.parent)
        except OSError as error:
            raise CatalogFailed(
                f"{self.path} is not migrated, as it cannot be copied to {kept}: {error.strerror}"
            ) from error

    def _migrate(self, version: int, additions: Iterable[str]) -> None:
        with self.change() as run:
            for step in (*SCHEMA[version:], *additions):
                for statement in step.split(";"):
                    run(statement)
            run(f"PRAGMA application_id = {APPLICATION_ID}")
            run(f"PRAGMA user_version = {len(SCHEMA)}")
            if version == 0:
                cluster_id, now_ms = kafka_uuid.text_of(kafka_uuid.new()), time.time_ns() // 10**6
                run("INSERT INTO cluster VALUES (1, ?, ?, 0)", (cluster_id, now_ms))

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @property
    def cluster_id(self) -> str:
        return str(self.rows("SELECT id FROM cluster")[0][0])

    def _pragma(self, name: str) -> int:
        return int(self._database.execute(f"PRAGMA {name}").fetchone()[0])

    def rows(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise CatalogFailed(f"{self.path} cannot be read: {error}") from error

    @contextmanager
    def change(self) -> Iterator[Run]:
        """One transaction, on disk at the end of the block; not at all when anything is raised."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database.execute
                self._database.execute("COMMIT")
            except BaseException as error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise _failed(self.path, error) from error
                raise

    def copy(self) -> bytes:
        """The file as it is with all changes so far, for a backup."""
        try:
            return self._copied().read_bytes()
        except OSError as error:
            raise CatalogFailed(f"{self.path} cannot be copied: {error}") from error
        finally:
            self._place_of_copy.unlink(missing_ok=True)

    @property
    def _place_of_copy(self) -> Path:
        return self.path.with_name(f"{self.path.name}-copy")

    def _copied(self) -> Path:
        """Not synced."""
        place = self._place_of_copy
        try:
            with self._lock:
                owner_only.write(place, b"")
                with closing(sqlite3.connect(place)) as copied:
                    self._database.backup(copied)
        except (sqlite3.Error, OSError) as error:
            raise CatalogFailed(f"{self.path} cannot be copied to {place}: {error}") from error
        return place

    def run(self, statement: str, values: Values) -> int:
        """A transaction of one statement; the count of the rows that it changed."""
        with self.change() as run:
            return run(statement, values).rowcount


def copies(directory: Path) -> list[Path]:
    """Of catalogs from before a migration, the oldest first."""
    found = directory.glob("catalog.*.db")
    return sorted(found, key=lambda each: each.stat().st_mtime_ns)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, what: str) -> CatalogUnusable:
    return CatalogUnusable(
        f"{path} is not a catalog that can be used: {what}. The logs are not affected. Put a copy "
        f"of the file from a backup in its place; or move {path.name}, {path.name}-wal and "
        f"{path.name}-shm elsewhere and start again: topics and their ids are then taken from the "
        "directories, and configs are to be set anew"
    )


def _failed(path: Path, error: sqlite3.Error) -> ApplianceError:
    kind = StorageFull if "full" in str(error) else CatalogFailed
    return kind(f"{path} cannot be changed: {error}")
