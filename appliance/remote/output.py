"""Tables for people, JSON for programs; only data goes to stdout."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
TIMES = (("d", 86_400), ("h", 3600), ("min", 60))


def put_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def put_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Numbers to the right, the rest to the left."""
    cells = [[cell(each) for each in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    rights = [
        bool(cells) and all(one[:1].isdigit() or one == "-" for one in column)
        for column in zip(*cells, strict=True)
    ] or [False] * len(heads)
    for line in [list(heads), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, rights, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def cell(value: Any) -> str:
    """Of a name from elsewhere nothing reaches the terminal but what can be printed."""
    if value is None:
        return "-"
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def some(count: int, one: str) -> str:
    """1 group, 3 groups."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def size(count: float | None) -> str:
    if count is None:
        return "-"
    for unit, one in SIZES:
        if count >= one:
            return f"{count / one:.1f} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, one in TIMES:
        if seconds >= 2 * one:
            return f"{seconds / one:.1f} {unit}"
    return f"{seconds:.1f} s"


def moment(ms: int | None) -> str:
    if ms is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms / 1000)) + "Z"


def kept(ms: int) -> str:
    return "for ever" if ms < 0 else duration(ms / 1000)
