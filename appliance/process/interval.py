"""The time between two turns of a timer."""

from __future__ import annotations

import asyncio


class Interval:
    """Between two turns of a timer. Who waits for the next turn hears of a change."""

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.changed = asyncio.Event()
        self.is_hurried = False

    def hurry(self) -> None:
        """The next turn is now."""
        self.is_hurried = True
        self.set(self.ms)

    def set(self, ms: int) -> None:
        self.ms = ms
        told, self.changed = self.changed, asyncio.Event()
        told.set()
