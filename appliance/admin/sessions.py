"""Who is logged in, and who tries too often. Both are in memory: a restart logs everybody out.

A session is known by the digest of its secret, so that memory which leaks opens no session.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from appliance.admin.users import digest_of
from appliance.errors import ApplianceError

SESSIONS_MAX = 10_000
SESSIONS_OF_USER_MAX = 100  # or who may log in could log out everybody else
IDLE_SECONDS = 8 * 3600.0  # a working day
LIFE_SECONDS = 7 * 24 * 3600.0

# Wrong passwords that may be tried at once, and seconds until one more may. Of a name from one
# address: who mistypes waits, who guesses does not come far. Of one address: behind it may be an
# office. Of a name from anywhere: a guesser with many addresses. It can keep its owner from logging
# in where that was never done before, so it is far above the others.
BURSTS = {"pair": (5, 60.0), "address": (20, 5.0), "name": (60, 10.0), "device": (5, 60.0)}
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
        own_digests = [digest for digest, each in self._sessions.items() if each.name == name]
        for digest in own_digests[:-SESSIONS_OF_USER_MAX]:
            del self._sessions[digest]
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str) -> Session | None:
        """It is used by that. None: there is no such session, or no longer."""
        session = self.look(secret)
        if session is not None:
            session.used = self._clock()
        return session

    def look(self, secret: str) -> Session | None:
        """As `find`, but nobody uses it: for a stream, which asks by itself."""
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
    """Of logins. An attempt counts before it is looked at, so that many at once are no way around.

    A browser in which a user has logged in before is counted by itself: whatever others do to his
    name or from his address, he can log in there."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[tuple[str, ...], tuple[float, float]] = OrderedDict()

    def take(self, address: str, name: str, device: str | None) -> None:
        """Counts one, or refuses it."""
        now = self._clock()
        keys = keys_of(address, name, device)
        for key in keys:
            burst, pause = BURSTS[key[0]]
            level = self._level(key, now)
            if level > burst - 1:
                raise LoginRefused(
                    f"too many wrong passwords for {told(key)}: the next may be tried "
                    f"in {math.ceil((level - burst + 1) * pause)} s"
                )
        for key in keys:
            level = self._level(key, now) + 1
            self._levels.pop(key, None)
            self._levels[key] = level, now
        while len(self._levels) > FAILURES_KEPT:
            self._levels.popitem(last=False)

    def _level(self, key: tuple[str, ...], now: float) -> float:
        level, then = self._levels.get(key, (0.0, now))
        return max(0.0, level - (now - then) / BURSTS[key[0]][1])

    def forget(self, address: str, name: str, device: str | None) -> None:
        """One was right. What others did from there, or to that name, is not forgotten for it."""
        for key in keys_of(address, name, device):
            if key[0] in ("pair", "device"):
                self._levels.pop(key, None)
            elif key in self._levels:
                level, then = self._levels[key]
                self._levels[key] = max(0.0, level - 1), then


def keys_of(address: str, name: str, device: str | None) -> list[tuple[str, ...]]:
    if device is not None:
        return [("device", device)]
    return [("pair", name, address), ("address", address), ("name", name)]


def told(key: tuple[str, ...]) -> str:
    kind, *parts = key
    texts = {"pair": "user {} from {}", "address": "address {}", "name": "user {}"}
    return texts.get(kind, "this browser").format(*(each[:80] for each in parts))
