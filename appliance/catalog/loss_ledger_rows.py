"""Entries of the ledger in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appliance.catalog.catalog import Catalog, Values


class LedgerRows:
    """A row: id, time, topic, partition, first and last offset, kind, cause, where the rest of it
    was put, when it was acknowledged and by whom."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[tuple[Any, ...]]:
        return self._catalog.rows("SELECT * FROM ledger ORDER BY id")

    def add(self, rows: Iterable[Values]) -> list[int]:
        """All or none; their ids. A row is given without its id."""
        statement = "INSERT INTO ledger VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self._catalog.change() as run:
            return [run(statement, row).lastrowid or 0 for row in rows]

    def acknowledge(self, ids: Iterable[int], at_ms: int, who: str) -> None:
        statement = "UPDATE ledger SET acknowledged_ms = ?, acknowledged_by = ? WHERE id = ?"
        with self._catalog.change() as run:
            for number in ids:
                run(statement, (at_ms, who, number))
