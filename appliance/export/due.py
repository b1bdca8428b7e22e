"""When an export is due by its cron expression, whether its scheduler runs, and whether a run takes
longer than the schedule gives it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from appliance.export.definitions_and_runs import Book, Last

NEXT_RUN_BELIEVED_S = 180.0  # a scheduler reports each minute; then it counts as stopped
LONG_S = 600.0  # a run of less is nobody's concern, however often its export is due
AHEAD_S = 300.0  # a scheduler's clock may be this much ahead of ours
NAMED = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0",
         "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *"}  # fmt: skip


def check(cron: str, zone: str) -> None:
    """Raises ValueError. An expression that is never due is no schedule."""
    try:
        last_due(cron, zone, time.time())
    except CronSimError as error:
        raise ValueError(str(error)) from error
    except StopIteration:
        raise ValueError("it is never due") from None


def last_due(cron: str, zone: str, now: float) -> float:
    return next(_times(cron, zone, now, reverse=True)).timestamp()


def next_due(cron: str, zone: str, now: float) -> float:
    return next(_times(cron, zone, now)).timestamp()


def next_times(cron: str, zone: str, now: float, count: int) -> list[datetime]:
    """In the zone. Raises ValueError as `check` does."""
    check(cron, zone)
    return list(islice(_times(cron, zone, now), count))


def _times(cron: str, zone: str, now: float, *, reverse: bool = False) -> Iterator[datetime]:
    local = datetime.fromtimestamp(now, timezone.utc).astimezone(ZoneInfo(zone))
    return CronSim(NAMED.get(cron, cron), local, reverse=reverse)


def in_zone(moment: datetime) -> str:
    return f"{moment:%a %Y-%m-%d %H:%M %Z}"


def in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%a %Y-%m-%d %H:%M} UTC"


def overdue(definition: Mapping[str, Any], last: Last, book: Book, now: float, clock: float) -> str:
    """The finding as a sentence, or "". `clock` is the monotonic one. Every attempt of a run is
    reported, and a scheduler reports each minute when the next run begins: silence means that no
    scheduler runs."""
    name, schedule = definition["name"], definition.get("schedule")
    if not schedule:
        return ""
    if book.next_run_ms(name, clock) is not None:
        return too_long(definition, last, now)
    if clock - book.since < NEXT_RUN_BELIEVED_S:  # a running scheduler has not had time to report
        return ""
    late = now - NEXT_RUN_BELIEVED_S - (schedule.get("jitter_seconds") or 0)
    due = last_due(schedule["cron"], schedule.get("timezone") or "UTC", late)
    begun = last.run["started_ms"] / 1000 if last.run else 0.0
    if last.run and last.run["state"] == "running":
        text = f"run {last.run['id']} of export {name} began at {_said(begun)}, and nobody has"
        return f"{text} reported its end: is it still running?"
    if begun > now + AHEAD_S:  # by a wrong clock: says nothing about later runs
        begun = 0.0
    if due <= max(begun, book.put_at(name)):
        return ""
    return f"export {name} was due at {_said(due)}, and no run began: is its scheduler running?"


def too_long(definition: Mapping[str, Any], last: Last, now: float) -> str:
    """Of a run that two later ones wait for, while its scheduler runs."""
    if not last.run or last.run["state"] != "running":
        return ""
    schedule, begun = definition["schedule"], last.run["started_ms"] / 1000
    cron, zone = schedule["cron"], schedule.get("timezone") or "UTC"
    first = next_due(cron, zone, begun)
    second = next_due(cron, zone, first)
    if now < max(second + (schedule.get("jitter_seconds") or 0), begun + LONG_S):
        return ""
    text = f"run {last.run['id']} of export {definition['name']} began at {_said(begun)} and has"
    return (f"{text} not ended: those due at {_said(first)} and {_said(second)} wait for it. Its "
            "output is in the scheduler's log")


def _said(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, timezone.utc):%Y-%m-%d %H:%M:%SZ}"
