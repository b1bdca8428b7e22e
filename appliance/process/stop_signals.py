"""SIGTERM and SIGINT, from the first line of `serve` to its last. A signal that comes before the
server exists is kept for it. So a signal never kills a process that is starting.

SIGUSR2 wants a new process to take over (`succession.py`): it counts while clients are served."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)
SUCCESSION = signal.SIGUSR2

Callback = Callable[[signal.Signals], object]


class StopSignals:
    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._callback: Callback | None = None
        self.on_succession: Callable[[], object] = lambda: None

    def hold(self) -> None:
        """From now on the signals do not end the process. Python wants this on the main thread."""
        for each in (*STOPS, SUCCESSION):
            signal.signal(each, self._on_signal)

    def tell(self, callback: Callback | None) -> None:
        """Sets the callback for signals. A signal that came already is passed to it at once. None:
        nobody listens any more, to no signal."""
        self._callback = callback
        if callback is None:
            self.on_succession = lambda: None
        if callback is not None and self.came is not None:
            callback(self.came)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == SUCCESSION:
            self.on_succession()
            return
        self.came = signal.Signals(number)
        if self._callback is not None:
            self._callback(self.came)


stop_signals = StopSignals()
