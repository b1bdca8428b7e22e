"""Credentials of SCRAM logins in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appliance.catalog.catalog import Catalog, Values


class ScramRows:
    """A row: user, mechanism, salt, stored key, server key, iterations."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[tuple[Any, ...]]:
        return self._catalog.rows("SELECT * FROM scram")

    def change(self, put: Iterable[Values], removed: Iterable[Values]) -> None:
        """`removed` are users with their mechanisms."""
        with self._catalog.change() as run:
            for row in removed:
                run("DELETE FROM scram WHERE (user, mechanism) = (?, ?)", row)
            for row in put:
                run("INSERT OR REPLACE INTO scram VALUES (?, ?, ?, ?, ?, ?)", row)
