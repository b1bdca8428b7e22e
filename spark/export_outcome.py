"""Reports each run's end to the broker. If the run itself cannot, because it failed before its plan
or was killed, its command or the scheduler does."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed

Say = Callable[[str], None]
SKEW_MS = 1000  # between the rounded clocks of a run and its scheduler
ERROR_MAX = 2000  # characters


def note_told(error: BaseException) -> None:
    """The broker has the report, or cannot get one."""
    error.__dict__["is_told"] = True


@contextmanager
def told(name: str | None, broker: AdminPort) -> Iterator[None]:
    """An error before the run's first report is reported as a run."""
    began = round(time.time() * 1000)
    try:
        yield
    except Exception as error:
        if name is not None and "is_told" not in error.__dict__:
            row = _failed(f"early-{began}", began, began, str(error) or repr(error))
            _report(broker, name, row)
        raise


def _failed(run: str, began_ms: int, ended_ms: int, error: str) -> dict[str, Any]:
    return {"id": run, "state": "failed", "started_ms": began_ms, "ended_ms": ended_ms,
            "error": error[:ERROR_MAX]}


def _report(broker: AdminPort, name: str, row: dict[str, Any]) -> bool:
    """The caller gets the error itself in any case."""
    try:
        broker.report(name, row)
    except ExportFailed:
        return False
    return True


class Outcomes:
    """The results that a scheduler saw, kept until the broker has them."""

    def __init__(self, broker: AdminPort, say: Say) -> None:
        self._broker, self._say = broker, say
        self._unsaid: dict[str, dict[str, Any]] = {}

    def ended(self, name: str, code: int, began: float, now: float) -> None:
        if code == 0:
            self._unsaid.pop(name, None)
            return
        self._unsaid[name] = _failed(
            f"try-{began * 1000:.0f}", round(began * 1000), round(now * 1000), _words(code))

    def refused(self, name: str, why: str, now: float) -> None:
        """A definition that cannot run. It is reported each minute, in the same row."""
        self._unsaid[name] = _failed("refused", round(now * 1000), round(now * 1000), why)

    def tell(self) -> None:
        for name, row in list(self._unsaid.items()):
            try:
                if (due := self._row(name, row)) is not None:
                    self._broker.report(name, due)
            except ExportFailed as error:
                if not row.pop("is_new", True):
                    continue
                row["is_new"] = False
                self._say(f"the broker has not heard yet how {name} failed: {error}")
            else:
                del self._unsaid[name]

    def _row(self, name: str, row: dict[str, Any]) -> dict[str, Any] | None:
        """None if the run reported its end; a report that it runs is completed."""
        row = {key: value for key, value in row.items() if key != "is_new"}
        last = self._broker.definition(name)["status"]["last_run"]
        if last is None or last["started_ms"] < row["started_ms"] - SKEW_MS:
            return row
        if last["state"] == "running":
            return {**last, "state": "failed", "ended_ms": row["ended_ms"], "error": row["error"]}
        return None if last["state"] == "failed" else row


def _words(code: int) -> str:
    if code < 0:
        return f"the run was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"the run ended with code {code}; its output is in the scheduler's log"
