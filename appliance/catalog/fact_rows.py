"""Whose facts a catalog has: its own broker's, or a copy of a cluster's."""

from __future__ import annotations

import os

from appliance.catalog.catalog import Catalog, CatalogFailed, sync_directory
from appliance.process import owner_only

BEFORE = "catalog.before-cluster.db"


class FactRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def cluster(self) -> str:
        """ "": they are its own."""
        found = self._catalog.rows("SELECT cluster_id FROM cluster_facts")
        return str(found[0][0]) if found else ""

    def set_cluster(self, cluster_id: str) -> None:
        with self._catalog.change() as run:
            run("DELETE FROM cluster_facts")
            if cluster_id:
                run("INSERT INTO cluster_facts VALUES (1, ?)", (cluster_id,))

    def note_changed_user(self, name: str) -> None:
        """While the broker is stopped: the cluster hears of it at the start."""
        if self.cluster():
            self._catalog.run("INSERT OR IGNORE INTO users_changed_offline VALUES (?)", (name,))

    def changed_users(self) -> list[str]:
        query = "SELECT name FROM users_changed_offline ORDER BY name"
        return [str(name) for (name,) in self._catalog.rows(query)]

    def forget_changed_users(self) -> None:
        with self._catalog.change() as run:
            run("DELETE FROM users_changed_offline")

    def keep_copy(self) -> None:
        """Of before the cluster's facts take the place of its own; on disk when this returns."""
        path = self._catalog.path.with_name(BEFORE)
        fresh = path.with_name(f"{BEFORE}.new")
        try:
            owner_only.write(fresh, self._catalog.copy())
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(fresh, path)
            sync_directory(path.parent)
        except OSError as error:
            raise CatalogFailed(f"{path} cannot be written: {error.strerror}") from error
