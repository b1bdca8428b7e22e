"""Exports in the catalog: definitions and runs, both as JSON."""

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
        """Together with its runs."""
        self._catalog.run("DELETE FROM exports WHERE name = ?", (name,))

    def runs(self, export: str, limit: int, state: str = "%") -> list[str]:
        """In the order of the reports: by start time, a run of a wrong clock would stay on top."""
        query = (
            "SELECT run FROM export_runs WHERE export = ? AND state LIKE ? "
            "ORDER BY rowid DESC LIMIT ?"
        )
        return [text for (text,) in self._catalog.rows(query, (export, state, limit))]

    def run(self, export: str, run: str) -> str | None:
        query = "SELECT run FROM export_runs WHERE export = ? AND id = ?"
        rows = self._catalog.rows(query, (export, run))
        return next((text for (text,) in rows), None)

    def put_run(self, export: str, row: Values, most: int) -> None:
        """`row`: id, state, start and JSON. The last successful run stays, however old it is."""
        trim = (
            "DELETE FROM export_runs WHERE export = ?1 AND id NOT IN (SELECT id FROM export_runs "
            "WHERE export = ?1 ORDER BY rowid DESC LIMIT ?2) AND id NOT IN (SELECT id FROM "
            "export_runs WHERE export = ?1 AND state = 'succeeded' ORDER BY rowid DESC LIMIT 1)"
        )
        with self._catalog.change() as run:
            run("INSERT OR REPLACE INTO export_runs VALUES (?, ?, ?, ?, ?)", (export, *row))
            run(trim, (export, most))
