"""SIGTERM and SIGINT, from the first line of `serve` to its last. A signal that comes before the
server exists is kept for it. So a signal never kills a process that is starting."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)

Callback = Callable[[signal.Signals], object]


class StopSignals:
    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._callback: Callback | None = None

    def hold(self) -> None:
        """From now on the signals do not end the process. Python wants this on the main thread."""
        for each in STOPS:
            signal.signal(each, self._on_signal)

    def tell(self, callback: Callback | None) -> None:
        """Sets the callback for signals. A signal that came already is passed to it at once."""
        self._callback = callback
        if callback is not None and self.came is not None:
            callback(self.came)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.came = signal.Signals(number)
        if self._callback is not None:
            self._callback(self.came)


stop_signals = StopSignals()
