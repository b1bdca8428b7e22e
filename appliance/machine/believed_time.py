"""The time of day for deletion, expiry and refusal: a wrong clock deletes nothing.

Retention compares timestamps of records with now. A clock that is a year ahead would make every
record a year old at once; a clock ten years back would refuse the records of producers with right
clocks. So the machine's clock is compared with a belief: an earlier reading, advanced by a clock
that nobody can set. `believed_time_file.py` keeps the belief across restarts.

    no doubt   the two differ by at most STEP_MAX_MS: the machine's clock is believed
    ahead      the clock is later than the belief. After a reboot a machine that was off looks the
               same, so the doubt ends after SETTLE_MS, if the gap is at most OFF_MAX_MS
    behind     the clock is earlier than the belief. It is wrong now, or was wrong before; waiting
               does not tell which

A doubt also ends when a person confirms the clock, or when the kernel has called it synchronised
for SETTLE_SYNCHRONISED_MS and it is at most OFF_SYNCHRONISED_MAX_MS ahead. The latter does not
apply if the kernel called the belief synchronised, too: within one boot the elapsed time is known,
so one of the two statements is wrong, and only a person can tell which.

In doubt the time is a span. Deletion and expiry use `earliest`; stamps, and the refusal of records
from the future, use `latest`. So nothing is deleted too early and no record is wrongly refused,
whichever clock is right.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

STEP_MAX_MS = 600_000  # more than any slewing or leap; less than the shortest sensible retention
SETTLE_MS = 3_600_000  # time for a person or NTP to correct a clock
DAY_MS = 86_400_000
OFF_MAX_MS = 30 * DAY_MS  # a machine may be off this long in holidays; then a person must confirm

# Setting the clock by hand ends the kernel's statement; a daemon restores it only after asking time
# servers. A minute, because the statement may be a moment older than the step.
SETTLE_SYNCHRONISED_MS = 60_000
ASK_MS = 500  # between two questions to the kernel: every expiry asks for the time
# A GPS receiver with a week rollover is 19.6 years off, and daemons believe it.
OFF_SYNCHRONISED_MAX_MS = 366 * DAY_MS

Way = Literal["ahead", "behind"]


class Remembered(NamedTuple):
    """The belief, and the boot that it is from."""

    believed_ms: int
    steady_ms: int  # by the clock that nobody can set, of that boot
    boot_id: str  # "": not known
    has_gap: bool = False  # time may have passed before that boot that no clock counted
    was_kept_right: bool = False  # the kernel called the belief synchronised in that boot


class Span(NamedTuple):
    earliest_ms: int
    latest_ms: int


@dataclass(frozen=True)
class Doubt:
    way: Way
    wall_ms: int
    believed_ms: int
    settles_in_ms: int | None  # None: not by waiting
    has_gap: bool  # the machine may have been off
    by_a_person: bool  # only a person ends it

    @property
    def by_ms(self) -> int:
        return abs(self.wall_ms - self.believed_ms)


class _Word:
    """The kernel's statement that the clock is synchronised; by the steady clock."""

    def __init__(self, is_given: Callable[[], bool]) -> None:
        self._is_given = is_given
        self._since_ms: int | None = None
        self._asked_ms: int | None = None

    def lasts(self, steady: int) -> bool:
        if self._asked_ms is None or not 0 <= steady - self._asked_ms < ASK_MS:
            self._asked_ms = steady
            if not self._is_given():
                self._since_ms = None
            elif self._since_ms is None:
                self._since_ms = steady
        return self._since_ms is not None and steady - self._since_ms >= SETTLE_SYNCHRONISED_MS


@dataclass
class _Jump:
    """A current doubt, with times of the steady clock."""

    difference_ms: int
    since_ms: int
    word: _Word


