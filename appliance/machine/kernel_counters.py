"""Kernel counters that only grow: when each last grew.

An old read error or an old kill stays in its counter for ever, but is news only for some days. The
data directory keeps the known counts, so that a start does not take an old count for news. The file
is a hint and not synced: without it each count is news once more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from appliance.machine.believed_time import wall_now_ms
from appliance.process import event_log, owner_only

events = event_log.named("grown")

NAME = "grown.json"


class Grown:
    def __init__(
        self,
        directory: Path | None = None,
        now_ms: Callable[[], int] = wall_now_ms,
        *,
        is_kept: bool = True,
    ) -> None:
        """`is_kept`: what is seen is stored. Who only looks at a directory stores nothing in it."""
        self._path = directory and directory / NAME
        self._now_ms = now_ms
        self._is_kept = is_kept
        self._known = self._loaded()  # for each counter its value, and the time of its last growth
        self._is_stored = True
        self._failed = ""

    def _loaded(self) -> dict[str, tuple[int, int]]:
        if self._path is None:
            return {}
        try:
            stored = json.loads(self._path.read_bytes())
            return {str(name): (int(count), int(at)) for name, (count, at) in stored.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            events.warning("earlier counts of the kernel are unknown", path=self._path,
                           error=error)  # fmt: skip
            return {}

    def is_new(self, name: str, count: int, within_ms: int) -> bool:
        """Whether it grew recently. A counter seen for the first time counts as grown."""
        now = self._now_ms()
        known, at = self._known.get(name, (0, 0))
        if count != known:
            at = now if count > known else at
            self._known[name] = count, at
            self._is_stored = False
        if not self._is_stored:
            self._save()
        return count > 0 and now - at < within_ms

    def _save(self) -> None:
        if self._path is None or not self._is_kept:
            return
        fresh = self._path.with_suffix(".new")
        try:
            owner_only.write(fresh, json.dumps(self._known).encode())
            os.replace(fresh, self._path)
            self._is_stored = True
        except OSError as error:
            if str(error) != self._failed:
                events.warning("counts of the kernel cannot be stored", error=error)
            self._failed = str(error)
