"""What is wrong, and when that is told: once when it begins, once when it ends.

    new       it was found, and is not told yet: it must have begun `begin_after_s` ago
    told      somebody was told that it began
    away      told, and not found any more: its end is told after `end_after_s`, unless it is back

What comes and goes is one condition as long as it is never away for `end_after_s`. No I/O and no
clock: time is passed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.alerts.alert import Condition, shortened
from appliance.broker.finding import Finding
from appliance.broker.health import IN_LEDGER, told_of_damage
from appliance.catalog.loss_ledger import Entry

# A number of its own, with its unit or as a time; never that in a name, as of orders-3 or sda1.
NUMBER = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z?"
    r"|(?<![\w.,:\-/])\d[\d.,:]*(?:[ ]?(?:[KMGT]iB|B|ms|s|min|h|d|days?|hours?|%))?(?![\w\-/])"
    r"(?! of its)"  # disks that an array lacks: one more is news
)


def key_of(finding: Finding) -> str:
    """The same as long as it is the same thing, whatever its numbers are now."""
    words = finding.about or NUMBER.sub("#", shortened(finding.text))
    return f"{finding.level} {finding.area}: {words}"


def of_findings(findings: Iterable[Finding], at_ms: int) -> dict[str, Condition]:
    found = {}
    for each in findings:
        if each.about != IN_LEDGER:
            key = key_of(each)
            found[key] = Condition(key, each.level, each.area, shortened(each.text), at_ms)
    return found


def of_ledger(entries: Iterable[Entry]) -> dict[str, Condition]:
    """Those that nobody has acknowledged, each by itself. One that is not stored yet has no id."""
    found = {}
    for each in entries:
        key = f"degraded ledger: {each.at_ms} {each.damage}"
        text = shortened(told_of_damage(each.damage))
        found[key] = Condition(key, "degraded", "ledger", text, each.at_ms)
    return found


@dataclass
class Seen:
    condition: Condition
    since_s: float
    last_s: float
    is_told: bool = False


class Conditions:
    def __init__(
        self, begin_after_s: float, end_after_s: float, told: Iterable[Condition], now_s: float
    ) -> None:
        """`told`: before a restart."""
        self._begin_after_s, self._end_after_s = begin_after_s, end_after_s
        self._seen = {each.key: Seen(each, now_s, now_s, True) for each in told}

    def told(self) -> list[Condition]:
        """What was told to be wrong, and not to be over."""
        return [each.condition for each in self._seen.values() if each.is_told]

    def look(self, found: Mapping[str, Condition], now_s: float) -> None:
        for key, condition in found.items():
            seen = self._seen.setdefault(key, Seen(condition, now_s, now_s))
            seen.last_s = now_s
        self._seen = {
            key: each
            for key, each in self._seen.items()
            if each.is_told or now_s - each.last_s <= self._end_after_s
        }

    def take(self, now_s: float) -> tuple[list[Condition], list[Condition]]:
        """What is to be told of the look at this time: what began, and what ended."""
        began = [each for each in self._seen.values() if self._begins(each, now_s)]
        for each in began:
            each.is_told = True
        ended = [
            each.condition
            for each in self._seen.values()
            if each.is_told and each.last_s < now_s and now_s - each.last_s >= self._end_after_s
        ]
        for condition in ended:
            del self._seen[condition.key]
        return [each.condition for each in began], ended

    def _begins(self, seen: Seen, now_s: float) -> bool:
        """It is there at this look, and was there that long ago."""
        is_there = seen.last_s == now_s
        return not seen.is_told and is_there and now_s - seen.since_s >= self._begin_after_s
