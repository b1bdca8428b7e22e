"""Tables for people, JSON for programs; only data goes to stdout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click


def put_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers are aligned right, texts left."""
    cells = [[cell(each) for each in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    rights = [
        bool(cells) and all(one[:1].isdigit() or one == "-" for one in column)
        for column in zip(*cells, strict=True)
    ] or [False] * len(heads)
    return "\n".join(
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, rights, strict=True)
        ).rstrip()
        for line in [list(heads), *cells]
    )


def cell(value: Any) -> str:
    """Names may hold control characters. Only printable text reaches the terminal."""
    if value is None:
        return "-"
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
