"""Blocks of producer ids: the catalog knows the first id that was never reserved."""

from __future__ import annotations

from appliance.catalog.catalog import Catalog, Run

BLOCK = 1000  # ids reserved at a time: a sync for each thousand, and a crash wastes no more


class ProducerIdRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def reserve(self) -> range:
        """A block that nobody had before and nobody gets again, also after a crash."""
        with self._catalog.change() as run:
            first: int = run("SELECT next FROM producer_ids").fetchone()[0]
            run("UPDATE producer_ids SET next = ?", (first + BLOCK,))
        return range(first, first + BLOCK)


def skip_to(run: Run, next_id: int) -> None:
    """Those below were given by who knows whom: in a transaction that does something else, too."""
    run("UPDATE producer_ids SET next = max(next, ?)", (next_id,))
