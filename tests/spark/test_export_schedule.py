"""Schedules with a fake clock: missed runs are caught up, runs do not overlap, failures are
retried, and clock changes are handled."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from appliance.export import due
from appliance_spark import export_manifest
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed, Target, make_folder
from appliance_spark.export_schedule import Export, Schedule, schedule_of
from appliance_spark.export_scheduler import Scheduler, definitions_of, last_due
from tests.support.children import child_of, until_gone

HOUR = 3600.0
T0 = datetime(2026, 11, 20, tzinfo=timezone.utc).timestamp()


class Run:
    def __init__(self, due: float, ends: float, code: int, clock: Clock) -> None:
        self.due, self.ends, self.code, self.clock = due, ends, code, clock

    def poll(self) -> int | None:
        return self.code if self.clock.now >= self.ends else None


class Clock:
    """Advances time, by default a minute per step. Runs have fixed durations and exit codes."""

    def __init__(self, schedule: Schedule, last: float = T0, seconds: float = 60,
                 codes: tuple[int, ...] = (0,)) -> None:
        self.now, self.seconds, self.codes = last, seconds, list(codes)
        self.said: list[str] = []
        self.export = Export(schedule, last, said=self.said.append)
        self.started: list[tuple[float, float]] = []  # time and purpose
        self.missed: list[int] = []
        self.open: list[Run] = []

    def start(self, name: str, due: float, missed: int) -> Run:
        assert not [run for run in self.open if run.poll() is None], "two at a time"
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        self.started.append((self.now, due))
        self.missed.append(missed)
        self.open.append(Run(due, self.now + self.seconds, code, self))
        return self.open[-1]

    def go(self, until: float, step: float = 60) -> list[tuple[float, float]]:
        while self.now < until:
            self.now += step
            self.export.step(self.now, self.start)
        return self.started


def hours(started: list[tuple[float, float]]) -> list[float]:
    return [(due - T0) / HOUR for _, due in started]


def test_each_hour_has_one_run() -> None:
    for cron in ("0 * * * *", "@hourly"):
        assert hours(Clock(Schedule("e", cron)).go(T0 + 5 * HOUR)) == [1, 2, 3, 4, 5]


def test_a_long_run_is_never_overlapped_and_what_it_missed_is_one_run() -> None:
    clock = Clock(Schedule("e", "0 * * * *"), seconds=3.5 * HOUR)
    started = clock.go(T0 + 9 * HOUR)
    assert hours(started) == [1, 4, 8]
    assert [(when - T0) / HOUR for when, _ in started] == [1, 4.5, 8]
    assert clock.missed == [0, 2, 3]
    assert clock.said[0] == (
        "e: was due at 2026-11-20 04:00:00Z, as 2 times before, during the run before: "
        "one run now takes everything since")


def test_runs_missed_without_a_scheduler_are_made_up_for_at_once() -> None:
    clock = Clock(Schedule("e", "0 * * * *"))
    clock.now = T0 + 100.5 * HOUR
    clock.go(T0 + 100.6 * HOUR)
    assert hours(clock.started) == [100]
    assert clock.missed == [99]
    assert clock.said == [
        "e: was due at 2026-11-24 04:00:00Z, as 99 times before, while no scheduler was running: "
        "one run now takes everything since"]


def test_one_run_that_was_missed_is_said_and_made_up_for_once() -> None:
    """The machine was off at 02:00."""
    schedule = schedule_of({"name": "e", "schedule": {"when": "daily 02:00 Europe/Berlin"}})
    assert schedule is not None
    clock = Clock(schedule)
    clock.now = T0 + 5 * HOUR
    clock.go(T0 + 24 * HOUR)
    assert [(when - T0) / HOUR for when, _ in clock.started] == [5 + 1 / 60]
    assert hours(clock.started) == [1]
    assert clock.said == [
        "e: was due at 2026-11-20 01:00:00Z, while no scheduler was running: "
        "one run now takes everything since"]


def test_a_run_that_is_on_time_is_not_called_late() -> None:
    clock = Clock(Schedule("e", "0 * * * *", jitter_seconds=600))
    clock.go(T0 + 5 * HOUR, step=1)
    assert (len(clock.started), clock.said) == (4, [])


def test_a_failed_run_that_the_next_one_makes_up_for_is_told() -> None:
    clock = Clock(Schedule("e", "0 * * * *", retries=99), seconds=0, codes=(*[1] * 8, 0))
    clock.go(T0 + 2.5 * HOUR, step=1)
    assert [text for text in clock.said if "was due" in text] == [
        "e: was due at 2026-11-20 02:00:00Z, as once before, and the run before failed: "
        "one run now takes everything since"]


def test_a_failed_run_is_tried_again_with_longer_pauses_and_then_given_up() -> None:
    clock = Clock(Schedule("e", "0 0 * * *", retries=3), seconds=0, codes=(1,))
    clock.go(T0 + 25 * HOUR, step=1)
    begin = clock.started[0][0]
    assert [round(when - begin) for when, _ in clock.started] == [0, 31, 92, 213]
    assert clock.said[-1] == "e: given up after 4 tries, code 1"
    assert clock.export.next_run() == T0 + 48 * HOUR


def test_the_time_of_the_next_run_is_reported() -> None:
    export = Export(Schedule("e", "0 * * * *", jitter_seconds=600), T0)
    first, second = (due + export.schedule.jitter(due) for due in (T0 + HOUR, T0 + 2 * HOUR))
    assert export.next_run() == first
    clock = Clock(export.schedule, seconds=60, codes=(1, 0))
    clock.go(first + 30, step=1)
    assert clock.export.running is not None
    assert clock.export.next_run() == second
    clock.go(first + 70, step=1)
    assert 60 + 30 <= clock.export.next_run() - first <= 60 + 32  # retried in 30 s after a failure
    clock.go(first + 200, step=1)
    assert clock.export.next_run() == second


def test_the_broker_hears_of_it_when_it_changes_and_each_minute() -> None:
    said: list[str] = []
    told: list[tuple[str, int]] = []
    definition = {"name": "e", "target": "/nowhere", "schedule": {"cron": "0 * * * *"}}

    def report(name: str, at_ms: int) -> None:
        told.append((name, at_ms))
        if len(told) == 3:
            raise ExportFailed("it is away")

    scheduler = Scheduler(lambda: [definition], lambda name: [], said.append, report)
    for seconds in (1, 2, 30, 61, 62, 121):
        scheduler.step(T0 + seconds)
    assert told == [("e", round((T0 + HOUR) * 1000))] * 3
    assert said == ["the broker did not take when the next run of e begins: it is away"]


SCHEDULER = """
import time
from appliance_spark.export_scheduler import Scheduler
Scheduler(lambda: [], lambda name: ["sh", "-c", "exec sleep 60"], print)._start("e", 0.0)
time.sleep(60)
"""


def test_a_killed_scheduler_leaves_no_run_behind() -> None:
    """It would hold the target's lock, and the runs of the next scheduler would fail."""
    with subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE) as process:
        child = child_of(process.pid, "sleep")
        process.kill()
        until_gone(child)


