"""How far a long job of a command is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

REDRAW_SECONDS = 0.1  # of a bar at a terminal
LINE_SECONDS = 1.0  # between two plain lines
WIDTH = 30  # of a bar


class Progress:
    """A bar for a person at a terminal, otherwise a line each second; on stderr. `shown` writes a
    number, of bytes for example."""

    def __init__(self, what: str, shown: Callable[[int], str] = str) -> None:
        self.what, self.shown = what, shown
        self._began = self._told = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._length = 0  # of what stands at the terminal

    def __call__(self, done: int, found: int) -> None:
        pause = REDRAW_SECONDS if self._is_terminal else LINE_SECONDS
        is_end = self._is_terminal and done == found
        now = time.monotonic()
        if not is_end and now - self._told < pause:
            return
        self._told = now
        if not self._is_terminal:
            click.echo(f"{self.what}: {self.shown(done)} of {self.shown(found)}", err=True)
            return
        bar = "#" * (WIDTH * done // max(found, 1))
        line = f"{self.what} [{bar:-<{WIDTH}}] {self.shown(done)}/{self.shown(found)}"
        line += "" if is_end else self._left(done, found, now)
        padded, self._length = line.ljust(self._length), len(line)
        click.echo(f"\r{padded}" + ("\n" if is_end else ""), err=True, nl=False)

    def _left(self, done: int, found: int, now: float) -> str:
        """Nothing in the first second, when nobody can know."""
        spent = now - self._began
        return f", {spent * (found - done) / done:.0f} s left" if done and spent > 1 else ""
