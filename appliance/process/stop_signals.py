"""SIGTERM and SIGINT, from the first line of `serve` to its last: what comes before there is
anybody to stop is kept for it, so that no moment of a start ends the process by the signal."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)

Told = Callable[[signal.Signals], object]


class StopSignals:
    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._told: Told | None = None

    def hold(self) -> None:
        """From now on they end nothing by themselves. On the main thread, as Python wants it."""
        for each in STOPS:
            signal.signal(each, self._on_signal)

    def tell(self, told: Told | None) -> None:
        """Who hears of each from now on, and of one that came already."""
        self._told = told
        if told is not None and self.came is not None:
            told(self.came)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.came = signal.Signals(number)
        if self._told is not None:
            self._told(self.came)


stop_signals = StopSignals()
