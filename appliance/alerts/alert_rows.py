"""Alerts in the catalog: those that wait and the last that were sent, and what is told to be
wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from appliance.alerts.alert import Alert, Condition, Delivery
from appliance.catalog.catalog import Catalog, Run
from appliance.process.known_fields import made

PUT = (
    "INSERT INTO alerts VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET deliveries = excluded.deliveries"
)
SHORTEN = "DELETE FROM alerts WHERE id IN (SELECT id FROM alerts ORDER BY at_ms LIMIT ?)"


class AlertRows:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def all(self) -> list[Alert]:
        """The oldest first."""
        rows = self._catalog.rows("SELECT * FROM alerts ORDER BY at_ms, rowid")
        return [_alert(*row) for row in rows]

    def conditions(self) -> list[Condition]:
        rows = self._catalog.rows("SELECT condition FROM alert_conditions")
        return [made(Condition, json.loads(text)) for (text,) in rows]

    def put(self, alerts: Iterable[Alert], told: Iterable[Condition] | None, most: int) -> None:
        """`told`: all that is told to be wrong from now on; None: what was."""
        with self._catalog.change() as run:
            for each in alerts:
                run(PUT, _row(each))
            surplus = run("SELECT count(*) FROM alerts").fetchone()[0] - most
            if surplus > 0:
                run(SHORTEN, (surplus,))
            if told is not None:
                _replace(run, {each.key: json.dumps(asdict(each)) for each in told})

    def targets(self) -> dict[str, str]:
        return dict(self._catalog.rows("SELECT * FROM alert_targets"))

    def put_targets(self, targets: dict[str, str]) -> None:
        with self._catalog.change() as run:
            run("DELETE FROM alert_targets")
            for row in targets.items():
                run("INSERT INTO alert_targets VALUES (?, ?)", row)


def _replace(run: Run, told: dict[str, str]) -> None:
    stored = {key for (key,) in run("SELECT key FROM alert_conditions")}
    for key in stored - told.keys():
        run("DELETE FROM alert_conditions WHERE key = ?", (key,))
    for key in told.keys() - stored:
        run("INSERT INTO alert_conditions VALUES (?, ?)", (key, told[key]))


def _row(alert: Alert) -> tuple[object, ...]:
    found = asdict(alert)
    deliveries = found.pop("deliveries")
    return found.pop("id"), found.pop("at_ms"), json.dumps(found), json.dumps(deliveries)


def _alert(id_: str, at_ms: int, text: str, deliveries: str) -> Alert:
    found: dict[str, Any] = json.loads(text)
    for name in ("began", "ended"):
        found[name] = tuple(made(Condition, each) for each in found[name])
    by_channel = {name: made(Delivery, each) for name, each in json.loads(deliveries).items()}
    return made(Alert, {"id": id_, "at_ms": at_ms, **found, "deliveries": by_channel})
