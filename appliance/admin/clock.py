"""The broker's view of the machine's clock, and its confirmation by a person."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from appliance.admin.body_schema import row_of
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import ADMIN, Call, get, post
from appliance.machine.believed_time import Way
from appliance.machine.clock_state import told


class ClockAnswer(TypedDict):
    wall_ms: int  # the machine's clock
    believed_ms: int  # the same, unless there is doubt
    doubt: Way | None
    text: str  # a description, with the remedy
    settles_in_ms: int | None  # None: no doubt, or it does not end by waiting


def get_clock(call: Call) -> ClockAnswer:
    clock = call.broker.clock
    doubt = clock.doubt()
    if doubt is None:
        now_ms = clock.latest_ms()
        return {
            "wall_ms": now_ms, "believed_ms": now_ms, "doubt": None,
            "text": "the machine's clock is believed", "settles_in_ms": None,
        }  # fmt: skip
    return row_of(ClockAnswer, doubt, doubt=doubt.way, text=told(doubt))


async def confirm_clock(call: Call) -> ClockAnswer:
    await asyncio.to_thread(call.broker.log_dir.confirm_clock)
    return get_clock(call)


ROUTES = [
    get(
        "/clock",
        get_clock,
        ClockAnswer,
        "Whether the machine's clock is believed.",
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/clock/confirm",
        confirm_clock,
        ClockAnswer,
        "Confirm the machine's clock: from now on, records that are too old by it are deleted.",
        role=ADMIN,
    ),
]