def wall_now_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_now_ms() -> int:
    """Nobody can set it, and it advances while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class WallClock:
    """Any thread may use it."""

    def __init__(
        self,
        wall_ms: Callable[[], int] = wall_now_ms,
        steady_ms: Callable[[], int] = steady_now_ms,
        is_synchronised: Callable[[], bool] = lambda: False,
        remembered: Remembered | None = None,
        boot_id: str = "",
    ) -> None:
        self._wall_ms, self._steady_ms = wall_ms, steady_ms
        self._is_synchronised = is_synchronised
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._at = steady_ms()
        self._believed = wall_ms()
        self._has_gap = self._was_kept_right = False
        self._jump: _Jump | None = None
        self._word = _Word(is_synchronised)
        if remembered is not None:
            self._go_on(remembered)
        self.look()

    def _go_on(self, then: Remembered) -> None:
        """The expected time. The time that a machine was off is unknown: the least is none."""
        passed_ms = self._at - then.steady_ms
        if then.boot_id != "" and then.boot_id == self._boot_id and passed_ms >= 0:
            self._believed = then.believed_ms + passed_ms
            self._has_gap, self._was_kept_right = then.has_gap, then.was_kept_right
        else:
            self._believed, self._has_gap = then.believed_ms, True

    # Asking

    def now_ms(self) -> int:
        """For deletion and expiry."""
        return self.look().earliest_ms

    def latest_ms(self) -> int:
        """For stamps, and for refusing the future."""
        return self.look().latest_ms

    def look(self) -> Span:
        with self._lock:
            wall, steady = self._wall_ms(), self._steady_ms()
            believed = self._look(wall, steady)
            return Span(min(wall, believed), max(wall, believed))

    def doubt(self) -> Doubt | None:
        with self._lock:
            wall, steady = self._wall_ms(), self._steady_ms()
            believed, jump = self._look(wall, steady), self._jump
            if jump is None:
                return None
            settles_in = None
            if self._has_gap and 0 < wall - believed <= OFF_MAX_MS:
                settles_in = max(0, jump.since_ms + SETTLE_MS - steady)
            by_a_person = self._was_kept_right or wall - believed > OFF_SYNCHRONISED_MAX_MS
            return Doubt(_way(jump), wall, believed, settles_in, self._has_gap, by_a_person)

    def remember(self) -> Remembered:
        """The belief for the next start, also during a doubt."""
        with self._lock:
            wall, steady = self._wall_ms(), self._steady_ms()
            believed = self._look(wall, steady)
            return Remembered(
                believed, steady, self._boot_id, self._has_gap, self._was_kept_right
            )  # fmt: skip

    def confirm(self) -> Doubt | None:
        """A person confirms the machine's clock; returns the doubt that this ends."""
        doubt = self.doubt()
        with self._lock:
            self._was_kept_right = False  # of the new belief
            self._word = _Word(self._is_synchronised)
            self._believe(self._wall_ms(), self._steady_ms())
        return doubt

    # Deciding

    def _look(self, wall: int, steady: int) -> int:
        """Returns the time that is believed now."""
        expected = self._believed + steady - self._at
        difference = wall - expected
        if abs(difference) <= STEP_MAX_MS:
            self._was_kept_right = self._was_kept_right or self._word.lasts(steady)
            return self._believe(wall, steady)
        jump = self._jump
        if jump is None or abs(difference - jump.difference_ms) > STEP_MAX_MS:
            jump = self._jump = _Jump(difference, steady, _Word(self._is_synchronised))
        if self._was_kept_right:
            return expected  # the kernel contradicts itself
        if jump.difference_ms <= OFF_SYNCHRONISED_MAX_MS and jump.word.lasts(steady):
            self._was_kept_right = True
            return self._believe(wall, steady)
        return self._believe(wall, steady) if self._has_lasted(jump, steady) else expected

    def _has_lasted(self, jump: _Jump, steady: int) -> bool:
        may_be_off = self._has_gap and 0 < jump.difference_ms <= OFF_MAX_MS
        return may_be_off and steady - jump.since_ms >= SETTLE_MS

    def _believe(self, wall: int, steady: int) -> int:
        self._believed, self._at, self._jump, self._has_gap = wall, steady, None, False
        return wall


def _way(jump: _Jump) -> Way:
    return "ahead" if jump.difference_ms > 0 else "behind"
