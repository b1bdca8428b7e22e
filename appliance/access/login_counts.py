"""How many logins there were at Kafka's port, good and bad, by listener and mechanism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

Place = tuple[str, str]  # the name of a listener, and a mechanism


class LoginCounts:
    """Since the start. A renewal is a login on a connection that has logged in before (KIP-368)."""

    def __init__(self) -> None:
        self.succeeded: Counter[Place] = Counter()
        self.failed: Counter[Place] = Counter()
        self.renewed: Counter[Place] = Counter()
        self.not_renewed: Counter[Place] = Counter()

    def expect(self, listener: str, mechanisms: Iterable[str]) -> None:
        """From nothing on, so that who watches sees the first."""
        for each in (self.succeeded, self.failed, self.renewed, self.not_renewed):
            each.update({(listener, mechanism): 0 for mechanism in mechanisms})

    def count(self, listener: str, mechanism: str, *, is_good: bool, is_renewal: bool) -> None:
        of_good = self.renewed if is_renewal else self.succeeded
        of_bad = self.not_renewed if is_renewal else self.failed
        (of_good if is_good else of_bad)[listener, mechanism] += 1
