"""Figures of turns as a table: a row per figure, a column per broker or setting."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

Columns = Mapping[str, Mapping[str, Sequence[float]]]


def written(title: str, columns: Columns) -> str:
    names = list(columns)
    figures = list(dict.fromkeys(figure for each in columns.values() for figure in each))
    rows = [f"| {title} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    rows += [f"| {figure} | {' | '.join(cell(columns[name].get(figure, [])) for name in names)} |"
             for figure in figures]
    return "\n".join(rows) + "\n"


def cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = statistics.median(values)
    if len(values) == 1:
        return number(middle)
    return f"{number(middle)} ({number(min(values))}-{number(max(values))})"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
