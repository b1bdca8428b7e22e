"""How exactly the past is kept: the older, the coarser.

A series is a number that is measured again and again. Those of the broker are few and are kept
more exactly than those of each topic and group, of which there may be a thousand. A name says
which it is: `broker/in_bytes_per_s`, `topic/orders/size_bytes`, `group/billing/lag_records`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400

BROKER = "broker/"
POINTS_MAX = 2200  # of one series in an answer: more than a screen has columns


class Level(NamedTuple):
    number: int  # in the file, for ever
    step_s: int
    kept_s: int


class Levels:
    """`days`: how long the coarsest is kept."""

    def __init__(self, days: int) -> None:
        whole = days * DAY_S
        self.of_broker = (
            Level(0, 10, min(6 * HOUR_S, whole)),
            Level(1, MINUTE_S, min(36 * HOUR_S, whole)),
            Level(2, 10 * MINUTE_S, min(10 * DAY_S, whole)),
            Level(3, HOUR_S, whole),
        )
        self.of_names = (Level(4, MINUTE_S, min(6 * HOUR_S, whole)), Level(5, HOUR_S, whole))

    @property
    def all(self) -> tuple[Level, ...]:
        return self.of_broker + self.of_names

    def of(self, series: str) -> Sequence[Level]:
        return self.of_broker if series.startswith(BROKER) else self.of_names

    def for_range(self, series: str, from_s: int, to_s: int, now_s: int) -> Level:
        """The finest that reaches back so far, in not too many points."""
        own = self.of(series)
        for each in own:
            is_kept = from_s >= now_s - each.kept_s
            if is_kept and (to_s - from_s) / each.step_s <= POINTS_MAX:
                return each
        return own[-1]
