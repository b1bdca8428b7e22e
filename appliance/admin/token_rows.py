"""Tokens of programs for the admin pages in the catalog."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

from appliance.catalog.catalog import Catalog


@dataclass(frozen=True)
class AdminToken:
    """The fields are the columns."""

    name: str
    role: str
    digest: bytes = field(repr=False)
    created_ms: int
    may_read: int = 1  # may read messages; 0: no
    expires_ms: int | None = None  # None: never


class TokenRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[AdminToken]:
        return [AdminToken(*row) for row in self._catalog.rows("SELECT * FROM admin_tokens")]

    def add(self, token: AdminToken) -> None:
        self._catalog.run("INSERT INTO admin_tokens VALUES (?, ?, ?, ?, ?, ?)", astuple(token))

    def delete(self, name: str) -> None:
        self._catalog.run("DELETE FROM admin_tokens WHERE name = ?", (name,))
