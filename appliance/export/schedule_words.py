"""A schedule in words, as cron's five fields and a time zone.

    every 15 minutes        every hour at :05        every 6 hours at :05
    daily 02:00             weekdays 07:30           weekly Monday 03:30        monthly 1 04:00

A zone may follow the words: `daily 02:00 Europe/Berlin`. Cron itself is taken, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

GOT_MAX = 80  # characters of a value in a message
CRON = re.compile(r"@(hourly|daily|weekly|monthly|yearly)|[\d*]\S*( \S+){4}")
ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
FORMS = (
    (re.compile(r"every minute"), "* * * * *"),
    (re.compile(r"every (?P<minutes>[0-9]{1,3}) minutes"), "*/{minutes} * * * *"),
    (re.compile(r"(?:hourly|every hour)(?: at :(?P<minute>[0-5][0-9]))?"), "{minute} * * * *"),
    (re.compile(r"every (?P<hours>[0-9]{1,3}) hours(?: at :(?P<minute>[0-5][0-9]))?"),
     "{minute} */{hours} * * *"),
    (re.compile(r"(?:daily|every day)(?: at)? (?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])"),
     "{minute} {hour} * * *"),
    (re.compile(r"(?:weekdays|every weekday)(?: at)? (?P<hour>[01]?[0-9]|2[0-3])"
                r":(?P<minute>[0-5][0-9])"),
     "{minute} {hour} * * 1-5"),
    (re.compile(r"(?:weekly|every)(?: on)? (?P<weekday>[a-z]{3,9})(?: at)?"
                r" (?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])"),
     "{minute} {hour} * * {weekday}"),
    (re.compile(r"monthly(?: on)?(?: day)? (?P<day>[0-9]{1,2})(?: at)?"
                r" (?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])"),
     "{minute} {hour} {day} * *"),
)  # fmt: skip
CRON_WANTED = (
    "five fields (minute, hour, day, month, day of the week), or @hourly, @daily, @weekly, "
    "@monthly, @yearly"
)
WANTED = (
    '"every 15 minutes", "every hour at :05", "every 6 hours at :05", "daily 02:00", '
    '"weekdays 07:30", "weekly Monday 03:30" or "monthly 1 04:00", each with a zone behind it if '
    f'you like ("daily 02:00 Europe/Berlin"); or cron: {CRON_WANTED}'
)


class ScheduleWrong(ValueError):
    """Says what was given, and what is wanted."""


class Meant(NamedTuple):
    cron: str
    zone: str | None  # None: the words have none


def meant_by(words: str) -> Meant:
    text = " ".join(words.split())
    if CRON.fullmatch(text):
        return Meant(text, None)
    before, _, last = text.rpartition(" ")
    cron, zone = _cron_of(text), None
    if cron is None and ZONE.fullmatch(last):
        cron, zone = _cron_of(before), last
    if cron is None:
        raise ScheduleWrong(f"got {_got(words)}, wanted {WANTED}")
    return Meant(cron, zone)


def _cron_of(text: str) -> str | None:
    for form, fields in FORMS:
        if found := form.fullmatch(text.lower()):
            numbers = _numbers(found.groupdict())
            return None if numbers is None else fields.format(**numbers)
    return None


def _numbers(given: Mapping[str, str | None]) -> dict[str, int] | None:
    """None: a day of the week that is none."""
    numbers = {name: int(text) for name, text in given.items() if text and text.isdecimal()}
    _check_step("minutes", numbers.get("minutes"), 60, "an hour")
    _check_step("hours", numbers.get("hours"), 24, "a day")
    if not 1 <= numbers.get("day", 1) <= 28:
        raise ScheduleWrong(
            f"got day {numbers['day']}, wanted 1 to 28: not each month has a later one")
    if name := given.get("weekday"):
        found = [at for at, day in enumerate(DAYS) if name in (day, day[:3])]
        if not found:
            return None
        numbers["weekday"] = found[0]
    return {"minute": 0, **numbers}


def _check_step(unit: str, step: int | None, whole: int, of: str) -> None:
    """Cron counts anew in each hour and day: other steps would end with a shorter one."""
    parts = [each for each in range(1, whole) if whole % each == 0]
    if step is not None and step not in parts:
        raise ScheduleWrong(
            f"got every {step} {unit}, wanted a part of {of}: {', '.join(map(str, parts))}")


def resolved(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """With `cron`, and the `timezone` of its words. What is said twice must be the same."""
    _check_kinds(schedule)
    when, rest = schedule.get("when"), {**schedule}
    if when is None:
        if schedule.get("cron") is None:
            raise ScheduleWrong(f"schedule: wanted when: {WANTED}")
        return rest
    try:
        meant = meant_by(when)
    except ScheduleWrong as error:
        raise ScheduleWrong(f"schedule.when: {error}") from error
    if meant.cron == " ".join(when.split()):  # no words
        del rest["when"]
    for name, told in (("cron", meant.cron), ("timezone", meant.zone)):
        given = schedule.get(name)
        if None not in (told, given) and told != given:
            raise ScheduleWrong(f"schedule.{name}: got {_got(given)}, but schedule.when, "
                                f"{_got(when)}, means {told!r}: give one of them")
        if told is not None:
            rest[name] = told
    return rest


def _check_kinds(schedule: Any) -> None:
    """A file of exports may have anything here."""
    if not isinstance(schedule, Mapping):
        got = _got(schedule)
        raise ScheduleWrong(f"schedule: got {got}, wanted a table, such as {{when = {got}}}")
    for name in ("when", "cron", "timezone"):
        if not isinstance(given := schedule.get(name), str | None):
            raise ScheduleWrong(f"schedule.{name}: got {given!r}, wanted a text")
    for name in ("jitter_seconds", "retries"):
        given = schedule.get(name) or 0
        if type(given) not in (int, float) or not 0 <= given < math.inf:
            raise ScheduleWrong(f"schedule.{name}: got {given!r}, wanted a number, 0 or more")


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ScheduleWrong(f"schedule.timezone: got {_got(name)}, no zone of ours, wanted one "
                            "such as Europe/Berlin or UTC") from error


def _got(value: Any) -> str:
    return repr(str(value)[:GOT_MAX])


def with_zone(words: str, zone: str) -> str:
    """For people. Words may have the zone behind them already."""
    return words if words.endswith(zone) else f"{words} {zone}"
