"""Answers without an end of their own, or with a far one: streams of what is new, and downloads.

Each holds a connection, and one of messages reads the disk as it goes. So a person has so many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from appliance.errors import ApplianceError


class StreamsTooMany(ApplianceError):
    kafka_code = 89


class Streams:
    """Lives on the event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: defaultdict[str, list[web.Request]] = defaultdict(list)  # by person

    @contextmanager
    def one(self, who: str, request: web.Request) -> Iterator[None]:
        own = self._open[who]
        # One whose page was closed ends when it has something to say, which may be much later.
        count = sum(each.transport is not None for each in own)
        if count >= self._most:
            raise StreamsTooMany(
                f"{who or 'nobody'} has {count} streams and downloads open, wanted at most "
                f"{self._most} (admin.streams.per.user); close one"
            )
        own.append(request)
        try:
            yield
        finally:
            own.remove(request)
            if not own:
                self._open.pop(who, None)
