"""Names and values that were set for something: configs of topics, groups and the broker, quotas of
clients, subscriptions to their metrics. All these tables have the same three columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from appliance.catalog.catalog import Catalog, Run

Owner = TypeVar("Owner")  # whose they are
Value = TypeVar("Value")


class ConfigRows(Generic[Owner, Value]):
    """One table; `owner` is its first column."""

    def __init__(self, catalog: Catalog, table: str, owner: str) -> None:
        self._catalog = catalog
        self._select = f"SELECT {owner}, name, value FROM {table} ORDER BY {owner}, name"
        self._delete = f"DELETE FROM {table} WHERE {owner} = ?"
        self._insert = f"INSERT INTO {table} VALUES (?, ?, ?)"

    def all(self) -> dict[Owner, dict[str, Value]]:
        found: dict[Owner, dict[str, Value]] = {}
        for owner, name, value in self._catalog.rows(self._select):
            found.setdefault(owner, {})[name] = value
        return found

    def set(self, configs: Mapping[Owner, Mapping[str, Value]]) -> None:
        """All of each owner that is given: what it had else is gone."""
        with self._catalog.change() as run:
            for owner, values in configs.items():
                run(self._delete, (owner,))
                self.insert(run, owner, values)

    def insert(self, run: Run, owner: Owner, values: Mapping[str, Value]) -> None:
        """In a transaction that does something else, too."""
        for name, value in values.items():
            run(self._insert, (owner, name, value))
