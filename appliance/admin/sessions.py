"""Who is logged in, and who tries too often. Both are in memory: a restart logs everybody out.

A session is known by the digest of its secret, so that memory which leaks opens no session.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from appliance.admin.users import digest_of
from appliance.errors import ApplianceError

SESSIONS_MAX = 10_000
IDLE_SECONDS = 8 * 3600.0  # a working day
LIFE_SECONDS = 7 * 24 * 3600.0

# After so many wrong passwords for one name, or from one address, the next is not even looked at
# until a minute has passed since the last: who mistypes waits, who guesses does not come far.
FAILURES_MAX = 5
FAILURE_SECONDS = 60.0
FAILURES_KEPT = 10_000

SOFTWARE_MAX = 200  # characters of what a browser calls itself

Clock = Callable[[], float]


class LoginRefused(ApplianceError):
    kafka_code = 89


class SessionUnknown(ApplianceError):
    kafka_code = 91


@dataclass
class Session:
    """`id` names it to others: nothing leads from it to the secret."""

    id: str
    name: str
    began: float
    used: float
    peer: str  # where it began
    software: str  # what called itself so


class Sessions:
    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, name: str, peer: str = "", software: str = "") -> str:
        now = self._clock()
        secret, own = secrets.token_urlsafe(32), secrets.token_hex(6)
        session = Session(own, name, now, now, peer, software[:SOFTWARE_MAX])
        self._sessions[digest_of(secret)] = session
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str) -> Session | None:
        """It is used by that. None: there is no such session, or no longer."""
        digest, now = digest_of(secret), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if self._is_over(session, now):
            del self._sessions[digest]
            return None
        session.used = now
        return session

    def name_of(self, secret: str) -> str | None:
        session = self.find(secret)
        return None if session is None else session.name

    def _is_over(self, session: Session, now: float) -> bool:
        return now - session.used > IDLE_SECONDS or now - session.began > LIFE_SECONDS

    def all(self) -> list[tuple[Session, float, float]]:
        """Those that are not over, each with its age and how long it was not used, in seconds."""
        now = self._clock()
        return [
            (each, now - each.began, now - each.used)
            for each in self._sessions.values()
            if not self._is_over(each, now)
        ]

    def end_one(self, own: str) -> None:
        found = [digest for digest, each in self._sessions.items() if each.id == own]
        if not found:
            raise SessionUnknown(f"there is no session {own[:80]!r}")
        del self._sessions[found[0]]

    def end(self, secret: str) -> None:
        self._sessions.pop(digest_of(secret), None)

    def end_all_of(self, name: str) -> None:
        """After another password, another role, or none."""
        for digest in [one for one, each in self._sessions.items() if each.name == name]:
            del self._sessions[digest]


class Failures:
    """Of logins, by name and by address."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, *keys: str) -> None:
        now = self._clock()
        for key in keys:
            count, last = self._counts.get(key, (0, 0.0))
            left = last + FAILURE_SECONDS - now
            if count >= FAILURES_MAX and left > 0:
                raise LoginRefused(
                    f"{count} wrong passwords for {key}: the next may be tried in {left:.0f} s"
                )

    def note(self, *keys: str) -> None:
        now = self._clock()
        for key in keys:
            count, last = self._counts.pop(key, (0, now))
            is_old = now - last > FAILURE_SECONDS and count < FAILURES_MAX
            self._counts[key] = (1 if is_old else count + 1, now)
        while len(self._counts) > FAILURES_KEPT:
            self._counts.popitem(last=False)

    def forget(self, *keys: str) -> None:
        for key in keys:
            self._counts.pop(key, None)
