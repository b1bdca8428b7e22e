"""The time between two turns of a timer."""

from __future__ import annotations

import asyncio


class Interval:
    """Between two turns of a timer. Who waits for the next turn hears of a change."""

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.is_hurried = False
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Shorter, if the interval changes or is woken meanwhile. For one who waits. One future and
        no task: ten timers wait like this at all times."""
        assert self._waiting is None, "somebody waits already"
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def hurry(self) -> None:
        """The next turn is now."""
        self.is_hurried = True
        self.set(self.ms)

    def set(self, ms: int) -> None:
        self.ms = ms
        self.wake()
