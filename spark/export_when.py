"""`appliance export when`: the next runs of a schedule, before anything has it, and of the exports
that are defined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appliance.export.due import in_utc, in_zone, next_times
from appliance.export.schedule_words import resolved, with_zone, zone_of
from appliance_spark.export_layout import ExportFailed

Row = dict[str, Any]


def preview(words: str, timezone: str | None, now: float, count: int) -> Row:
    return _row({"when": words, **({"timezone": timezone} if timezone else {})}, now, count)


def of_definitions(definitions: Iterable[Row], now: float, count: int) -> list[Row]:
    """An export whose schedule is wrong has the reason in its place."""
    found = []
    for each in definitions:
        row: Row = {"name": each["name"], "schedule": None, "next": []}
        if each.get("schedule"):
            try:
                row |= _row(each["schedule"], now, count)
            except ExportFailed as error:
                row["error"] = str(error)
        found.append(row)
    return found


def _row(schedule: Row, now: float, count: int) -> Row:
    try:
        full = resolved(schedule)
        cron, zone = full["cron"], full.get("timezone") or "UTC"
        zone_of(zone)
        times = next_times(cron, zone, now, count)
    except ValueError as error:
        raise ExportFailed(str(error)) from error
    return {"schedule": full.get("when") or cron, "cron": cron, "timezone": zone, "next": [
        {"at_ms": round(each.timestamp() * 1000), "local": in_zone(each), "utc": in_utc(each)}
        for each in times]}


def lines(row: Row) -> list[str]:
    """The times in the zone, and in UTC beside it, where these differ."""
    width = max((len(each["local"]) for each in row["next"]), default=0)
    is_utc = row["timezone"] == "UTC"
    return [each["local"] if is_utc else f"{each['local']:{width}}   {each['utc']}"
            for each in row["next"]]


def cells(row: Row) -> tuple[str, str, str]:
    """Of a table: name, schedule, the next run."""
    if "error" in row:
        return row["name"], "wrong", row["error"]
    if row["schedule"] is None:
        return row["name"], "manual", ""
    schedule = with_zone(row["schedule"], row["timezone"])
    return row["name"], schedule, next(iter(lines(row)), "")
