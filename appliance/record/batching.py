"""Which neighbours share a batch: as many as stay below a size, and one in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def runs(items: Iterable[T], size_of: Callable[[T], float], size_max: int) -> Iterator[list[T]]:
    run: list[T] = []
    size = 0.0
    for item in items:
        own = size_of(item)
        if run and size + own > size_max:
            yield run
            run, size = [], 0.0
        run.append(item)
        size += own
    if run:
        yield run
