"""Many questions to a ZooKeeper at a time: an answer takes a round trip, so they go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kazoo.exceptions import NoNodeError

IN_FLIGHT = 500


def answers(
    question: Callable[[str], Any], root: str, paths: Iterable[str], timeout_s: float
) -> Iterator[tuple[str, Any]]:
    """Of those that are there. `question` is one of the client's, as `get_async`."""
    known = [*paths]
    for first in range(0, len(known), IN_FLIGHT):
        asked = [(each, question(root + each)) for each in known[first:][:IN_FLIGHT]]
        for path, each in asked:
            try:
                yield path, each.get(timeout=timeout_s)
            except NoNodeError:
                continue  # it is gone, or never was
