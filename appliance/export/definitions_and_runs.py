"""Definitions of exports, and the runs that the export job reports.

The job decides when it runs and what it exports, and its manifest is the truth. The book has what
the job reported, for people and for metrics. It keeps each export's last run and last successful
run in memory.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from appliance.errors import ApplianceError, RequestInvalid, ResourceUnknown
from appliance.export import definition_version, due
from appliance.export.due import NEXT_RUN_BELIEVED_S
from appliance.export.export_options import migrated
from appliance.export.export_rows import ExportRows
from appliance.process import event_log
from appliance.process.patterns import PatternInvalid, compiled

log = event_log.named("export")

EXPORTS_MAX = 1000  # health and metrics look at each


class Last(NamedTuple):
    run: dict[str, Any] | None
    success: dict[str, Any] | None


def wanted_by(definition: Mapping[str, Any]) -> Callable[[str], bool]:
    """Matches the topics of an export by name. Raises PatternInvalid."""
    named, pattern = definition.get("topics") or [], definition.get("pattern")
    if not pattern:
        return lambda name: name in named
    matches = compiled(pattern).fullmatch
    return lambda name: name in named or matches(name) is not None


def fault_of(definition: Mapping[str, Any]) -> str:
    """The reason why the export cannot run. An older version may have accepted its definition; only
    this export is affected."""
    try:
        wanted_by(definition)
    except PatternInvalid as error:
        return f"pattern: {error}"
    if schedule := definition.get("schedule"):
        try:
            due.check(schedule["cron"], schedule.get("timezone") or "UTC")
        except (KeyError, OSError, ValueError) as error:
            return f"schedule.cron: got {schedule['cron'][:80]!r}: {error}"
    return ""


class Book:
    """Any thread may call its methods."""

    def __init__(self, rows: ExportRows, runs_max: int, *, is_of_newer: bool = False) -> None:
        """`is_of_newer`: a build that knows more options may have written them, and comes back."""
        self._rows = rows
        self._is_of_newer = is_of_newer
        self._runs_max = runs_max
        self._lock = threading.Lock()
        self._unstored: set[str] = set()  # migrated, and not on disk yet
        self._put_at: dict[str, float] = {}  # time of day; 0: an older version stored it
        self._definitions = {name: self._read(name, text) for name, text in rows.all().items()}
        self._last = {name: self._look(name) for name in self._definitions}
        self.since = time.monotonic()
        self._next: dict[str, tuple[int | None, float]] = {}  # in ms, and the time of the report

    def _read(self, name: str, text: str) -> dict[str, Any]:
        """Also removes from the disk what an older version accepted and this one does not: it may
        be a secret."""
        stored = json.loads(text)
        self._put_at[name] = stored.pop("defined_ms", 0) / 1000
        definition, dropped = migrated({"name": name, **stored})
        if dropped and not self._is_of_newer:
            self._store(definition)
            log.warning(
                "dropped from an export's definition: only its scheduler may configure that",
                export=name,
                dropped=", ".join(dropped),
                catalog=definition["options"].get("catalog"),
                do="configure the catalog of this name in pyiceberg's configuration there",
            )
        return definition

    def _store(self, definition: dict[str, Any]) -> None:
        """If the disk is full, the next report of a run retries; the start continues."""
        name = definition["name"]
        try:
            self._rows.put(name, self._text(definition, self._put_at[name]))
            self._unstored.discard(name)
        except ApplianceError as error:
            self._unstored.add(name)
            log.error("a migrated definition is not on disk yet", export=name, error=error)

    def all(self) -> Iterator[tuple[dict[str, Any], Last]]:
        definitions, last = self._definitions, self._last
        return ((definitions[name], last[name]) for name in sorted(definitions))

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def get(self, name: str) -> tuple[dict[str, Any], Last]:
        if name not in self._definitions:
            raise ResourceUnknown(f"there is no export {name!r}")
        return self._definitions[name], self._last[name]

    def put(self, definition: dict[str, Any], version: str | None = None) -> None:
        """Replaces that version only; None: whatever is there."""
        name, now = definition["name"], time.time()
        with self._lock:
            definition_version.check(name, self._definitions.get(name), version)
            if name not in self._definitions and len(self._definitions) >= EXPORTS_MAX:
                raise RequestInvalid(f"there are {EXPORTS_MAX} exports already")
            self._rows.put(name, self._text(definition, now))
            self._unstored.discard(name)
            self._last = {**self._last, name: self._look(name)}
            self._put_at[name] = now
            self._definitions = {**self._definitions, name: definition}

    @staticmethod
    def _text(definition: dict[str, Any], put_at: float) -> str:
        return json.dumps({**definition, "defined_ms": round(put_at * 1000)})

    def put_at(self, name: str) -> float:
        return self._put_at.get(name, 0.0)

    def delete(self, name: str) -> None:
        with self._lock:
            self.get(name)
            self._rows.delete(name)
            self._unstored.discard(name)
            self._definitions = {
                key: each for key, each in self._definitions.items() if key != name
            }
            self._next = {key: each for key, each in self._next.items() if key != name}

    def runs(self, name: str, limit: int) -> list[dict[str, Any]]:
        """Newest first."""
        self.get(name)
        return [json.loads(text) for text in self._rows.runs(name, limit)]

    def run(self, name: str, run: str) -> dict[str, Any]:
        self.get(name)
        text = self._rows.run(name, run)
        if text is None:
            raise ResourceUnknown(f"export {name!r} has no run {run!r}")
        found: dict[str, Any] = json.loads(text)
        return found

    def put_run(self, name: str, run: dict[str, Any]) -> None:
        """Stores a new run, or the new state of a known one."""
        with self._lock:
            self.get(name)
            row = run["id"], run["state"], run["started_ms"], json.dumps(run)
            self._rows.put_run(name, row, self._runs_max)
            self._last = {**self._last, name: self._look(name)}
            for each in sorted(self._unstored):
                self._store(self._definitions[each])

    def put_next_run(self, name: str, at_ms: int | None, now: float) -> None:
        """In memory only: the scheduler reports it again after a restart."""
        with self._lock:
            self.get(name)
            self._next = {**self._next, name: (at_ms, now)}

    def next_run_ms(self, name: str, now: float) -> int | None:
        at_ms, said = self._next.get(name, (None, now))
        return at_ms if now - said <= NEXT_RUN_BELIEVED_S else None

    def _look(self, name: str) -> Last:
        last = self._rows.runs(name, 1)
        success = self._rows.runs(name, 1, "succeeded")
        return Last(
            json.loads(last[0]) if last else None, json.loads(success[0]) if success else None
        )
