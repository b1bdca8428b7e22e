"""The migration of the catalog, run on a copy in a temporary folder.

The broker that is to be replaced may have the catalog open and locked. Its files are copied as they
are, and the copy counts if they did not change meanwhile and SQLite finds it whole.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.config_rows import ConfigRows
from appliance.catalog.schema import SCHEMA, format_of
from appliance.errors import ApplianceError

TRIES = 50  # a busy broker changes it several times a second, and a copy takes milliseconds


class NotMigrated(ApplianceError):
    """What a start would say of this catalog; or it changed under each copy."""


@dataclass(frozen=True)
class DryRun:
    format: str
    schema: int
    size: int  # of the catalog, with what is not in its main file yet
    changes: list[str] = field(default_factory=list)  # in words, by table
    configs: dict[bool, dict[str, str]] = field(default_factory=dict)  # set at run time

    @property
    def migrates_schema(self) -> bool:
        return self.schema < len(SCHEMA)


def dry_run(directory: Path) -> DryRun | None:
    """None: there is no catalog."""
    path = directory / NAME
    if not path.exists():
        return None
    with tempfile.TemporaryDirectory(prefix="appliance-upgrade-") as folder:
        copy = Path(folder) / NAME
        copy_whole(path, copy)
        size = sum(each.stat().st_size for each in files(copy))
        try:
            schema, before = look(copy)
        except sqlite3.Error:
            schema, before = 0, {}  # what opens it says what is wrong
        try:
            with closing(Catalog.open(copy)) as catalog:
                rows: ConfigRows[bool, str] = ConfigRows(catalog, "broker_configs", "is_default")
                configs = rows.all()
            _, after = look(copy)
        except ApplianceError as error:
            raise NotMigrated(str(error).replace(str(copy), str(path))) from error
        found = format_of(schema)
        return DryRun(found, schema, size, list(differences(before, after)), configs)


def files(path: Path) -> list[Path]:
    """The main file first. Without the index of the other one, which a broker has in memory."""
    found = (path, path.with_name(f"{path.name}-wal"))
    return [each for each in found if each.exists()]


def copy_whole(path: Path, copy: Path) -> None:
    for _ in range(TRIES):
        before = state_of(path)
        for each in files(path):
            shutil.copyfile(each, copy.with_name(each.name))
        if state_of(path) == before and is_whole(copy):
            return
        for each in copy.parent.iterdir():
            each.unlink()
    raise NotMigrated(f"{path} changed while it was copied, {TRIES} times: try again")


def state_of(path: Path) -> list[tuple[int, int]]:
    found = (each.stat() for each in files(path))
    return [(each.st_mtime_ns, each.st_size) for each in found]


def is_whole(copy: Path) -> bool:
    """A copy of two moments is not. Damage is none of this: it is found when the copy is opened."""
    try:
        with closing(sqlite3.connect(copy)) as database:
            return str(database.execute("PRAGMA quick_check(1)").fetchone()[0]) == "ok"
    except sqlite3.Error:
        return True


def look(copy: Path) -> tuple[int, dict[str, int]]:
    """Its schema, and how many rows each table has."""
    with closing(sqlite3.connect(copy)) as database:
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        named = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        counts = {
            str(name): int(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])
            for (name,) in named
        }
    return version, counts


def differences(before: dict[str, int], after: dict[str, int]) -> Iterator[str]:
    for name in sorted(after.keys() - before.keys()):
        yield f"table {name}: made, {after[name]} rows"
    for name in sorted(before.keys() - after.keys()):
        yield f"table {name}: gone, it had {before[name]} rows"
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield f"table {name}: {before[name]} rows, {after[name]} then"
