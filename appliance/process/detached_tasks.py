"""Work that continues to its end even if the client that asked for it is gone.

`asyncio.shield` does that, but then nobody retrieves its error. Python would report each error with
a trace, although most of them only tell the client what was wrong with its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from appliance.errors import ApplianceError
from appliance.process import event_log

logger = event_log.named("unattended")

Result = TypeVar("Result")


class Tasks:
    """Tasks of one owner, which waits for them when it is closed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, job: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self) -> None:
        """Waits for all tasks, and for tasks that they started."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class LoggedTasks(Tasks):
    """Nobody but the log sees their errors."""

    def __init__(self, logger: event_log.Named, what: str) -> None:
        """`what` failed with an error that is not one of our own."""
        super().__init__()
        self._logger = logger
        self._what = what

    def run(self, job: Awaitable[None]) -> asyncio.Task[None]:
        return self.begin(self.logged(job))

    async def logged(self, job: Awaitable[None]) -> None:
        try:
            await job
        except ApplianceError as error:
            self._logger.warning("put off", error=error)
        except Exception:
            self._logger.exception(f"{self._what} failed unexpectedly")


class Changes(Tasks):
    """Tasks of one owner run one after the other, each to its end."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = asyncio.Lock()

    async def __call__(self, job: Coroutine[Any, Any, Result]) -> Result:
        return await outcome(self.begin(self._in_turn(job)))

    async def _in_turn(self, job: Coroutine[Any, Any, Result]) -> Result:
        async with self._turn:
            return await job


async def outcome(task: asyncio.Task[Result]) -> Result:
    """The result of a task. Cancelling the caller does not cancel the task."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        let_go(task)
        raise


def settle(waited_for: asyncio.Future[None], error: Exception | None) -> None:
    """Whoever waited for it may be gone."""
    if waited_for.done():
        return
    if error is None:
        waited_for.set_result(None)
    else:
        waited_for.set_exception(error)


def let_go(work: asyncio.Future[Any]) -> None:
    """Tasks that nobody waits for."""
    work.add_done_callback(_look_at)


def _look_at(work: asyncio.Future[Any]) -> None:
    if work.cancelled():
        return
    try:
        work.result()
    except ApplianceError:
        return  # a response for a client that is gone
    except Exception:
        logger.exception("a task that nobody waits for failed unexpectedly")
