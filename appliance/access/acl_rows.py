"""Access rules in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appliance.catalog.catalog import Catalog, Values


class AclRows:
    """A row has the fields of an `Acl`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[tuple[Any, ...]]:
        return self._catalog.rows("SELECT * FROM acls")

    def change(self, added: Iterable[Values], removed: Iterable[Values]) -> None:
        with self._catalog.change() as run:
            for row in removed:
                run(
                    "DELETE FROM acls WHERE (resource_type, resource_name, pattern_type, "
                    "principal, host, operation, permission_type) = (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
            for row in added:
                run("INSERT INTO acls VALUES (?, ?, ?, ?, ?, ?, ?)", row)
