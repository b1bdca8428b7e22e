"""Ranges of offsets, [first, behind): what is in others of them, and what is in none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]


def within(ranges: Iterable[Range], others: Sequence[Range]) -> list[Range]:
    both = [
        (max(each[0], other[0]), min(each[1], other[1])) for each in ranges for other in others
    ]
    return [each for each in both if each[0] < each[1]]


def without(ranges: Iterable[Range], others: Iterable[Range]) -> list[Range]:
    left = list(ranges)
    for first, behind in others:
        left = [
            part
            for each in left
            for part in ((each[0], min(each[1], first)), (max(each[0], behind), each[1]))
            if part[0] < part[1]
        ]
    return left


def merged(ranges: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for first, behind in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(behind, found[-1][1])
        else:
            found.append((first, behind))
    return found
