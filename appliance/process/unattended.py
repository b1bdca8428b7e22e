"""Work that goes on to its end although who asked for it is gone.

`asyncio.shield` does that, but then nobody looks at an error of it, and Python reports each of them
as one of ours, with a trace, although most only tell the asker what was wrong with the question.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from appliance.errors import ApplianceError
from appliance.process import event_log

logger = event_log.named("unattended")

Result = TypeVar("Result")


async def outcome(task: asyncio.Task[Result]) -> Result:
    """Of a task that is not cancelled with who waits for it."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_look_at)
        raise


def _look_at(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        return
    try:
        task.result()
    except ApplianceError:
        return  # the asker's, who is gone
    except Exception:
        logger.exception("what nobody waits for any more failed in a way that was not foreseen")
