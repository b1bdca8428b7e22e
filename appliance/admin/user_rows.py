"""Users of the admin pages in the catalog, and tokens for programs."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass, field
from pathlib import Path

from appliance.catalog.catalog import Catalog

SINCE = 5  # the version of the schema that has the table of users


@dataclass(frozen=True)
class AdminUser:
    """The fields are the columns."""

    name: str
    role: str
    password_hash: str = field(repr=False)
    created_ms: int
    may_read: int = 1  # may read messages; 0: no


@dataclass(frozen=True)
class AdminToken:
    """The fields are the columns."""

    name: str
    role: str
    digest: bytes = field(repr=False)
    created_ms: int
    may_read: int = 1  # may read messages; 0: no
    expires_ms: int | None = None  # None: never


class UserRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def users(self) -> list[AdminUser]:
        return [AdminUser(*row) for row in self._catalog.rows("SELECT * FROM admin_users")]

    def put_user(self, user: AdminUser) -> None:
        statement = "INSERT OR REPLACE INTO admin_users VALUES (?, ?, ?, ?, ?)"
        self._catalog.run(statement, astuple(user))

    def delete_user(self, name: str) -> None:
        self._catalog.run("DELETE FROM admin_users WHERE name = ?", (name,))

    def tokens(self) -> list[AdminToken]:
        return [AdminToken(*row) for row in self._catalog.rows("SELECT * FROM admin_tokens")]

    def add_token(self, token: AdminToken) -> None:
        self._catalog.run("INSERT INTO admin_tokens VALUES (?, ?, ?, ?, ?, ?)", astuple(token))

    def delete_token(self, name: str) -> None:
        self._catalog.run("DELETE FROM admin_tokens WHERE name = ?", (name,))


def has_users(path: Path) -> bool:
    """Whether a catalog that is not open yet has a user of the admin pages. An unreadable catalog
    counts as yes."""
    if not path.exists():
        return False
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version < SINCE:
                return False
            return database.execute("SELECT 1 FROM admin_users LIMIT 1").fetchone() is not None
        finally:
            database.close()
    except sqlite3.Error:
        return True
