"""Records are deleted at all replicas that are in sync: else the next leader shows them again.

A follower takes its leader's start when it hears of it, and tells its own with each fetch. Where
there is no other replica nobody waits.
"""

from __future__ import annotations

import asyncio
import time

from appliance._log import Log
from appliance.errors import TimedOut
from appliance.topics.known_end import check_led

LOOK_S = 0.005


async def await_start(log: Log, offset: int, until_s: float) -> None:
    """Until what is before `offset`, which is deleted here, is deleted at all of them; no longer
    than to a moment of `time.monotonic()`."""
    while behind := _behind(log, offset):
        if time.monotonic() > until_s:
            raise TimedOut(
                f"{log.name}: what is before offset {offset} is deleted here, and in time was not "
                f"at brokers {behind}, which are in sync: it is shown again if one of them leads "
                "before it has heard of that; try again"
            )
        await asyncio.sleep(LOOK_S)
    check_led(log)  # who leads no more knows no followers


def _behind(log: Log, offset: int) -> list[int]:
    return [each.node for each in log.replicas()
            if (each.is_in_sync or each.is_joining) and each.start_offset < offset]  # fmt: skip
