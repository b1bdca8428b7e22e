"""Subscriptions by pattern: RE2 syntax, and a name must match as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from appliance.groups.states import GroupRefused
from appliance.process import patterns
from appliance.protocol import ErrorCode


def check(pattern: str) -> None:
    """Raises for what is no pattern."""
    _compiled(pattern)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    compiled = _compiled(pattern)
    return frozenset(each for each in names if compiled.fullmatch(each))


def _compiled(pattern: str) -> re2._Regexp:
    try:
        return patterns.compiled(pattern)
    except patterns.PatternInvalid as error:
        code = ErrorCode.INVALID_REGULAR_EXPRESSION
        raise GroupRefused(code, f"SubscribedTopicRegex {error}") from error
