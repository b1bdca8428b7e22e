"""When exports are due, and their runs. It has no clock and no processes: both are parameters, so
that a test can simulate a year.

    one run of an export at a time; one later run makes up for all times missed meanwhile, because
    a run exports everything new. The same holds after the scheduler was down.
    a failed run is retried after 30 s, 60 s, 120 s … until the next time is due
    after a clock was set back, the schedule starts afresh: a surplus run only exports what is new,
    but waiting for a time that a wrong clock showed may take years

A schedule, in words or not, is cron's five fields in its time zone, with Debian cron's rules for
clock changes: a fixed time in a gap is due right after it, a repeated time is due once; `*` hours
follow the real hours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol

from appliance.export.due import check, last_due, next_due
from appliance.export.schedule_words import ScheduleWrong, resolved, zone_of
from appliance_spark.export_layout import ExportFailed

BACKOFF_S, BACKOFF_MAX_S = 30.0, 1800.0
RETRIES = 5  # without a number in the schedule
DUE_MAX = 10_000  # missed times that are counted; then the message only says that there were more
SET_BACK_S = 60.0  # a clock corrected by less is waited for
LATE_S = 60.0  # a run that begins later than this is said to be late


class Started(Protocol):
    """A run, in its own process."""

    def poll(self) -> int | None:
        """None while it runs; 0 after success."""


@dataclass(frozen=True)
class Schedule:
    name: str
    cron: str
    timezone: str = "UTC"
    jitter_seconds: float = 0.0
    retries: int = RETRIES

    def __post_init__(self) -> None:
        try:
            zone_of(self.timezone)
            check(self.cron, self.timezone)
        except ValueError as error:
            raise ExportFailed(f"the schedule of {self.name}: {self.cron!r} in {self.timezone!r}: "
                               f"{error}") from error

    def next_after(self, moment: float) -> float:
        return next_due(self.cron, self.timezone, moment)

    def last_until(self, moment: float) -> float:
        return last_due(self.cron, self.timezone, moment)

    def jitter(self, due: float) -> float:
        """Always the same for this export and time: a restart does not change it."""
        word = hashlib.blake2b(f"{self.name} {due:.0f}".encode(), digest_size=8).digest()
        return self.jitter_seconds * int.from_bytes(word, "big") / 2**64


def schedule_of(definition: dict[str, Any]) -> Schedule | None:
    given = definition.get("schedule")
    if not given:
        return None
    try:
        given = resolved(given)
    except ScheduleWrong as error:
        raise ExportFailed(f"the export {definition['name']}: {error}") from error
    return Schedule(
        name=definition["name"],
        cron=given["cron"],
        timezone=given.get("timezone") or "UTC",
        jitter_seconds=given.get("jitter_seconds") or 0,
        retries=RETRIES if given.get("retries") is None else given["retries"],
    )


@dataclass
class Export:
    """The state of one export."""

    schedule: Schedule
    last_due: float  # times up to here are done or were given up
    due: float | None = None  # the time of the current run
    running: Started | None = None
    missed: int = 0  # earlier times that this run makes up for
    tries: int = 0
    not_before: float = 0.0
    began: float = 0.0  # start of the last run
    said: Callable[[str], None] = field(default=lambda text: None)
    ended: Callable[[str, int, float, float], None] = field(default=lambda *_: None)

    def step(self, now: float, start: Callable[[str, float, int], Started]) -> None:
        """Handles ended runs and starts due ones."""
        why = "while no scheduler was running"
        if self.running is not None:
            code = self.running.poll()
            if code is None:
                return
            self.running = None
            self._end(code, now)
            why = "during the run before"
        self._set_back(now)
        latest, missed = self._latest_due(now)
        if latest is not None and latest != self.due:
            why = "and the run before failed" if self.due is not None else why
            self._take(latest, missed, why, now)
        if self.due is not None and now >= self.not_before:
            self.tries += 1
            self.began = now
            self.running = start(self.schedule.name, self.due, self.missed)

    def change(self, schedule: Schedule, now: float) -> None:
        """Nobody missed times of a schedule before it was there."""
        old, self.schedule = self.schedule, schedule
        if (old.cron, old.timezone) != (schedule.cron, schedule.timezone):
            self.last_due = max(self.last_due, now)

    def _take(self, latest: float, missed: int, why: str, now: float) -> None:
        if missed or now - latest > LATE_S:
            many = {0: "", 1: ", as once before"}.get(missed, f", as {missed} times before")
            self.said(f"{self.schedule.name}: was due at {_said(latest)}{many}, {why}: "
                      "one run now takes everything since")
        self.due, self.missed, self.tries = latest, missed, 0
        self.not_before = latest + self.schedule.jitter(latest)

    def _latest_due(self, now: float) -> tuple[float | None, int]:
        """The last due time, and the number of earlier ones since the last run."""
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
            self.last_due, self.due = max(self.last_due, self.due), None
        elif self.tries > self.schedule.retries:
            self.said(f"{name}: given up after {self.tries} tries, code {code}")
            self.last_due, self.due = max(self.last_due, self.due), None
        else:
            pause = min(BACKOFF_S * 2 ** (self.tries - 1), BACKOFF_MAX_S)
            self.not_before = now + pause
            self.said(f"{name}: failed with code {code}, again in {pause:.0f} s")

    def next_run(self) -> float:
        """The time of the next run after the current one."""
        if self.due is not None and self.running is None:
            return self.not_before
        due = self.schedule.next_after(self.last_due if self.due is None else self.due)
        return due + self.schedule.jitter(due)


def _said(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, timezone.utc):%Y-%m-%d %H:%M:%SZ}"
