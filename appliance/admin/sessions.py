"""Sessions of users. They are in memory: a restart ends all of them.

A session is stored by the digest of its secret, so that leaked memory opens no session.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from appliance.admin.users import Identity, digest_of
from appliance.errors import ResourceUnknown

SESSIONS_MAX = 10_000
SESSIONS_OF_USER_MAX = 100  # per user: a login must not end the sessions of others
IDLE_SECONDS = 8 * 3600.0  # a working day
LIFE_SECONDS = 7 * 24 * 3600.0
ELSEWHERE_SECONDS = 12 * 3600.0  # of a login at a service, which does not tell what it takes back

SOFTWARE_MAX = 200  # characters of a browser's name

Clock = Callable[[], float]


@dataclass
class Session:
    """`id` names it for others: the secret cannot be derived from it."""

    id: str
    name: str
    began: float
    used: float
    peer: str  # address at its start
    software: str  # name of the browser
    # Of who logged in at a service: he is in no table here. None: the user of this name
    identity: Identity | None = None


class Sessions:
    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def begin(
        self, name: str, peer: str = "", software: str = "", identity: Identity | None = None
    ) -> str:
        now = self._clock()
        secret, own = secrets.token_urlsafe(32), secrets.token_hex(6)
        session = Session(own, name, now, now, peer, software[:SOFTWARE_MAX], identity)
        self._sessions[digest_of(secret)] = session
        own_digests = [digest for digest, each in self._sessions.items() if each.name == name]
        for digest in own_digests[:-SESSIONS_OF_USER_MAX]:
            del self._sessions[digest]
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str) -> Session | None:
        """Returns and extends the session. None: there is none, or it ended."""
        session = self.look(secret)
        if session is not None:
            session.used = self._clock()
        return session

    def look(self, secret: str) -> Session | None:
        """As `find`, without extending it: for a stream, which checks by itself."""
        digest = digest_of(secret)
        session = self._sessions.get(digest)
        if session is not None and self._is_over(session, self._clock()):
            del self._sessions[digest]
            return None
        return session

    def name_of(self, secret: str) -> str | None:
        session = self.find(secret)
        return None if session is None else session.name

    def _is_over(self, session: Session, now: float) -> bool:
        life = LIFE_SECONDS if session.identity is None else ELSEWHERE_SECONDS
        return now - session.used > IDLE_SECONDS or now - session.began > life

    def all(self) -> list[tuple[Session, float, float]]:
        """The open sessions, each with its age and idle time in seconds."""
        now = self._clock()
        return [
            (each, now - each.began, now - each.used)
            for each in self._sessions.values()
            if not self._is_over(each, now)
        ]

    def elsewhere(self, name: str) -> Identity | None:
        """Who has an open session under this name, by a service's word."""
        found = [each.identity for each, _, _ in self.all() if each.name == name]
        return found[-1] if found else None

    def has_any_of(self, name: str) -> bool:
        return any(each.name == name for each, _, _ in self.all())

    def end_one(self, own: str) -> None:
        found = [digest for digest, each in self._sessions.items() if each.id == own]
        if not found:
            raise ResourceUnknown(f"there is no session {own[:80]!r}")
        del self._sessions[found[0]]

    def end(self, secret: str) -> None:
        self._sessions.pop(digest_of(secret), None)

    def end_all_of(self, name: str) -> None:
        """After a new password, a new role, or a deletion."""
        for digest in [one for one, each in self._sessions.items() if each.name == name]:
            del self._sessions[digest]