def test_a_failed_run_that_succeeds_later_is_done() -> None:
    clock = Clock(Schedule("e", "0 0 * * *"), seconds=5, codes=(1, 1, 0))
    assert hours(clock.go(T0 + 30 * HOUR, step=10)) == [24, 24, 24]
    assert clock.export.last_due == T0 + 24 * HOUR


def test_the_next_due_time_replaces_one_that_still_fails() -> None:
    clock = Clock(Schedule("e", "*/1 * * * *", retries=99), seconds=0, codes=(1, 1, 1, 0))
    clock.go(T0 + 300, step=1)
    assert len({due for _, due in clock.started}) >= 4


def test_jitter_is_within_its_bounds_and_the_same_after_a_restart() -> None:
    schedule = Schedule("e", "0 * * * *", jitter_seconds=600)
    started = Clock(schedule).go(T0 + 200 * HOUR, step=10)
    late = [when - due for when, due in started]
    assert 0 <= min(late) < 100 < 500 < max(late) <= 610
    assert schedule.jitter(T0) == Schedule("e", "0 * * * *", jitter_seconds=600).jitter(T0)
    assert schedule.jitter(T0) != Schedule("f", "0 * * * *", jitter_seconds=600).jitter(T0)


@pytest.mark.parametrize("years", [1 / 8760 * 3, 10])
def test_a_clock_that_was_wrong_and_is_set_back_keeps_no_run_waiting(years: float) -> None:
    """The manifest has the due times, so a restart would not help."""
    clock = Clock(Schedule("e", "0 * * * *"), last=T0 + years * 8760 * HOUR)
    clock.now = T0 + 10
    clock.go(T0 + 2 * HOUR)
    assert hours(clock.started) == [1, 2]
    assert clock.said == ["e: the clock was set back, to before what was due"]
    assert clock.export.next_run() == T0 + 3 * HOUR


