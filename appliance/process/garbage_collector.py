"""Python's garbage collector, for a process that serves for months."""

from __future__ import annotations

import gc

YOUNG_OBJECTS_MAX = 10_000  # before it looks at them: of some hundred requests under way


def tune() -> None:
    """What a start has made stays for good, and looking at all of it took 50 ms of the event loop.
    A burst of requests makes thousands of objects that live until it is over."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)
