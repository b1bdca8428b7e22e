"""Access rules in the catalog, and when they were first enforced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appliance.catalog.catalog import Catalog, Values

COLUMNS = (
    "resource_type, resource_name, pattern_type, principal, host, operation, permission_type"
)


class AclRows:
    """A row has the fields of an `Acl`, and whether it may decide: it was written while rules were
    enforced, or an administrator has confirmed it since."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[tuple[Any, ...]]:
        """The fields of an `Acl`, and whether it is confirmed."""
        return self._catalog.rows(f"SELECT {COLUMNS}, is_confirmed FROM acls")

    def change(
        self, added: Iterable[Values], removed: Iterable[Values], is_confirmed: bool = False
    ) -> None:
        """One that is there already may become confirmed, and stays so."""
        with self._catalog.change() as run:
            for row in removed:
                run(f"DELETE FROM acls WHERE ({COLUMNS}) = (?, ?, ?, ?, ?, ?, ?)", row)
            for row in added:
                run(
                    "INSERT INTO acls VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
                    "SET is_confirmed = max(is_confirmed, excluded.is_confirmed)",
                    (*row, int(is_confirmed)),
                )

    def enforced_since_ms(self) -> int | None:
        found = self._catalog.rows("SELECT since_ms FROM acl_enforcement")
        return int(found[0][0]) if found else None

    def begin_enforcement(self, now_ms: int) -> None:
        """The first time counts."""
        with self._catalog.change() as run:
            run("INSERT OR IGNORE INTO acl_enforcement VALUES (1, ?)", (now_ms,))
