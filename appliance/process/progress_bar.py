"""The progress bar of a long command."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

REDRAW_SECONDS = 0.1  # for a bar on a terminal
LINE_SECONDS = 1.0  # between two plain lines
WIDTH = 30  # of the bar


class ProgressBar:
    """On stderr: a bar at a terminal, otherwise a line each second. `shown` formats a number, for
    example as bytes."""

    def __init__(self, what: str, shown: Callable[[int], str] = str) -> None:
        self.what, self.shown = what, shown
        self._began = self._told = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._length = 0  # of the line on the terminal

    def __call__(self, done: int, total: int) -> None:
        pause = REDRAW_SECONDS if self._is_terminal else LINE_SECONDS
        is_end = self._is_terminal and done == total
        now = time.monotonic()
        if not is_end and now - self._told < pause:
            return
        self._told = now
        if not self._is_terminal:
            click.echo(f"{self.what}: {self.shown(done)} of {self.shown(total)}", err=True)
            return
        bar = "#" * (WIDTH * done // max(total, 1))
        line = f"{self.what} [{bar:-<{WIDTH}}] {self.shown(done)}/{self.shown(total)}"
        line += "" if is_end else self._left(done, total, now)
        padded, self._length = line.ljust(self._length), len(line)
        click.echo(f"\r{padded}" + ("\n" if is_end else ""), err=True, nl=False)

    def _left(self, done: int, total: int, now: float) -> str:
        """The time left. Empty in the first second, when it is unknown."""
        spent = now - self._began
        return f", {spent * (total - done) / done:.0f} s left" if done and spent > 1 else ""
