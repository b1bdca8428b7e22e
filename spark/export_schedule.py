"""When exports are due, and what is done about it. No clock and no process of its own: both are
given, so that a test can live through a year.

    one run of an export at a time; what comes due meanwhile is caught up by one run afterwards,
    since a run takes all that is new. The same after the scheduler was away.
    a run that fails is tried again after 30 s, 60 s, 120 s … until the next one is due
    a clock that is set back begins anew: a run too many takes what is new, a run that waits until
    the time comes again that a wrong clock had shown may wait for years

Expressions are cron's five fields in the zone of the schedule, with Debian cron's rules for clock
changes: a fixed time that a day skips is due at once after the gap, one that comes twice is due
once; `*` hours follow the real hours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from appliance_spark.export_layout import ExportFailed

BACKOFF_S, BACKOFF_MAX_S = 30.0, 1800.0
RETRIES = 5  # without a number in the schedule
DUE_MAX = 10_000  # missed times that are counted; then it is only said that there were more
SET_BACK_S = 60.0  # a clock that is corrected by less is waited for


NAMED = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0",
         "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *"}


class Started(Protocol):
    """A run, in a process of its own."""

    def poll(self) -> int | None:
        """None while it runs; 0 when all is well."""


@dataclass(frozen=True)
class Schedule:
    name: str
    cron: str
    timezone: str = "UTC"
    jitter_seconds: float = 0.0
    retries: int = RETRIES

    def __post_init__(self) -> None:
        try:
            self.next_after(0.0)
        except (CronSimError, ZoneInfoNotFoundError, ValueError) as error:
            raise ExportFailed(
                f"the schedule of {self.name}: {self.cron!r} in {self.timezone!r}: {error}"
            ) from error
        except StopIteration:
            raise ExportFailed(
                f"the schedule of {self.name}: {self.cron!r} is never due") from None

    def next_after(self, moment: float) -> float:
        local = datetime.fromtimestamp(moment, timezone.utc).astimezone(ZoneInfo(self.timezone))
        return next(CronSim(NAMED.get(self.cron, self.cron), local)).timestamp()

    def last_until(self, moment: float) -> float:
        local = datetime.fromtimestamp(moment, timezone.utc).astimezone(ZoneInfo(self.timezone))
        cron = CronSim(NAMED.get(self.cron, self.cron), local, reverse=True)
        return next(cron).timestamp()

    def jitter(self, due: float) -> float:
        """Of this export at this time always the same: a restart does not throw the dice again."""
        word = hashlib.blake2b(f"{self.name} {due:.0f}".encode(), digest_size=8).digest()
        return self.jitter_seconds * int.from_bytes(word, "big") / 2**64


def schedule_of(definition: dict[str, Any]) -> Schedule | None:
    given = definition.get("schedule")
    if not given:
        return None
    return Schedule(
        name=definition["name"],
        cron=given["cron"],
        timezone=given.get("timezone") or "UTC",
        jitter_seconds=given.get("jitter_seconds") or 0,
        retries=RETRIES if given.get("retries") is None else given["retries"],
    )


@dataclass
class Export:
    """One export, and where it stands."""

    schedule: Schedule
    last_due: float  # what came due up to here is done, or was given up
    due: float | None = None  # what the run is for
    running: Started | None = None
    tries: int = 0
    not_before: float = 0.0
    began: float = 0.0  # of the run that was started last
    said: Callable[[str], None] = field(default=lambda text: None)
    ended: Callable[[str, int, float, float], None] = field(default=lambda *_: None)

    def step(self, now: float, start: Callable[[str, float], Started]) -> None:
        """Ends what has ended and starts what is due."""
        if self.running is not None:
            code = self.running.poll()
            if code is None:
                return
            self.running = None
            self._end(code, now)
        self._set_back(now)
        latest, missed = self._latest_due(now)
        if latest is not None and latest != self.due:
            if missed:
                self.said(f"{self.schedule.name}: {missed} earlier times are caught up by one run")
            self.due, self.tries = latest, 0
            self.not_before = latest + self.schedule.jitter(latest)
        if self.due is not None and now >= self.not_before:
            self.tries += 1
            self.began = now
            self.running = start(self.schedule.name, self.due)

    def _latest_due(self, now: float) -> tuple[float | None, int]:
        """The last time that came due, and how many came due before it since the last run."""
        latest, count, at = None, 0, self.last_due
        while (at := self.schedule.next_after(at)) <= now:
            latest, count = at, count + 1
            if count == DUE_MAX:
                return self.schedule.last_until(now), count
        return latest, max(count - 1, 0)

    def _set_back(self, now: float) -> None:
        if max(self.last_due, self.due or 0.0) <= now + SET_BACK_S:
            return
        self.said(f"{self.schedule.name}: the clock was set back, to before what was due")
        self.last_due = min(self.last_due, now)
        if self.due is not None:
            self.due, self.not_before = min(self.due, now), now

    def _end(self, code: int, now: float) -> None:
        assert self.due is not None
        name = self.schedule.name
        self.ended(name, code, self.began, now)
        if code == 0:
            self.last_due, self.due = self.due, None
        elif self.tries > self.schedule.retries:
            self.said(f"{name}: given up after {self.tries} tries, code {code}")
            self.last_due, self.due = self.due, None
        else:
            pause = min(BACKOFF_S * 2 ** (self.tries - 1), BACKOFF_MAX_S)
            self.not_before = now + pause
            self.said(f"{name}: failed with code {code}, again in {pause:.0f} s")

    def next_run(self) -> float:
        """When the next run begins, behind the one that runs now."""
        if self.due is not None and self.running is None:
            return self.not_before
        due = self.schedule.next_after(self.last_due if self.due is None else self.due)
        return due + self.schedule.jitter(due)
