"""Schedules in words: what they mean as cron, also when clocks change, and what is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from appliance.export.due import next_times
from appliance.export.schedule_words import ScheduleWrong, meant_by, resolved, zone_of


@pytest.mark.parametrize(
    ("words", "cron", "zone"),
    [
        ("every minute", "* * * * *", None),
        ("every 15 minutes", "*/15 * * * *", None),
        ("hourly", "0 * * * *", None),
        ("every hour at :05", "5 * * * *", None),
        ("Every  6 hours at :05 UTC", "5 */6 * * *", "UTC"),
        ("daily 02:00 Europe/Berlin", "0 2 * * *", "Europe/Berlin"),
        ("every day at 2:30", "30 2 * * *", None),
        ("weekdays 07:30 America/Argentina/Salta", "30 7 * * 1-5", "America/Argentina/Salta"),
        ("weekly Monday 03:30", "30 3 * * 1", None),
        ("every sun at 23:59 Etc/GMT+5", "59 23 * * 0", "Etc/GMT+5"),
        ("monthly 1 04:00", "0 4 1 * *", None),
        ("monthly on day 28 at 04:00", "0 4 28 * *", None),
        ("5 * * * *", "5 * * * *", None),
        ("0 3 * * MON", "0 3 * * MON", None),
        ("@daily", "@daily", None),
    ],
)
def test_words_mean_a_cron_expression(words: str, cron: str, zone: str | None) -> None:
    assert meant_by(words) == (cron, zone)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("soon", "got 'soon', wanted \"every 15 minutes\", "),
        ("", "got '', wanted"),
        ("daily", "got 'daily', wanted"),
        ("daily 24:00", "got 'daily 24:00', wanted"),
        ("daily 02:00 Europe/../Berlin", "wanted \"every 15 minutes\""),
        ("weekly Moonday 03:30", "wanted \"every 15 minutes\""),
        ("every 7 minutes", "got every 7 minutes, wanted a part of an hour: 1, 2, 3, 4, 5, 6, 10"),
        ("every 0 minutes", "got every 0 minutes, wanted a part of an hour"),
        ("every 5 hours", "got every 5 hours, wanted a part of a day: 1, 2, 3, 4, 6, 8, 12"),
        ("monthly 31 04:00", "got day 31, wanted 1 to 28"),
        ("every ٣ minutes", "wanted \"every 15 minutes\""),
    ],
)
def test_what_means_nothing_is_refused_with_what_would(words: str, said: str) -> None:
    with pytest.raises(ScheduleWrong) as told:
        meant_by(words)
    assert said in str(told.value)


def test_what_is_said_twice_must_be_the_same() -> None:
    full = {"when": "daily 02:00 Europe/Berlin", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
    assert resolved({"when": full["when"]}) == resolved(full) == full
    assert resolved({"when": "5 * * * *"}) == {"cron": "5 * * * *"}  # no words
    assert resolved({"cron": "5 * * * *"}) == {"cron": "5 * * * *"}
    for name, other in (("cron", "0 3 * * *"), ("timezone", "UTC")):
        with pytest.raises(ScheduleWrong, match=rf"schedule.{name}: got '.*but schedule\.when, "):
            resolved({**full, name: other})
    with pytest.raises(ScheduleWrong, match="schedule: wanted when: "):
        resolved({"timezone": "UTC"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("daily 02:00", "schedule: got 'daily 02:00', wanted a table, such as {when = 'daily 02:0"),
        ({"when": 5}, "schedule.when: got 5, wanted a text"),
        ({"when": "@daily", "timezone": 1.5}, "schedule.timezone: got 1.5, wanted a text"),
        ({"cron": "@daily", "jitter_seconds": "60"}, "schedule.jitter_seconds: got '60', wanted a"),
        ({"cron": "@daily", "jitter_seconds": float("inf")}, "jitter_seconds: got inf, wanted"),
        ({"cron": "@daily", "retries": -1}, "schedule.retries: got -1, wanted a number, 0 or more"),
    ],
)
def test_what_a_file_has_in_the_place_of_a_schedule_is_told(given: Any, said: str) -> None:
    with pytest.raises(ScheduleWrong) as told:
        resolved(given)
    assert said in str(told.value)


def test_a_zone_that_is_none_is_named() -> None:
    with pytest.raises(ScheduleWrong, match="got 'Middle/Earth', no zone of ours"):
        zone_of("Middle/Earth")


def due_times(words: str, begin: str, count: int) -> list[str]:
    cron, zone = meant_by(words)
    assert zone is not None
    at = datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo(zone)).timestamp()
    return [f"{each:%d %H:%M %Z}" for each in next_times(cron, zone, at, count)]


def test_words_on_the_day_when_clocks_go_forward() -> None:
    """In Berlin on 29 March, 02:00 is followed by 03:00."""
    found = due_times("daily 02:30 Europe/Berlin", "2026-03-28T12:00", 2)
    assert found == ["29 03:00 CEST", "30 02:30 CEST"]
    found = due_times("every hour at :05 Europe/Berlin", "2026-03-29T00:30", 3)
    assert found == ["29 01:05 CET", "29 03:05 CEST", "29 04:05 CEST"]
    assert due_times("weekly Sunday 03:30 Europe/Berlin", "2026-03-28T12:00", 1) == [
        "29 03:30 CEST"]  # fmt: skip


def test_words_on_the_day_when_clocks_go_back() -> None:
    """In Berlin on 25 October, 02:00 to 03:00 comes twice."""
    found = due_times("daily 02:30 Europe/Berlin", "2026-10-24T12:00", 2)
    assert found == ["25 02:30 CEST", "26 02:30 CET"]
    found = due_times("every hour at :05 Europe/Berlin", "2026-10-25T01:30", 3)
    assert found == ["25 02:05 CEST", "25 02:05 CET", "25 03:05 CET"]
    found = due_times("every 30 minutes Europe/Berlin", "2026-10-25T01:45", 4)
    assert found == ["25 02:00 CEST", "25 02:30 CEST", "25 02:00 CET", "25 02:30 CET"]
