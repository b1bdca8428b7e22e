"""The last lines of the log, from memory."""

from __future__ import annotations

from typing import Literal, TypedDict

from appliance.admin.body_schema import row_of
from appliance.admin.route import Call, Param, get
from appliance.process import event_log

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS = ("debug", "info", "warning", "error", "critical")


class Line(TypedDict):
    id: int
    at_ms: int
    level: Level
    name: str
    text: str


class Lines(TypedDict):
    lines: list[Line]  # the oldest first
    kept: int  # how many there are at most


def list_lines(call: Call) -> Lines:
    least = LEVELS.index(call.params["level"])
    text, after = call.params["q"].lower(), call.params["after"]
    found = [
        row_of(Line, each)
        for each in event_log.recent()
        if each.id > after and LEVELS.index(each.level) >= least and text in each.text.lower()
    ]
    return {"lines": found[-call.params["limit"] :], "kept": event_log.RECENT_MAX}


ROUTES = [
    get(
        "/log",
        list_lines,
        Lines,
        "The last lines of the log.",
        params=(
            Param("level", str, "Of at least this level.", "info", choices=LEVELS),
            Param("q", str, "Only lines that hold this text.", ""),
            Param("after", int, "Only lines with a larger id.", 0, minimum=0),
            Param("limit", int, "The newest of them.", 200, minimum=1, maximum=5000),
        ),
    ),
]
