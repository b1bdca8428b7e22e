"""What backups and tests of restores came to, as who makes them tells the broker, and what health
says of it. Kept in a file of the data directory, a hint: without it nothing is known until the next
one.

Who never made a backup is told nothing. From the first on one is expected every
`backup.overdue.ms`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from appliance.broker.finding import Finding
from appliance.process import event_log, owner_only
from appliance.process.known_fields import made
from appliance.process.spoken import duration, moment

logger = event_log.named("backup")

NAME = "backups.json"
TEXT_MAX = 300  # characters of an error that health tells

Kind = Literal["backup", "restore test"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Outcome:
    """The last one of its kind. `good_ms`: the point of the last backup that is whole, or that was
    restored in a test; None: there is none."""

    target: str
    at_ms: int  # when it was told
    backup: str = ""  # its id; "": there is none
    good_ms: int | None = None
    fault: str = ""
    partitions: int = 0  # what it has; of a test, what was restored and compared
    records: int = 0
    bytes: int = 0
    took_s: float = 0.0


class BackupReports:
    """Any thread may call."""

    def __init__(self, data_dir: Path, overdue_ms: int) -> None:
        self._path = data_dir / NAME
        self.overdue_ms = overdue_ms  # 0: never
        self._guard = threading.Lock()
        self.outcomes = self._loaded()

    def _loaded(self) -> dict[str, Outcome]:
        try:
            stored = json.loads(self._path.read_bytes())
            return {kind: made(Outcome, stored[kind]) for kind in KINDS if kind in stored}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            logger.warning("earlier backups are not known", path=self._path, error=error)
            return {}

    def note(self, kind: Kind, found: Outcome) -> None:
        """`good_ms` is its own point; if it failed, that of the one before stays. Blocks: for a
        thread."""
        with self._guard:
            if found.fault:
                before = self.outcomes.get(kind)
                good_ms = None if before is None else before.good_ms
                found = replace(found, good_ms=good_ms, fault=found.fault[:TEXT_MAX])
            self.outcomes = {**self.outcomes, kind: found}
            self._save()

    def _save(self) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            told = {kind: asdict(each) for kind, each in self.outcomes.items()}
            owner_only.write(fresh, json.dumps(told).encode())
            os.replace(fresh, self._path)
        except OSError as error:
            logger.warning("what came of a backup cannot be stored", error=error)

    def findings(self, now_ms: int) -> Iterator[Finding]:
        for kind, each in sorted(self.outcomes.items()):
            if each.fault:
                yield Finding("degraded", "backup", f"the last {kind} ({each.target}) failed at "
                              f"{moment(each.at_ms)}: {each.fault}")  # fmt: skip
        last = self.outcomes.get("backup")
        if last is None or not self.is_overdue(now_ms):
            return
        found = "there is no whole backup"
        if last.good_ms is not None:
            age = duration((now_ms - last.good_ms) / 1000)
            found = f"the last whole backup is of {moment(last.good_ms)}, {age} ago"
        wanted = duration(self.overdue_ms / 1000)
        yield Finding("degraded", "backup", f"{found}, wanted one every {wanted} "
                      "(backup.overdue.ms): `appliance backup create` makes one")  # fmt: skip

    def is_overdue(self, now_ms: int) -> bool:
        last = self.outcomes.get("backup")
        if last is None or not self.overdue_ms:
            return False
        return last.good_ms is None or now_ms - last.good_ms > self.overdue_ms
