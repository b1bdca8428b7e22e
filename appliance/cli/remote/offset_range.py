"""The offsets and times that commands accept as a start or a range.

    earliest  latest  -N (the last N of each partition)  N  N:M (up to M)  @TIME  @TIME:@TIME

TIME is 2026-11-21 or 2026-11-21T08:30, with seconds and a zone if wanted (UTC without one), or a
duration before now: -90s, -15m, -1h, -7d.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from typing import NamedTuple

import click

AGO = re.compile(r"-(\d{1,9})([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Where(NamedTuple):
    begin: str  # as the REST API's `from`
    end_offset: int | None = None
    end_ms: int | None = None

    @property
    def until(self) -> str | None:
        """As the REST API's `until`."""
        if self.end_offset is not None:
            return f"offset:{self.end_offset}"
        return None if self.end_ms is None else f"time:{self.end_ms}"


def parse(text: str) -> Where:
    if text in ("earliest", "start"):
        return Where("oldest")
    if text in ("latest", "end"):
        return Where(f"offset:{10**18 - 1}")  # behind every end
    if text.startswith("@"):
        first, last = _times(text)
        return Where(f"time:{first}", end_ms=last)
    first_text, colon, last_text = text.partition(":")
    is_range = colon and first_text.isdecimal() and last_text.isdecimal()
    if is_range or (not colon and re.fullmatch(r"-?\d{1,18}", text)):
        return Where(f"offset:{first_text}", int(last_text) if is_range else None)
    raise click.BadParameter(
        f"got {text!r}, wanted earliest, latest, -N, N, N:M, @TIME or @TIME:@TIME"
    )


def _times(text: str) -> tuple[int, int | None]:
    first, colon, last = text.partition(":@")
    return time_ms(first), time_ms(f"@{last}") if colon else None


def time_ms(text: str) -> int:
    """The milliseconds of @TIME."""
    bare = text.removeprefix("@")
    ago = AGO.fullmatch(bare)
    if ago:
        return round((time.time() - int(ago[1]) * SECONDS[ago[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(bare.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(
            f"got {text!r}, wanted @2026-11-21T08:30 or a time before now: @-1h"
        ) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return round(zoned.timestamp() * 1000)
