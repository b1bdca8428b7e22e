"""Responses without an end, or with a late one: streams of events, and downloads.

Each uses a connection, and one of messages reads the disk. So their number per person is limited.
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
        # A stream whose page was closed ends at its next event, which may be much later.
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
