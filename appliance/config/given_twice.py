"""Names that a command line has twice: with the last value alone, what somebody typed is lost."""

from __future__ import annotations

from collections.abc import Iterable


def given_twice(names: Iterable[str]) -> str | None:
    """The first one that was there before; None: all are different."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
