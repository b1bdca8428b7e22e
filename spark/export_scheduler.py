"""`appliance export schedule`: starts due runs, each in its own process.

Definitions come from the broker or from a TOML file and are read again every minute. The manifests
of the targets have the completed runs, so the scheduler has no state to lose.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.process.bound_child import bound
from appliance_spark import export_manifest
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed, text_of
from appliance_spark.export_outcome import Outcomes
from appliance_spark.export_schedule import Export, schedule_of
from appliance_spark.export_store_target import target_of

POLL_S = 1.0
READ_AGAIN_S = 60.0

Say = Callable[[str], None]
Report = Callable[[str, int], None]  # the next start of an export, in ms
Allowed = Callable[[dict[str, Any]], dict[str, Any]]  # raises if a definition is not allowed


def definitions_of(file: Path | None, broker: AdminPort) -> list[dict[str, Any]]:
    """[[export]] tables with the fields of the REST API."""
    if file is None:
        return broker.definitions()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found: list[dict[str, Any]] = tomllib.loads(text_of(file)).get("export", [])
    except tomllib.TOMLDecodeError as error:
        raise ExportFailed(f"{file}: {error}") from error
    for each in found:
        if not _is_definition(each):
            raise ExportFailed(
                f"{file}: an export wants name, target, and topics or a pattern, got {each}")
    return found


def _is_definition(given: Any) -> bool:
    """`[export]` in place of `[[export]]` has none: only texts."""
    return isinstance(given, dict) and bool({"topics", "pattern"} & given.keys()) and all(
        isinstance(given.get(name), str) for name in ("name", "target"))


def last_due(definition: dict[str, Any], now: float) -> float:
    """The time up to which the target followed its schedule. Before its first scheduled run: since
    when it was defined, or since somebody ran it; an export of a file starts now."""
    runs = export_manifest.load(target_of(definition["target"]))["runs"]
    kept: list[float] = [run["due_ms"] / 1000 for run in runs if run["due_ms"] is not None]
    if kept:
        return max(kept)
    defined_ms: float | None = (definition.get("status") or {}).get("defined_ms")
    if not defined_ms:
        return now
    begin_ms: float = max([defined_ms, *(run["started_ms"] for run in runs)])
    return min(now, begin_ms / 1000)


class Scheduler:
    def __init__(
        self, read: Callable[[], list[dict[str, Any]]], command: Callable[[str], list[str]],
        say: Say, report: Report | None = None, allowed: Allowed = lambda definition: definition,
    ) -> None:
        self.allowed = allowed
        self.outcomes: Outcomes | None = None
        self.read, self.command, self.say, self.report = read, command, say, report
        self.reported: dict[str, int] = {}
        self.exports: dict[str, Export] = {}
        self.read_at = 0.0

    def step(self, now: float) -> None:
        if not self.read_at - READ_AGAIN_S <= now < self.read_at:  # or the clock was set back
            self.read_at = now + READ_AGAIN_S
            self.reported.clear()
            self._read(now)
        for export in self.exports.values():
            export.step(now, self._start)
        self._report()
        if self.outcomes is not None:
            self.outcomes.tell()

    def _report(self) -> None:
        """Reports changes, and everything after each reading: the broker may have forgotten it."""
        if self.report is None:
            return
        found = {name: round(each.next_run() * 1000) for name, each in self.exports.items()}
        try:
            for name, at_ms in found.items():
                if self.reported.get(name) != at_ms:
                    self.reported[name] = at_ms
                    self.report(name, at_ms)
        except ExportFailed as error:
            self.say(f"the broker did not take when the next run of {name} begins: {error}")

    def _read(self, now: float) -> None:
        """Without an answer of the broker the known definitions stay."""
        try:
            found = {each["name"]: each for each in self.read()}
        except ExportFailed as error:
            self.say(f"the definitions were not read: {error}")
            return
        for name in [n for n, e in self.exports.items() if n not in found and e.running is None]:
            del self.exports[name]
        for name, definition in found.items():
            try:
                self._take(name, definition, now)
            except (ExportFailed, OSError) as error:
                self.say(str(error))
                if self.outcomes is not None:
                    self.outcomes.refused(name, str(error), now)

    def _take(self, name: str, definition: dict[str, Any], now: float) -> None:
        schedule = schedule_of(self.allowed(definition))
        known = self.exports.get(name)
        if schedule is None:
            if known is not None and known.running is None:
                del self.exports[name]
        elif known is None:
            begin = last_due(definition, now)
            self.exports[name] = Export(schedule, begin, said=self.say)
            if self.outcomes is not None:
                self.exports[name].ended = self.outcomes.ended
        elif known.schedule != schedule:
            known.change(schedule, now)

    def _start(self, name: str, due: float, missed: int = 0) -> subprocess.Popen[bytes]:
        self.say(f"{name}: starts, due {time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime(due))}")
        command = [*self.command(name), "--due-ms", str(round(due * 1000))]
        command += ["--missed", str(missed)] if missed else []
        # left behind it would hold the target's lock, and the next scheduler's run would fail
        return subprocess.Popen(bound(command, signal.SIGTERM))

    def run(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self.step(time.time())
            time.sleep(POLL_S)
        for export in self.exports.values():
            if isinstance(export.running, subprocess.Popen):
                export.running.terminate()
                export.running.wait()
