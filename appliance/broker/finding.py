"""What health says of one thing, and how many of one kind it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

Level = Literal["degraded", "failing"]

FINDINGS_TOLD = 20  # of one kind; the rest are counted: on a dead disk there is one per partition


class Finding(NamedTuple):
    level: Level
    area: str
    text: str
    about: str = ""  # what stays the same while the words change; "": the words, without numbers


def first_of(level: Level, area: str, texts: list[str], more: str) -> Iterator[Finding]:
    for text in texts[:FINDINGS_TOLD]:
        yield Finding(level, area, text)
    if len(texts) > FINDINGS_TOLD:
        yield Finding(level, area, f"{len(texts) - FINDINGS_TOLD} more {more}")
