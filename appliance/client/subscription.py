"""The subscription of a consumer, and its text in the consumer's node.

    topics       {"topic": streams, ...}
    whitelist    {"version": 1, "pattern": "white_list", "subscription": {"regex": streams}}
    blacklist    the same with "black_list": every topic that the regex does not match

A regex is matched against whole names by RE2: every consumer of a group evaluates those of all
others, and RE2 takes only time in proportion to the names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from appliance.process import patterns

WHITELIST, BLACKLIST = "white_list", "black_list"


class Subscription(Protocol):
    has_filter: bool  # whether it may match new topics

    def streams(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of streams for each of these topics that it matches."""
        ...

    def text(self) -> str: ...


@dataclass(frozen=True)
class Topics:
    counts: Mapping[str, int]
    has_filter = False

    def __post_init__(self) -> None:
        for topic, count in self.counts.items():
            checked(topic, count)

    def streams(self, topics: Iterable[str]) -> dict[str, int]:
        return {topic: self.counts[topic] for topic in topics if topic in self.counts}

    def text(self) -> str:
        return as_json(self.counts)


@dataclass(frozen=True)
class Filter:
    regex: str
    count: int
    is_blacklist: bool = False
    has_filter = True

    def __post_init__(self) -> None:
        checked(self.regex, self.count)
        try:
            patterns.compiled(self.regex)
        except patterns.PatternInvalid as error:
            raise ValueError(f"regex of a filter: {error}") from None

    def streams(self, topics: Iterable[str]) -> dict[str, int]:
        regex = patterns.compiled(self.regex)
        chosen = (each for each in topics if bool(regex.fullmatch(each)) != self.is_blacklist)
        return dict.fromkeys(chosen, self.count)

    def text(self) -> str:
        pattern = BLACKLIST if self.is_blacklist else WHITELIST
        named = {self.regex: self.count}
        return as_json({"version": 1, "pattern": pattern, "subscription": named})


def checked(name: str, count: int) -> None:
    if not name or type(count) is not int or count < 1:
        raise ValueError(f"subscription to {name!r}: got {count!r} streams, wanted 1 or more")


def as_json(fields: Mapping[str, Any]) -> str:
    return json.dumps(dict(fields), separators=(",", ":"), sort_keys=True)


def parse(text: str) -> Subscription:
    """Parses a node's content, which anybody may have written; raises ValueError."""
    try:
        fields = json.loads(text)
    except RecursionError:
        raise ValueError(f"{len(text)} bytes of nested JSON") from None
    if not isinstance(fields, dict):
        raise ValueError(f"wanted a JSON object, got {text[:100]!r}")
    if isinstance(fields.get("subscription"), dict):
        pattern, named = fields.get("pattern"), fields["subscription"]
        if pattern not in (WHITELIST, BLACKLIST) or len(named) != 1:
            raise ValueError(f"wanted one regex of a list, got {text[:100]!r}")
        ((regex, count),) = named.items()
        return Filter(regex, count, pattern == BLACKLIST)
    return Topics(fields)
