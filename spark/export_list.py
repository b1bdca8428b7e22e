"""`appliance export list`: the exports that are defined in the broker, and how they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from appliance.export.schedule_words import with_zone
from appliance.process.spoken import duration, moment, some
from appliance_spark.export_schedule import LATE_S

HEADS = ("EXPORT", "LAST RUN", "LAG", "NEXT RUN", "SCHEDULE", "TARGET")


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    status = row["status"]
    last, next_ms = status["last_run"], status["next_run_ms"]
    ran = f"{last['state']} {moment(last['started_ms'])}" if last else "none yet"
    return row["name"], ran, _lag(status), moment(next_ms), _schedule(row), row["target"]


def _lag(status: dict[str, Any]) -> str:
    records, seconds = status["behind_records"], status["behind_seconds"]
    if not records:
        return "none"
    return some(records, "record") if seconds is None else (
        f"{duration(seconds)} at most, {some(records, 'record')}")


def _schedule(row: dict[str, Any]) -> str:
    given = row.get("schedule")
    if not given:
        return "manual"
    return with_zone(given.get("when") or given["cron"], given.get("timezone") or "UTC")


def troubles(row: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an export, in a line each. A broker of an older version has no `late`."""
    status = row["status"]
    if status["fault"]:
        yield f"{row['name']} cannot run as it is defined: {status['fault']}"
    if status.get("late"):
        yield status["late"]
    last = status["last_run"]
    if last and (why := lateness(last, row.get("schedule") or {})):
        yield f"the last run of {row['name']} {why}"
    if last and last["state"] == "failed":
        why = (last.get("error") or "nobody has told why").splitlines()[0]
        yield f"the last run of {row['name']} failed: {why}"


def lateness(run: dict[str, Any], schedule: dict[str, Any]) -> str:
    """How much later than its schedule a run began, and what it makes up for, or ""."""
    plan = run.get("plan") or {}
    due_ms, missed = plan.get("due_ms"), plan.get("missed")
    seconds = 0.0 if due_ms is None else (run["started_ms"] - due_ms) / 1000
    is_late = seconds > LATE_S + (schedule.get("jitter_seconds") or 0)
    told = [f"began {duration(seconds)} late"] if is_late else []
    told += [f"makes up for {some(missed, 'missed run')}"] if missed else []
    return " and ".join(told)
