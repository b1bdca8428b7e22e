"""How often a password may be tried, at both ports: by a client, for a name, from an address, and
at a listener of Kafka's port by all together.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from appliance.errors import ApplianceError

# Wrong passwords that may be tried at once, and seconds until one more may. Of a name from one
# address: who mistypes waits, who guesses does not come far. Of one address: behind it may be an
# office. Of a name from anywhere: a guesser with many addresses. It can keep its owner from logging
# in where that was never done before, so it is far above the others. Of a name at an address
# where it has logged in ("place"): programs come from there, and who guesses beside them must not
# keep them out with a guess a minute. It has one a second, and the log and the trail tell of it.
BURSTS = {
    "pair": (5, 60.0), "address": (20, 5.0), "name": (60, 10.0), "device": (5, 60.0),
    "place": (60, 1.0),
}  # fmt: skip
HERE = ""  # as a device: the address itself, where the name has logged in before
ATTEMPTS_KEPT = 10_000

Clock = Callable[[], float]


class LoginRefused(ApplianceError):
    kafka_code = 89


class LoginAttempts:
    """An attempt counts before it is looked at, so that many at once are no way around.

    A browser in which a user has logged in before is counted by itself: whatever others do to his
    name or from his address, he can log in there."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[tuple[str, ...], tuple[float, float]] = OrderedDict()

    def take(self, address: str, name: str, device: str | None) -> None:
        """Counts one, or refuses it."""
        self.check(address, name, device)
        self.count(address, name, device)

    def check(self, address: str, name: str, device: str | None) -> None:
        now = self._clock()
        for key in keys_of(address, name, device):
            burst, pause = BURSTS[key[0]]
            level = self._level(key, now)
            if level > burst - 1:
                raise LoginRefused(
                    f"too many wrong passwords for {told(key)}: the next may be tried "
                    f"in {math.ceil((level - burst + 1) * pause)} s"
                )

    def count(self, address: str, name: str, device: str | None) -> None:
        now = self._clock()
        for key in keys_of(address, name, device):
            level = self._level(key, now) + 1
            self._levels.pop(key, None)
            self._levels[key] = level, now
        while len(self._levels) > ATTEMPTS_KEPT:
            self._levels.popitem(last=False)

    def failure_rate(self) -> FailureRate:
        """Of all together, at some place."""
        return FailureRate(self._clock)

    def failures(self, address: str, name: str, device: str | None) -> float:
        """Lately, of who is counted most closely."""
        return self._level(keys_of(address, name, device)[0], self._clock())

    def _level(self, key: tuple[str, ...], now: float) -> float:
        level, then = self._levels.get(key, (0.0, now))
        return max(0.0, level - (now - then) / BURSTS[key[0]][1])

    def forget(self, address: str, name: str, device: str | None) -> None:
        """One was right. What others did from there, or to that name, is not forgotten for it. Of a
        place nothing is: right ones do not count there, and wrong ones may be somebody else's."""
        for key in keys_of(address, name, device):
            if key[0] in ("pair", "device"):
                self._levels.pop(key, None)
            elif key[0] != "place" and key in self._levels:
                level, then = self._levels[key]
                self._levels[key] = max(0.0, level - 1), then


class FailureRate:
    """How many logins may fail in a second, whoever they are of: at a listener, or at all."""

    def __init__(self, clock: Clock) -> None:
        self.rate = 0  # 0: as many as come
        self._clock = clock
        self._level = self._then = 0.0

    def is_reached(self) -> bool:
        return self.rate > 0 and self._now() > self.rate - 1

    def count(self) -> None:
        if self.rate > 0:
            self._level, self._then = self._now() + 1, self._clock()

    def _now(self) -> float:
        return max(0.0, self._level - (self._clock() - self._then) * self.rate)


def keys_of(address: str, name: str, device: str | None) -> list[tuple[str, ...]]:
    if device == HERE:
        return [("place", name, address)]
    if device is not None:
        return [("device", device)]
    return [("pair", name, address), ("address", address), ("name", name)]


def told(key: tuple[str, ...]) -> str:
    kind, *parts = key
    pair = "user {} from {}"
    texts = {"pair": pair, "place": pair, "address": "address {}", "name": "user {}"}
    text = texts.get(kind, "a user from where he had logged in before")
    return text.format(*(each[:80] for each in parts))
