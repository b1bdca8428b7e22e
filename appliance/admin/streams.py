"""Answers without an end of their own, or with a far one: streams of what is new, and exports.

Each holds a connection, and one of messages reads the disk as it goes. So a person has so many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from appliance.errors import ApplianceError


class StreamsTooMany(ApplianceError):
    kafka_code = 89


class Streams:
    """Lives on the event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()  # by person

    @contextmanager
    def one(self, who: str) -> Iterator[None]:
        if self._open[who] >= self._most:
            raise StreamsTooMany(
                f"{who or 'nobody'} has {self._open[who]} streams and exports open, wanted at most "
                f"{self._most} (admin.streams.per.user); close one"
            )
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]
