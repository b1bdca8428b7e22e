"""Where a bulk read begins and ends, as it is asked for: of all partitions, or of each.

    earliest | latest | NUMBER | @MS or @2026-11-21T08:00:00Z | {"0": 5, "1": "latest"}

-2 and -1 are Kafka's numbers for the first two. Partitions that a map does not name are left out.
A time without a zone is UTC.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, NamedTuple

from appliance._log import Log
from appliance.errors import RequestInvalid

EARLIEST, LATEST = "earliest", "latest"
LIMITS = {"read_committed": "stable", "read_uncommitted": "visible"}


class Bound(NamedTuple):
    """`kind` is earliest, latest, offset or time; `value` a number of the last two."""

    kind: str
    value: int = 0


def bounds(name: str, text: str, partitions: int) -> dict[int, Bound]:
    """By partition; `name` is the parameter that they stand in."""
    if not text.startswith("{"):
        one = bound(name, text)
        return dict.fromkeys(range(partitions), one)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestInvalid(f"{name}: no JSON: {error}") from error
    return {_partition(name, key, partitions): bound(name, each) for key, each in found.items()}


def _partition(name: str, key: str, partitions: int) -> int:
    if not re.fullmatch(r"\d{1,9}", key, re.ASCII) or int(key) >= partitions:
        raise RequestInvalid(f"{name}: got partition {key[:20]!r}, wanted 0 to {partitions - 1}")
    return int(key)


def bound(name: str, value: Any) -> Bound:
    text = str(value).strip()
    if text in (EARLIEST, "-2"):
        return Bound(EARLIEST)
    if text in (LATEST, "-1"):
        return Bound(LATEST)
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return Bound("offset", int(text))
    at_ms = _time_ms(text[1:]) if text.startswith("@") else None
    if at_ms is None:
        raise RequestInvalid(
            f"{name}: got {text[:60]!r}, wanted earliest, latest, a number, @MS, @TIME, or a map "
            "of these by partition"
        )
    return Bound("time", at_ms)


def _time_ms(text: str) -> int | None:
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return int(text)
    try:
        # not before Python 3.11 is Z a zone
        found = datetime.fromisoformat(re.sub("Z$", "+00:00", text))
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    return int(found.timestamp() * 1000)


def offset_of(bound: Bound, log: Log, end_offset: int, up_to: str) -> int:
    """As it was asked for, though the log may begin later or end before. A time is looked for on
    disk."""
    if bound.kind == EARLIEST:
        return log.log_start_offset
    if bound.kind == LATEST:
        return end_offset
    if bound.kind == "offset":
        return bound.value
    found = log.offset_for_timestamp(bound.value, up_to)
    return end_offset if found is None else min(found[0], end_offset)
