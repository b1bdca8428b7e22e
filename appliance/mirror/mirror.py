"""Runs rounds until the mirror is stopped.

A failure ends a round. A pause follows, which doubles up to a limit. Rounds share only the
progress: the next round reads again what was not written. Who suspends a mirror ends its round, and
there is no other until it goes on.
"""

from __future__ import annotations

import random
import threading
import time

from appliance.errors import ApplianceError
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import (
    MirrorFenced,
    OffsetsCannotBeKept,
    RoundOver,
    TopicRefused,
)
from appliance.mirror.progress import MirrorProgress
from appliance.mirror.refusals import lasting
from appliance.mirror.round import Round
from appliance.process import event_log

log = event_log.named("mirror")

FINAL = (MirrorFenced, OffsetsCannotBeKept)
SUSPENDED_S = 0.2  # between two looks whether it goes on
CUT_AGAIN_S = 0.1  # a new round may begin at the moment of the stop
DOUBLINGS_MAX = 30  # beyond any limit, so that the number does not grow for days


class Mirror:
    def __init__(self, config: MirrorConfig) -> None:
        self.config = config
        self.progress = MirrorProgress()
        self._stopping, self._is_over = threading.Event(), threading.Event()
        self._ending = threading.Event()  # of the round: the mirror stops, or is suspended
        self.is_suspended = False
        self._round: Round | None = None
        self._held: dict[str, tuple[TopicRefused, float]] = {}  # by topic: end of its pause

    def stop(self) -> None:
        """Finishes the open requests; a signal handler may call this."""
        self._stopping.set()
        self._ending.set()

    def suspend(self, is_suspended: bool) -> None:
        """The open requests of a round are finished; any thread may call this."""
        if is_suspended == self.is_suspended:
            return
        self.is_suspended = is_suspended
        log.info("suspended" if is_suspended else "goes on")
        if is_suspended:
            self._ending.set()

    def run(self, once: bool = False) -> None:
        """Runs until it is stopped, or with `once` until everything in the source is mirrored."""
        watch = threading.Thread(target=self._cut_after_stop, name="mirror-stop", daemon=True)
        watch.start()
        try:
            self._run(once)
        finally:
            self._is_over.set()
            self.stop()
            watch.join()

    def _cut_after_stop(self) -> None:
        """Cuts the connections if a dead link delays a stop."""
        self._stopping.wait()
        pause_s = self.config.stop_timeout_ms / 1000
        while not self._is_over.wait(pause_s):
            if self._round:
                self._round.cut()
            pause_s = CUT_AGAIN_S

    def _run(self, once: bool) -> None:
        failures = 0
        while self._may_begin():
            began = time.time()
            try:
                self._round = Round(self.config, self.progress, self._ending, once, self._held_now)
                self._round.run()
                if self._stopping.is_set() or not self._ending.is_set():
                    return
            except RoundOver as reason:
                log.info("next round", reason=reason)
            except FINAL:
                raise
            except (ApplianceError, OSError) as error:
                wrong = lasting(error)
                if wrong is not None and not self.progress.has_worked:
                    raise wrong from error.__cause__
                if self._stopping.is_set():
                    log.warning("stopped before every sent batch was answered", error=error)
                    return
                # what was written shows that the link was there: the next trouble is another
                failures = 1 if self.progress.last_written > began else failures + 1
                self._pause(failures, error)

    def _may_begin(self) -> bool:
        """Waits while it is suspended; False: it stops. What comes afterwards ends the round."""
        while not self._stopping.is_set():
            self._ending.clear()
            if self.is_suspended:
                self._stopping.wait(SUSPENDED_S)
            elif not self._stopping.is_set():
                return True
        return False

    def _pause(self, failures: int, error: Exception) -> None:
        self.progress.failures += 1
        self.progress.last_failure = str(error)
        config = self.config
        if isinstance(error, TopicRefused):
            # the others must not wait for it
            until = time.monotonic() + config.retry_backoff_max_ms / 1000
            self._held[error.topic] = error, until
        doubled_ms = config.retry_backoff_ms * 2 ** min(failures - 1, DOUBLINGS_MAX)
        pause_ms = min(doubled_ms, config.retry_backoff_max_ms)
        pause_ms = round(pause_ms * random.uniform(0.75, 1.0))  # mirrors of one site not in step
        log.warning("round failed", error=error, again_in_ms=pause_ms)
        self._stopping.wait(pause_ms / 1000)

    def _held_now(self) -> dict[str, TopicRefused]:
        now = time.monotonic()
        self._held = {name: each for name, each in self._held.items() if each[1] > now}
        return {name: why for name, (why, _) in self._held.items()}