def test_a_clock_that_is_set_back_by_a_little_runs_nothing_twice() -> None:
    clock = Clock(Schedule("e", "0 * * * *"), seconds=1)
    clock.go(T0 + HOUR + 2, step=1)
    clock.now -= 30
    clock.go(T0 + HOUR + 10, step=1)
    assert hours(clock.started) == [1]


def test_a_run_that_failed_before_the_clock_was_set_back_is_tried_at_once() -> None:
    clock = Clock(Schedule("e", "0 * * * *"), last=T0 + 99 * HOUR, seconds=0, codes=(1, 0))
    clock.go(T0 + 100 * HOUR + 1, step=1)
    assert len(clock.started) == 1
    clock.now = T0
    clock.open.clear()
    clock.go(T0 + 5, step=1)
    assert [when - T0 for when, _ in clock.started[1:]] == [1]


def test_nothing_was_missed_of_a_schedule_that_is_new() -> None:
    """Also if it is changed during a run."""
    clock = Clock(Schedule("e", "0 0 1 * *"), last=T0)
    for seconds, at in ((60, 10.5), (3 * HOUR, 11.5)):
        clock.seconds = seconds
        clock.go(T0 + at * HOUR)
        clock.export.change(Schedule("e", f"{seconds // HOUR:.0f} * * * *"), clock.now)
        clock.go(clock.now + 60)
    assert hours(clock.started) == [11]
    clock.go(T0 + 15 * HOUR)
    assert [(when - T0) / HOUR for when, _ in clock.started] == [11, 14]
    assert clock.missed == [0, 1]  # of 12:03 and 13:03


def test_a_clock_that_jumps_years_ahead_runs_once() -> None:
    """More runs came due than the limit of the count."""
    clock = Clock(Schedule("e", "* * * * *"), seconds=1)
    clock.now = T0 + 30 * 24 * HOUR
    clock.go(clock.now + 50, step=1)
    assert [due for _, due in clock.started] == [T0 + 30 * 24 * HOUR]
    assert clock.missed == [10_000]
    assert clock.said[0].startswith("e: was due at 2026-12-20 00:00:00Z, as 10000 times before, ")


def test_a_run_is_told_how_many_times_it_makes_up_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"import sys; open({str(out)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')"
    words = [sys.executable, "-c", script]
    scheduler = Scheduler(lambda: [], lambda name: words, lambda text: None)
    for missed in (0, 7):
        scheduler._start("e", T0, missed).wait(60)
    due = f"--due-ms {round(T0) * 1000}"
    assert out.read_text().splitlines() == [due, f"{due} --missed 7"]


def test_a_clock_that_was_set_back_does_not_keep_definitions_from_being_read() -> None:
    read: list[float] = []
    scheduler = Scheduler(lambda: read.append(1.0) or [], lambda name: [], lambda text: None)
    for now in (T0 + 9999 * HOUR, T0, T0 + 1, T0 + 61):
        scheduler.step(now)
    assert len(read) == 3


def local_times(cron: str, zone: str, begin: str, days: float) -> list[str]:
    first = datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo(zone)).timestamp()
    clock = Clock(Schedule("e", cron, zone), last=first)
    clock.go(first + days * 24 * HOUR)
    return [datetime.fromtimestamp(due, ZoneInfo(zone)).strftime("%d %H:%M %Z")
            for _, due in clock.started]


def test_a_time_that_the_day_skips_is_due_once_behind_the_gap() -> None:
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3) == [
        "28 02:30 CET", "29 03:00 CEST", "30 02:30 CEST"]


def test_a_time_that_comes_twice_is_due_once() -> None:
    assert local_times("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00", 3) == [
        "24 02:30 CEST", "25 02:30 CEST", "26 02:30 CET"]


