"""Tickets for the bulk port: who asked the admin port for bulk data is sent there with one.

Most clients send no `Authorization` to another port. A ticket is good once, for SECONDS, for one
path and query, and stands for who asked: it opens nothing that he may not have anyway.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from yarl import URL

from appliance.admin.users import Identity, digest_of

NAME = "ticket"  # in the query
SECONDS = 30.0  # a client follows at once
TICKETS_MAX = 10_000  # the oldest go: who is sent and never comes takes no more


@dataclass(frozen=True)
class Ticket:
    identity: Identity
    asked: tuple[str, tuple[tuple[str, str], ...]]
    until: float


class Tickets:
    """Lives on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: OrderedDict[bytes, Ticket] = OrderedDict()

    def url(self, url: URL, identity: Identity) -> URL:
        """The same, with a ticket."""
        secret = secrets.token_urlsafe(32)
        made = Ticket(identity, asked_for(url), self._clock() + SECONDS)
        self._tickets[digest_of(secret)] = made
        while len(self._tickets) > TICKETS_MAX:
            self._tickets.popitem(last=False)
        return url.extend_query({NAME: secret})

    def take(self, url: URL) -> Identity | None:
        """Whoever it stands for; None: it is none, or no longer, or for something else."""
        found = self._tickets.pop(digest_of(url.query[NAME]), None)
        if found is None or self._clock() >= found.until:
            return None
        return found.identity if found.asked == asked_for(url) else None


def asked_for(url: URL) -> tuple[str, tuple[tuple[str, str], ...]]:
    return url.path, tuple((name, text) for name, text in url.query.items() if name != NAME)
