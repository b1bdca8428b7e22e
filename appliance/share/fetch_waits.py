"""Share partitions whose fetches wait for their logs: each is told when there is more to read."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from appliance.config import ShareGroupsConfig
from appliance.data_dir._share_fetch_wakeups import LogWaits
from appliance.share.served_partition import READ_COMMITTED, Entry


class EntryWaits:
    """One wait at a log for all fetches of a share partition."""

    def __init__(self, config_of: Callable[[str], ShareGroupsConfig]) -> None:
        self._config_of = config_of
        self._waits = LogWaits()
        self._numbers = itertools.count()
        self._waiting: dict[int, Entry] = {}

    @property
    def fd(self) -> int:
        """Readable when `moved` is to be called."""
        return self._waits.fd

    def watch(self, entry: Entry, config: ShareGroupsConfig) -> None:
        """Wakes who waits once there is more to read, or at once if there is already."""
        if entry.is_gone or entry.is_undecided:
            return
        log, is_committed = entry.log, config.isolation_level == READ_COMMITTED
        if entry.wait is not None and entry.waits_for_committed != is_committed:
            self.unwatch(entry)
        if entry.wait is None:
            entry.wait, entry.waits_for_committed = next(self._numbers), is_committed
            self._waiting[entry.wait] = entry
        if self._waits.arm(entry.wait, log, entry.limit_offset(config), is_committed):
            entry.wake(config)
        # Somebody waits for just this; where only other replicas lag, no commit helps.
        if log.high_watermark < log.log_end_offset and log.durable_offset < log.log_end_offset:
            log.ask_commit()

    def unwatch(self, entry: Entry) -> None:
        if entry.wait is not None:
            self._waits.remove(entry.wait)
            del self._waiting[entry.wait]
            entry.wait = None

    def moved(self) -> None:
        for number in self._waits.take():
            entry = self._waiting.get(number)
            if entry is None:
                continue
            if entry.waiters:
                config = self._config_of(entry.key.group)
                entry.wake(config)
                self.watch(entry, config)
            else:
                self.unwatch(entry)