@pytest.mark.parametrize(("begin", "count"), [("2026-03-29T00:00", 23), ("2026-10-25T00:00", 25)])
def test_every_hour_is_every_real_hour_on_such_days(begin: str, count: int) -> None:
    found = local_times("0 * * * *", "Europe/Berlin", begin, (count - 0.5) / 24)
    assert len(found) == len(set(found)) == count - 1
    assert found[-1][:5] == begin[8:10] + " 23"


@pytest.mark.parametrize("begin", ["2026-03-28T00:00", "2026-10-24T00:00"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "0 3 * * *", "*/15 1-3 * * *"])
def test_the_broker_and_the_scheduler_agree_on_what_was_due(cron: str, begin: str) -> None:
    """Otherwise health would report timely runs as overdue on days of clock changes."""
    schedule = Schedule("e", cron, "Europe/Berlin")
    at = datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    for _ in range(24):
        at = schedule.next_after(at)
        assert due.last_due(cron, "Europe/Berlin", at + 1) == at


@pytest.mark.parametrize(
    ("cron", "zone"),
    [("61 * * * *", "UTC"), ("0 * * *", "UTC"), ("0 0 * * *", "No/Where"), ("0 0 31 2 *", "UTC")],
)
def test_a_schedule_that_means_nothing_is_refused(cron: str, zone: str) -> None:
    with pytest.raises(ExportFailed, match="the schedule of e"):
        Schedule("e", cron, zone)


def test_the_manifest_has_the_position_of_a_schedule(tmp_path: Path) -> None:
    target = Target(tmp_path / "target")
    definition = {"name": "e", "topics": ["t"], "target": str(target.root)}
    assert last_due(definition, 77.0) == 77.0
    make_folder(target.own)
    runs: list[dict[str, Any]] = [{"due_ms": None, "started_ms": 40_000}]
    export_manifest.save(target, {**export_manifest.empty(), "runs": runs})
    assert last_due(definition, 77.0) == 77.0
    for defined_ms, begin in ((0, 77.0), (30_000, 40.0), (50_000, 50.0), (99_000, 77.0)):
        assert last_due({**definition, "status": {"defined_ms": defined_ms}}, 77.0) == begin
    runs = [{"due_ms": None}, {"due_ms": 5000}, {"due_ms": None}]
    export_manifest.save(target, {**export_manifest.empty(), "runs": runs})
    assert last_due(definition, 77.0) == 5.0


def test_definitions_come_from_a_file_and_runs_are_processes(tmp_path: Path) -> None:
    file = tmp_path / "exports.toml"
    file.write_text(
        '[[export]]\nname = "clicks"\ntopics = ["clicks"]\ntarget = "t"\n'
        'schedule = {when = "every minute"}\n'
        '[[export]]\nname = "bad"\ntopics = ["x"]\ntarget = "u"\n'
        'schedule = {cron = "x"}\n[[export]]\nname = "worse"\ntopics = ["x"]\ntarget = "u"\n'
        'schedule = {when = "every 7 minutes"}\n')
    told: list[str] = []
    out = tmp_path / "out"
    script = f"import sys; open({str(out)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')"
    scheduler = Scheduler(
        lambda: definitions_of(file, AdminPort("unused")),
        lambda name: [sys.executable, "-c", script, name], told.append)
    scheduler.step(T0 + 1)
    assert told == [
        "the schedule of bad: 'x' in 'UTC': Wrong number of fields",
        "the export worse: schedule.when: got every 7 minutes, wanted a part of an hour: 1, 2, 3, "
        "4, 5, 6, 10, 12, 15, 20, 30"]
    scheduler.step(T0 + 60)
    running = scheduler.exports["clicks"].running
    assert running is not None
    assert running.wait(60) == 0  # type: ignore[attr-defined]
    assert out.read_text() == f"clicks --due-ms {round(T0 + 60) * 1000}\n"
    scheduler.step(T0 + 61)
    assert scheduler.exports["clicks"].last_due == T0 + 60
    right = 'name = "x"\ntopics = ["x"]\ntarget = "t"\n'
    for text in ("[[export]]\nname = 1", f"[export]\n{right}",
                 f"[[export]]\n{right}".replace('"t"', "1")):
        file.write_text(text)
        with pytest.raises(ExportFailed, match="wants name, target, and topics"):
            definitions_of(file, AdminPort("unused"))
