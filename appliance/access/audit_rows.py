"""The audit trail in the catalog. It is bounded: the person with most rows loses the oldest."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass

from appliance.catalog.catalog import Catalog, Run

ROWS_MAX = 100_000  # some 20 MB
STRANGERS_MAX = 10_000  # of these, without a login: 8 hours of the worst attack
INSERT = f"INSERT INTO audit VALUES ({', '.join('?' * 9)})"
STRANGER = "not logged in"  # no user can have such a name


@dataclass(frozen=True)
class AuditRow:
    """The fields are the columns."""

    id: int  # 0: a new one
    at_ms: int
    who: str
    peer: str
    action: str
    details: str
    status: int  # of HTTP; at Kafka's port an error's code, 0: none, or one of HTTP for logins
    port: str = "admin"
    mechanism: str = ""  # by which who asked has logged in; "": it has not, or it is not known


class AuditRows:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._counts: Counter[str] | None = None  # rows by person; None: not counted yet

    def add(self, *rows: AuditRow) -> None:
        """Beyond the limit the person with most rows loses the oldest, so nobody pushes out
        another person's rows."""
        with self.catalog.change() as run:
            for row in rows:
                run(INSERT, (None, *astuple(row)[1:]))
            counts, self._counts = self._counts, None  # counted again if this fails
            if counts is None:
                counts = Counter(dict(run("SELECT who, count(*) FROM audit GROUP BY who")))
            else:
                counts.update(row.who for row in rows)
            _shorten(run, counts, counts[STRANGER] - STRANGERS_MAX, STRANGER)
            _shorten(run, counts, sum(counts.values()) - ROWS_MAX, None)
            self._counts = counts

    def newest(self, before: int | None, limit: int) -> list[AuditRow]:
        most = before if before is not None else 2**63 - 1
        query = "SELECT * FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?"
        return [AuditRow(*row) for row in self.catalog.rows(query, (most, limit))]


def _shorten(run: Run, counts: Counter[str], surplus: int, who: str | None) -> None:
    """Deletes rows of the whole trail, or of the person with most, and updates `counts`. Deletes
    some more than necessary, because finding them reads the trail."""
    while surplus > 0:
        most = who if who is not None else counts.most_common(1)[0][0]
        count = min(counts[most], surplus + ROWS_MAX // 1000)
        oldest = "SELECT id FROM audit WHERE who = ? ORDER BY id LIMIT ?"
        run(f"DELETE FROM audit WHERE id IN ({oldest})", (most, count))
        counts[most] -= count
        surplus -= count
