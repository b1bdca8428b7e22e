"""Exports in the catalog: their definitions, and what became of their runs. Both are JSON."""

from __future__ import annotations

from appliance.catalog.catalog import Catalog, Values


class ExportRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> dict[str, str]:
        """Definitions by name."""
        return dict(self._catalog.rows("SELECT * FROM exports"))

    def put(self, name: str, definition: str) -> None:
        query = (
            "INSERT INTO exports VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET definition = excluded.definition"
        )
        self._catalog.run(query, (name, definition))

    def delete(self, name: str) -> None:
        """With its runs."""
        self._catalog.run("DELETE FROM exports WHERE name = ?", (name,))

    def runs(self, export: str, limit: int, state: str = "%") -> list[str]:
        """The one that was reported last is first: a clock that had been wrong would keep its run
        above all that come after."""
        query = (
            "SELECT run FROM export_runs WHERE export = ? AND state LIKE ? "
            "ORDER BY rowid DESC LIMIT ?"
        )
        return [text for (text,) in self._catalog.rows(query, (export, state, limit))]

    def put_run(self, export: str, row: Values, most: int) -> None:
        """`row`: id, state, start and JSON. The last that succeeded stays, however old it is."""
        trim = (
            "DELETE FROM export_runs WHERE export = ?1 AND id NOT IN (SELECT id FROM export_runs "
            "WHERE export = ?1 ORDER BY rowid DESC LIMIT ?2) AND id NOT IN (SELECT id FROM "
            "export_runs WHERE export = ?1 AND state = 'succeeded' ORDER BY rowid DESC LIMIT 1)"
        )
        with self._catalog.change() as run:
            run("INSERT OR REPLACE INTO export_runs VALUES (?, ?, ?, ?, ?)", (export, *row))
            run(trim, (export, most))
