"""Repeated lines are counted, not written: an error that repeats a thousand times a second must not
fill the disk with log, nor push earlier lines out of memory.

The first line of a kind is written and opens a window. Within it the same line (logger, level, text
and facts) is only counted; so are lines with other facts, once enough of the same text are written.
When the window ends, one line has the count.

It is a filter of each logger and not of a handler: all handlers see the same lines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

WINDOW_S = 60.0

# With different facts: after so many another line tells a person nothing new. The default of
# log.similar.lines.max.
SIMILAR_MAX = 200

# Kinds of lines that are counted at once. Beyond it the oldest window is reported early and ended.
KINDS_MAX = 1000

# Characters of a fact in the line with the count: the first line had all of it.
FACT_CHARACTERS_MAX = 200

Kind = tuple[str, int, str, str | None]  # logger, level, text, and the facts or None: any


@dataclass
class Window:
    logger: str
    level: int
    text: str
    facts: Mapping[str, str]
    ends: float
    written: int = 0
    left_out: int = 0


class Repeats(logging.Filter):
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.similar_max = SIMILAR_MAX
        self._clock = clock
        self._guard = threading.Lock()
        self._windows: OrderedDict[Kind, Window] = OrderedDict()  # by the end of their time

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO or getattr(record, "is_count", False):
            return True
        facts = _short(getattr(record, "facts", {}))
        with self._guard:
            now = self._clock()
            ended = self._ended(now)
            is_new = self._admits(record, facts, now)
            ended += self._surplus()
        _tell(ended)
        return is_new

    def flush(self, is_end: bool = False) -> int:
        """Reports the windows that have ended, or all of them. A timer calls it, because no other
        line may come, and the stop. Returns the number of lines."""
        with self._guard:
            ended = self._ended(float("inf") if is_end else self._clock())
        return _tell(ended)

    def forget(self) -> None:
        with self._guard:
            self._windows.clear()

    def _admits(self, record: logging.LogRecord, facts: Mapping[str, str], now: float) -> bool:
        text = record.getMessage()
        same = self._window(record, text, facts, str(sorted(facts.items())), now)
        if same.written:
            same.left_out += 1
            return False
        same.written = 1
        similar = self._window(record, text, {}, None, now)
        if similar.written >= self.similar_max:
            similar.left_out += 1
            return False
        similar.written += 1
        return True

    def _window(
        self,
        record: logging.LogRecord,
        text: str,
        facts: Mapping[str, str],
        of: str | None,
        now: float,
    ) -> Window:
        kind = (record.name, record.levelno, text, of)
        window = self._windows.get(kind)
        if window is None:
            window = Window(record.name, record.levelno, text, facts, now + WINDOW_S)
            self._windows[kind] = window
        return window

    def _ended(self, now: float) -> list[Window]:
        ended = []
        while self._windows and next(iter(self._windows.values())).ends <= now:
            ended.append(self._windows.popitem(last=False)[1])
        return ended

    def _surplus(self) -> list[Window]:
        count = max(0, len(self._windows) - KINDS_MAX)
        return [self._windows.popitem(last=False)[1] for _ in range(count)]


def _short(facts: Mapping[str, Any]) -> dict[str, str]:
    # As text at once: a stored error keeps its whole stack.
    return {name: str(value)[:FACT_CHARACTERS_MAX] for name, value in facts.items()}


def _tell(ended: list[Window]) -> int:
    told = [window for window in ended if window.left_out]
    for window in told:
        what = f"{window.text}: {window.left_out:,} times more in {WINDOW_S:.0f} s"
        extra = {"facts": window.facts, "is_count": True}
        logging.getLogger(window.logger).log(window.level, what, extra=extra)
    return len(told)
