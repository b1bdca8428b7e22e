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

Clock = Callable[[], float]


class LoginRefused(ApplianceError):
    kafka_code = 89


@dataclass
class Session:
    name: str
    began: float
    used: float


class Sessions:
    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, name: str) -> str:
        now = self._clock()
        secret = secrets.token_urlsafe(32)
        self._sessions[digest_of(secret)] = Session(name, now, now)
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return secret

    def name_of(self, secret: str) -> str | None:
        """None: there is no such session, or no longer."""
        digest, now = digest_of(secret), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if now - session.used > IDLE_SECONDS or now - session.began > LIFE_SECONDS:
            del self._sessions[digest]
            return None
        session.used = now
        return session.name

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
