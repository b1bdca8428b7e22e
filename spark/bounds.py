"""The bounds of a read: from the options to the form of an export plan.

earliest  latest  -2  -1  17     offsets
@1700000000000                   the first offset with at least that timestamp
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance_spark.options import Given, OptionInvalid

EARLIEST, LATEST = "earliest", "latest"
NAMED = {-2: EARLIEST, -1: LATEST}
ID = "id"  # beside a topic's partitions: the id of the topic


@dataclass(frozen=True)
class Bound:
    """One for all partitions, or one for each named partition."""

    option: str
    of_all: str = ""
    of_each: Mapping[str, Mapping[int, str]] | None = None
    by_time: bool = False
    ids: Mapping[str, str] = field(default_factory=dict)  # of topics, if the option has them

    def of(self, topic: str, partition: int) -> str | None:
        """None: the partition is not named."""
        if self.of_each is None:
            return self.of_all
        return self.of_each.get(topic, {}).get(partition)

    def partitions(self, topic: str) -> set[int] | None:
        return None if self.of_each is None else set(self.of_each.get(topic, {}))


def starting(given: Given, default: str) -> Bound:
    return _bound(given, "starting", default)


def ending(given: Given) -> Bound:
    bound = _bound(given, "ending", LATEST)
    if EARLIEST in (bound.of_all, *_values(bound)):
        raise OptionInvalid(f"option {bound.option}: an end cannot be the earliest offset")
    return bound


def _values(bound: Bound) -> list[str]:
    return [text for each in (bound.of_each or {}).values() for text in each.values()]


def _bound(given: Given, side: str, default: str) -> Bound:
    time, by_time, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if given.text(time):
        return Bound(time, f"@{given.int(time, 0)}", by_time=True)
    if given.text(by_time):
        found = _by_partition(given, by_time, 0)
        each = {name: {n: f"@{ms}" for n, ms in of.items()} for name, of in found.items()}
        return Bound(by_time, of_each=each, by_time=True)
    text = given.text(offsets) or default
    if text.lower() in (EARLIEST, LATEST):
        return Bound(offsets, text.lower())
    found = _by_partition(given, offsets, -2)
    each = {name: {n: NAMED.get(at, str(at)) for n, at in of.items()} for name, of in found.items()}
    return Bound(offsets, of_each=each, ids=_ids(given, offsets))


def _ids(given: Given, option: str) -> dict[str, str]:
    return {topic: str(of[ID]) for topic, of in given.json(option).items() if ID in of}


def _by_partition(given: Given, option: str, minimum: int) -> dict[str, dict[int, int]]:
    found = given.json(option)
    wanted = '{"topic": {"0": 23, "1": 7}}'
    if not isinstance(found, dict) or not all(isinstance(of, dict) for of in found.values()):
        raise OptionInvalid(f"option {option}: got {found!r}, wanted {wanted}")
    return {
        name: {_number(option, n, 0): _number(option, at, minimum)
               for n, at in of.items() if n != ID}
        for name, of in found.items()
    }


def _number(option: str, given: Any, minimum: int) -> int:
    try:
        number = int(given)
    except (TypeError, ValueError):
        number = minimum - 1
    if number < minimum:
        raise OptionInvalid(
            f"option {option}: got {given!r}, wanted a number of at least {minimum}"
        )
    return number


def as_text(by_partition: Mapping[int, str | int]) -> str:
    """A map in the form of the plan."""
    return json.dumps({str(number): at for number, at in sorted(by_partition.items())})
