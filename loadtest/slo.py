"""The goals of a run: `--slo p99=20ms,loss=0`.

    p50= p99= p99.9= max=    longest times: acks of producers, and end to end, if measured
    e2e.p99= produce.p99=    of one kind: produce, e2e, fetch, commit, join
    loss= altered= duplicates= unknown=    records, after the log was read back
    errors=                  failed requests of all users: a count, or 0.1%
    records/s= mb/s=         at least this much was acknowledged

A goal that was not measured fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from loadtest import tally
from loadtest.histogram import Histogram

KINDS = {
    "produce": tally.PRODUCE,
    "e2e": tally.END_TO_END,
    "fetch": tally.FETCH,
    "commit": tally.COMMIT,
    "join": tally.REBALANCE,
}
USUAL_KINDS = (tally.PRODUCE, tally.END_TO_END)  # what a user notices
TIME = re.compile(r"(?:(?P<kind>\w+)\.)?(?:p(?P<percent>\d+(?:\.\d+)?)|(?P<max>max))")
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
DURATION = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>us|ms|s)")
AT_MOST = ("loss", "altered", "duplicates", "unknown", "errors")
AT_LEAST = ("records/s", "mb/s")


class GoalInvalid(ValueError):
    """Not a goal; the text has the name, got and wanted."""


@dataclass(frozen=True)
class Goal:
    name: str
    limit: float
    kind: str = ""  # of times
    part: float = 0.0  # of times: 0.99, 1 is the maximum
    is_share: bool = False  # of all requests, instead of a count


@dataclass(frozen=True)
class Measured:
    """The figures for goals. A missing number was not measured."""

    times: Mapping[str, Histogram]
    numbers: Mapping[str, float]
    requests: int


@dataclass(frozen=True)
class Result:
    name: str
    limit: float
    measured: float
    is_met: bool

    @property
    def text(self) -> str:
        verdict = "met" if self.is_met else "BREACHED"
        return f"{self.name}: {self.measured:.6g}, wanted {self.limit:.6g}: {verdict}"


def parse(text: str) -> list[Goal]:
    return [goal_of(*each.partition("=")[::2]) for each in text.split(",") if each.strip()]


def goal_of(name: str, value: str) -> Goal:
    name, value = name.strip().lower(), value.strip().lower()
    found = TIME.fullmatch(name)
    if found:
        if found["kind"] and found["kind"] not in KINDS:
            raise GoalInvalid(
                f"goal {name!r}: kind {found['kind']!r}, known are {', '.join(KINDS)}"
            )
        part = 1.0 if found["max"] else float(found["percent"]) / 100
        if part > 1:
            raise GoalInvalid(f"goal {name!r}: more than 100 per cent")
        return Goal(name, seconds_of(name, value), found["kind"] or "", part)
    if name not in AT_MOST + AT_LEAST:
        raise GoalInvalid(f"goal {name!r}: known are p99, {', '.join(AT_MOST + AT_LEAST)}")
    is_share = name == "errors" and value.endswith("%")
    try:
        limit = float(value.removesuffix("%") if is_share else value)
    except ValueError:
        raise GoalInvalid(f"goal {name}={value}: wanted a number") from None
    return Goal(name, limit / 100 if is_share else limit, is_share=is_share)


def seconds_of(name: str, value: str) -> float:
    found = DURATION.fullmatch(value)
    if not found:
        raise GoalInvalid(f"goal {name}={value}: wanted a time like 20ms")
    return float(found["value"]) * SECONDS[found["unit"]]


def check(goal: Goal, measured: Measured) -> Result:
    if goal.part:
        value = slowest(goal, measured.times)
        return Result(goal.name, goal.limit, value, value <= goal.limit)
    value = measured.numbers.get(goal.name, math.nan)
    if goal.is_share:
        value = value / measured.requests if measured.requests else math.nan
    is_met = value >= goal.limit if goal.name in AT_LEAST else value <= goal.limit
    return Result(goal.name, goal.limit, value, is_met)


def slowest(goal: Goal, times: Mapping[str, Histogram]) -> float:
    kinds = (KINDS[goal.kind],) if goal.kind else USUAL_KINDS
    found = [times[kind].quantile(goal.part) for kind in kinds if kind in times]
    return max(found, default=math.nan)
