"""A start: finishes deletions, opens every log in parallel, and reports what is damaged or gone.

The ledger gets these reports before the journal begins a new generation, in which the holes count
as known. Only then comes the first append.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from appliance._log import Engine, Log, Recovered
from appliance.catalog.loss_ledger import Damage
from appliance.config import LogConfig
from appliance.data_dir.durable_directories import (
    DELETED,
    FORGOTTEN,
    ORPHANS,
    UNSETTLED,
    bury,
    come_to_rest,
    is_being_set_aside,
)
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.partition_names import Key, key_of, partitions_in
from appliance.data_dir.recovery_report import RecoveryReport
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.owner_only import make_directory

events = event_log.named("log_dir")

RecoveryProgress = Callable[[int, int], None]
LogConfigs = Callable[[str, int], LogConfig]


class Losses(Protocol):
    """The memory of losses and damage (`loss_ledger.py`)."""

    def note(self, damages: Iterable[Damage]) -> bool:
        """Before the journal forgets the data; returns whether all of it is on disk."""
        ...

    def knows(self, topic: str, partition: int, offset: int) -> bool:
        """Whether it has an entry, open or not, for this offset."""
        ...

    def save(self) -> bool: ...


class NoLedger:
    def note(self, damages: Iterable[Damage]) -> bool:
        return True

    def knows(self, topic: str, partition: int, offset: int) -> bool:
        return True

    def save(self) -> bool:
        return True


class Recovery:
    def __init__(
        self,
        where: LockedDir,
        report: RecoveryReport,
        ledger: Losses,
        is_elsewhere: Callable[[Key], bool] = lambda key: False,
    ) -> None:
        self.where = where
        self.engine = where.engine
        self.report = report
        self.ledger = ledger
        self.is_elsewhere = is_elsewhere
        self.logs: dict[Key, Log] = {}
        self.unopened: dict[Key, str] = {}  # too damaged to open; with the reason
        self.missing: dict[Key, str] = {}  # had records, but the directory is gone; its name

    def run(self, progress: RecoveryProgress, log_config: LogConfigs) -> None:
        begin = time.monotonic()
        if self.where.belief.is_new:
            # After the journal is rewritten its age says nothing of the earlier time.
            self.where.belief.keep()
        if not self.engine.was_clean:
            # A name that only the page cache had must not count below.
            self.engine.sync_directory()
        dead = self._forget_deleted()
        names = sorted(partitions_in(self.where.path))
        self._miss({name for _, _, name in names})
        self._open_all(names, progress, log_config)
        self._tell_ledger()
        self.engine.start()
        for each in dead:  # only now the journal has forgotten them on disk, too
            bury(each)
        for each in (self.where.path / ORPHANS).glob(f"*{UNSETTLED}"):
            come_to_rest(each)
        self.report.seconds = time.monotonic() - begin

    def _forget_deleted(self) -> list[Path]:
        """Finishes interrupted deletions: first in the journal, then the files."""
        grave = self.where.path / DELETED
        try:
            make_directory(grave, exist_ok=True)
            dead = list(grave.iterdir())
        except OSError as error:
            # A full disk must not stop a start. A deletion will try again and report it.
            events.warning("no directory for deleted logs", path=grave, error=error)
            return []
        names = [each.name for each in dead if not each.name.endswith(FORGOTTEN)]
        gone = [each for each in names if not (self.where.path / each).exists()]
        self.engine.forget_names(gone)
        return dead

    def _miss(self, names: set[str]) -> None:
        """Logs of the journal without a directory. One that had records stays in the journal: if
        created again, it continues at its end."""
        empty = []
        for name in self.engine.known():
            key = key_of(name)
            if key is None or name in names:
                continue
            first, end = self.engine.promised(name)
            is_moved = is_being_set_aside(self.where.path, name) or self.is_elsewhere(key)
            if first >= end or is_moved:
                # Its creation, or its move into `orphans` or to another directory was interrupted.
                empty.append(name)
                continue
            self.missing[key] = name
            self.report.losses.append(Damage(*key, first, end - 1, "the directory is gone"))
        self.engine.forget_names(empty)

    def _open_all(
        self, names: list[tuple[str, int, str]], progress: RecoveryProgress, log_config: LogConfigs
    ) -> None:
        with ThreadPoolExecutor(self.where.config.recovery_threads, "recovery") as pool:
            opened = pool.map(lambda each: self._open_one(each, log_config), names)
            results = zip(names, opened, strict=True)
            for done, ((topic, partition, name), result) in enumerate(results, 1):
                if isinstance(result, ApplianceError):
                    self.report.failures.append(f"{name}: {result}")
                    self.unopened[topic, partition] = str(result)
                else:
                    self.logs[topic, partition] = result[0]
                    self.report.note(*result, self.where.path / name)
                try:
                    progress(done, len(names))
                except BaseException:
                    pool.shutdown(cancel_futures=True)  # the start must stop here
                    raise

    def _open_one(
        self, partition_name: tuple[str, int, str], log_config: LogConfigs
    ) -> tuple[Log, Recovered] | ApplianceError:
        topic, partition, name = partition_name
        try:
            return self.where.open_log(name, log_config(topic, partition))
        except ApplianceError as error:  # one bad partition never stops the others
            return error

    def _tell_ledger(self) -> None:
        """Before the journal counts the holes as known."""
        forgotten = [
            Damage(topic, partition, first, end - 1, "lost or damaged before this start")
            for (topic, partition), log in self.logs.items()
            for first, end in log.holes()
            if not self.ledger.knows(topic, partition, first)
        ]
        told = {(each.topic, each.partition, each.first_offset) for each in self.report.losses}
        note(self.engine, self.ledger, [
            *self.report.losses,
            *self.report.unknown(),
            *(each for each in forgotten
              if (each.topic, each.partition, each.first_offset) not in told),
        ])  # fmt: skip


def note(engine: Engine, ledger: Losses, damages: Iterable[Damage]) -> None:
    """Stores them on disk; a full disk has a reserve for this. If even that is too small the log is
    served all the same: health reports the missing entry until it is on disk, and a start reports
    every hole that the ledger lacks (`forgotten`)."""
    if not ledger.note(damages) and engine.release_reserve():
        ledger.save()
