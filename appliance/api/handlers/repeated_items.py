"""Computes the result of a repeated item once.

A request of a megabyte may name the same item 250,000 times, and each result may be a megabyte: ten
kilobytes caused responses of 120 MB, while no other client was served. Real clients ask once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def distinct(asked: Iterable[Item], key: Callable[[Item], Hashable]) -> list[Item]:
    """In their order; of several the last."""
    return list({key(each): each for each in asked}.values())


def distinct_partitions(asked: Iterable[tuple[Key, Iterable[int]]]) -> dict[Key, list[int]]:
    """By topic, whether it is named once or several times."""
    found: dict[Key, dict[int, None]] = {}
    for topic, partitions in asked:
        found.setdefault(topic, {}).update(dict.fromkeys(partitions))
    return {topic: list(partitions) for topic, partitions in found.items()}
