"""Schedules of exports over REST: their check, and the next runs before anything has them."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict, cast

from typing_extensions import NotRequired

from appliance.admin.body_schema import Natural
from appliance.admin.route import Call, Param, get
from appliance.errors import RequestInvalid
from appliance.export.due import check, in_utc, in_zone, next_times
from appliance.export.schedule_words import (
    CRON,
    CRON_WANTED,
    GOT_MAX,
    ScheduleWrong,
    resolved,
    zone_of,
)

WHEN_MAX = 200  # characters


class Schedule(TypedDict):
    when: NotRequired[str]  # in words, such as daily 02:00 Europe/Berlin
    cron: NotRequired[str]  # five fields, or @hourly and so on; stored with the words, too
    timezone: NotRequired[str]
    jitter_seconds: NotRequired[Natural]
    retries: NotRequired[Natural]


class DueTime(TypedDict):
    at_ms: int
    local: str  # in the zone of the schedule
    utc: str


class Preview(TypedDict):
    when: str
    cron: str
    timezone: str
    next: list[DueTime]


def checked(schedule: Schedule) -> Schedule:
    """With its cron expression."""
    for name in ("when", "cron", "timezone"):
        if len(str(schedule.get(name, ""))) > WHEN_MAX:
            raise RequestInvalid(f"schedule.{name}: wanted {WHEN_MAX} characters at most")
    cron = schedule.get("cron")
    if cron is not None and not CRON.fullmatch(cron):
        text = f"schedule.cron: got {cron[:GOT_MAX]!r}, wanted {CRON_WANTED}, or words in when"
        raise RequestInvalid(text)
    try:
        found = resolved(schedule)
        zone_of(found.get("timezone") or "UTC")
    except ScheduleWrong as error:
        raise RequestInvalid(str(error)) from error
    check_is_due(found["cron"], found.get("timezone") or "UTC")
    return cast(Schedule, found)


def check_is_due(cron: str, zone: str) -> None:
    try:
        check(cron, zone)
    except ValueError as error:
        raise RequestInvalid(f"schedule.cron: got {cron[:GOT_MAX]!r}: {error}") from error


def preview(call: Call) -> Preview:
    given = {name: call.params[name] for name in ("when", "timezone")}
    found = checked(cast(Schedule, {name: text for name, text in given.items() if text}))
    cron, zone = found["cron"], found.get("timezone") or "UTC"
    times = next_times(cron, zone, call.broker.clock.now_ms() / 1000, call.params["count"])
    return {
        "when": found.get("when", cron),
        "cron": cron,
        "timezone": zone,
        "next": [due_time(each) for each in times],
    }


def due_time(moment: datetime) -> DueTime:
    at_ms = round(moment.timestamp() * 1000)
    return {"at_ms": at_ms, "local": in_zone(moment), "utc": in_utc(moment)}


ROUTES = [
    get(
        "/export-schedule",
        preview,
        Preview,
        "When an export with such a schedule would run.",
        params=(
            Param("when", str, 'In words, such as "daily 02:00 Europe/Berlin", or cron.'),
            Param("timezone", str, "Of words without one; default: UTC."),
            Param("count", int, "How many times.", 3, minimum=1, maximum=10),
        ),
        rights=(),
    ),
]
