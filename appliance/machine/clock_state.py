"""The state of the machine's clock: retention, lag in seconds and every timestamp depend on it.

    synchronised   the kernel or systemd's daemon reports it
    stepped        between two checks, a second apart, it advanced by another time than the clock
                   that nobody can set

A container often cannot know whether its host's clock is synchronised. So a clock that was never
known to be synchronised is a fact without a warning; one that no longer is gives a warning.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict

from appliance.machine.believed_time import Doubt
from appliance.process import event_log
from appliance.process.spoken import duration, moment

log = event_log.named("clock")

TIMESYNCD = Path("/run/systemd/timesync/synchronized")  # the daemon touches it after each setting
STA_UNSYNC, TIME_ERROR = 0x0040, 5  # of adjtimex(2)
STEP_MS = 1000.0  # between two checks; slewing changes a clock by half a millisecond
STEP_TOLD_S = 3600.0  # how long a step is a warning: retention has acted on it by then

State = Literal["synchronised", "not known to be synchronised", "no longer synchronised"]


class Timex(ctypes.Structure):
    """struct timex, of a 64-bit kernel."""

    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
        ("more", ctypes.c_long * 32),
    ]  # fmt: skip


class ClockNow(TypedDict):
    state: State
    last_step_ms: int | None  # above 0: forward
    last_step_at_ms: int | None  # the clock's time after the step


_adjtimex = ctypes.CDLL(None).adjtimex


def is_kept_right() -> bool:
    """Asks the kernel without a change."""
    return TIMESYNCD.exists() or is_kept_right_by_the_kernel()


def is_kept_right_by_the_kernel() -> bool:
    """Whether the kernel calls the clock synchronised: not after a person set it, and again after a
    daemon has asked time servers. A kernel that does not answer counts as no."""
    asked = Timex()
    state = _adjtimex(ctypes.byref(asked))
    return state not in (-1, TIME_ERROR) and not asked.status & STA_UNSYNC


def boot_s() -> float:
    """Nobody can set it, and it advances while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = boot_s,
        is_right: Callable[[], bool] = is_kept_right,
    ) -> None:
        self._wall_s, self._steady_s, self._is_right = wall_s, steady_s, is_right
        self._ahead_s = wall_s() - steady_s()
        self._step: tuple[int, float] | None = None  # milliseconds, and when by the steady clock
        self._was_right = self._is_right_now = False
        self.look()

    def look(self) -> None:
        """To be called every second."""
        steady = self._steady_s()
        ahead = self._wall_s() - steady
        step_ms = (ahead - self._ahead_s) * 1000
        self._ahead_s = ahead
        if abs(step_ms) >= STEP_MS:
            self._step = round(step_ms), steady
            log.warning("the machine's clock was set", by_ms=round(step_ms))
        was, self._is_right_now = self._is_right_now, self._is_right()
        self._was_right = self._was_right or self._is_right_now
        if was and not self._is_right_now:
            log.warning("the machine's clock is no longer synchronised")

    def now(self) -> ClockNow:
        state: State = "synchronised"
        if not self._is_right_now:
            state = "no longer synchronised" if self._was_right else "not known to be synchronised"
        step = self._step
        at_s = None if step is None else step[1] + self._ahead_s
        return {
            "state": state,
            "last_step_ms": step and step[0],
            "last_step_at_ms": None if at_s is None else round(at_s * 1000),
        }

    def warnings(self) -> list[str]:
        warnings = []
        if self._was_right and not self._is_right_now:
            warnings.append("the clock is no longer synchronised: check chrony, ntpd or timesyncd")
        if self._step is not None and (ago := self._steady_s() - self._step[1]) < STEP_TOLD_S:
            step_ms = self._step[0]
            way = "forward" if step_ms > 0 else "back"
            warnings.append(
                f"the clock was set {way} by {abs(step_ms) / 1000:.1f} s, {ago / 60:.0f} min ago: "
                "records of that time have timestamps of both"
            )
        return warnings


CONFIRM = "`appliance clock confirm` says that it is right"


def told(doubt: Doubt) -> str:
    """In words, with what to do."""
    than = "later than" if doubt.way == "ahead" else "before what"
    why = "it is wrong now or was wrong before"
    if doubt.way == "ahead":
        why = (
            "the machine was off, or its clock is wrong" if doubt.has_gap
            else f"it was set while the machine ran, so {why}"
        )  # fmt: skip
    meanwhile = "nothing is deleted or expired by what the clock says"
    if doubt.way == "behind":
        meanwhile = (
            "nothing is deleted or expired by time, and clients' timestamps are held to what was "
            "believed"
        )
    return (
        f"the machine's clock says {moment(doubt.wall_ms)}, {duration(doubt.by_ms / 1000)} {than} "
        f"was believed ({moment(doubt.believed_ms)}): {why}. Until that is known {meanwhile}. "
        f"{_end_told(doubt)} {CONFIRM}"
    )


def _end_told(doubt: Doubt) -> str:
    if doubt.by_a_person:
        return "Only a person can tell: set the clock right, or"
    if doubt.settles_in_ms is not None:
        settles_in = duration(doubt.settles_in_ms / 1000)
        return f"It is believed in {settles_in}, sooner if chrony, ntpd or timesyncd keep it right;"
    return "Set the clock and have it kept right (chrony, ntpd, timesyncd), or"
