"""Retention holds in the catalog."""

from __future__ import annotations

from typing import Any

from appliance.catalog.catalog import Catalog, Values


class HoldRows:
    """A row: name, topic, offsets by partition as JSON, max_bytes, time of creation, time and
    reason of release."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[tuple[Any, ...]]:
        return self._catalog.rows("SELECT * FROM export_holds")

    def put(self, row: Values) -> None:
        statement = "INSERT OR REPLACE INTO export_holds VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._catalog.run(statement, row)

    def delete(self, name: str) -> None:
        self._catalog.run("DELETE FROM export_holds WHERE name = ?", (name,))
