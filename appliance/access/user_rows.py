"""Users and their credentials in the catalog: one table for Kafka clients and the console."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

from appliance.catalog.catalog import Catalog

NONE = "none"  # a role: the user may log in to Kafka, and not to the console
SECRET_BYTES = 32
NOBODY: Mapping[str, int] = {}

# Whether somebody may log in to the console, by the table that a version of the catalog has.
OF_CONSOLE = {
    "users": f"SELECT 1 FROM users WHERE role <> '{NONE}' AND password_hash <> '' LIMIT 1",
    "admin_users": "SELECT 1 FROM admin_users LIMIT 1",
}


@dataclass(frozen=True)
class User:
    """The fields are the columns."""

    name: str
    role: str = NONE
    password_hash: str = field(default="", repr=False)  # for the console; "": none
    created_ms: int = 0
    may_read: int = 1  # messages in the console; 0: no


@dataclass(frozen=True)
class Credential:
    """Of SCRAM. The fields are the columns; none of them is or tells the password."""

    user: str
    mechanism: int  # Kafka's number
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    # 0: it was written when everybody who reached the port could, so it opens nothing yet
    is_confirmed: int = 1


class UserRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def users(self) -> list[User]:
        return [User(*row) for row in self._catalog.rows("SELECT * FROM users")]

    def credentials(self) -> list[Credential]:
        return [Credential(*row) for row in self._catalog.rows("SELECT * FROM credentials")]

    def change(
        self,
        users: Iterable[User] = (),
        removed: Iterable[str] = (),
        credentials: Iterable[Credential] = (),
        withdrawn: Iterable[tuple[str, int]] = (),
        deleted: Mapping[str, int] = NOBODY,
    ) -> None:
        """All or nothing. `withdrawn` are credentials, by user and mechanism; those of a user that
        is `removed` go with it. `deleted` are users that are removed, and when: that is kept."""
        with self._catalog.change() as run:
            for row in deleted.items():
                run("INSERT OR REPLACE INTO deleted_users VALUES (?, ?)", row)
            for place in withdrawn:
                run("DELETE FROM credentials WHERE (user, mechanism) = (?, ?)", place)
            for name in (*removed, *deleted):
                run("DELETE FROM users WHERE name = ?", (name,))
            for user in users:
                # no REPLACE: it would delete the row first, and its credentials with it
                run(
                    "INSERT INTO users VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                    "role = excluded.role, password_hash = excluded.password_hash, "
                    "may_read = excluded.may_read",
                    astuple(user),
                )
            for each in credentials:
                statement = "INSERT OR REPLACE INTO credentials VALUES (?, ?, ?, ?, ?, ?, ?)"
                run(statement, astuple(each))

    def deleted(self) -> dict[str, int]:
        """When, by name."""
        return dict(self._catalog.rows("SELECT name, at_ms FROM deleted_users"))

    def login_secret(self) -> bytes:
        """Of this broker, made once. Nothing that is kept can be read with it."""
        for (found,) in self._catalog.rows("SELECT secret FROM login_secret"):
            return bytes(found)
        made = secrets.token_bytes(SECRET_BYTES)
        self.set_login_secret(made)
        return made

    def set_login_secret(self, secret: bytes) -> None:
        self._catalog.run("INSERT OR REPLACE INTO login_secret VALUES (1, ?)", (secret,))


def has_users(path: Path) -> bool:
    """Whether somebody may log in to the console, by a catalog that is not open yet. An unreadable
    catalog counts as yes."""
    if not path.exists():
        return False
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
            queries = (query for table, query in OF_CONSOLE.items() if table in tables)
            return any(database.execute(query).fetchone() is not None for query in queries)
        finally:
            database.close()
    except sqlite3.Error:
        return True
