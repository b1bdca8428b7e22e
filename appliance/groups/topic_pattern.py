"""Subscriptions by pattern: RE2 syntax, and a name must match as a whole.

RE2 takes time in proportion to the name, whatever the pattern is: nobody can stop the broker with
one that backtracks. What a pattern may cost in memory has a limit too.
"""

from __future__ import annotations

from collections.abc import Iterable

import re2

from appliance.groups.states import GroupRefused
from appliance.wire import ErrorCode

# Of a compiled pattern. A list of thousands of names fits.
MEMORY_BYTES = 1 << 20


def check(pattern: str) -> None:
    """Raises for what is no pattern."""
    _compiled(pattern)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    compiled = _compiled(pattern)
    return frozenset(each for each in names if compiled.fullmatch(each))


def _compiled(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        text = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
        raise GroupRefused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {pattern!r} is not a valid regular expression: {text}",
        ) from error
