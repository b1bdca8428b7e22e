"""The logs of all partitions in one directory: recovery, creation, reopening, deletion, closing.

    recover        `recovery.py`
    create         `partition_creation.py`
    delete         1 move the directory into `deleted/`, durably   2 forget it in the journal
                   3 remove its files; recovery finishes what a crash left
    set_aside      the same into `orphans/`, where the files stay
    close          flush all, checkpoint all, mark the stop as clean
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from appliance._log import Log
from appliance.config import LONG_MAX, LogConfig, StorageConfig
from appliance.data_dir import durable_directories, partition_creation
from appliance.data_dir.durable_directories import (
    DELETED,
    ORPHANS,
    UNSETTLED,
    storage_error,
)
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.partition_creation import LogExists, NewPartitions
from appliance.data_dir.partition_names import Key, directory_name
from appliance.data_dir.recovery import (
    LogConfigs,
    Losses,
    NoLedger,
    Recovery,
    RecoveryProgress,
    note,
)
from appliance.data_dir.recovery_report import Knowledge, RecoveryReport
from appliance.errors import ApplianceError, raise_first
from appliance.machine.believed_time import Doubt
from appliance.process.owner_only import make_directory
from appliance.storage._data_directory import ReadFaultInfo

# how long a reopened log waits for its readers: longer than the transfer of a response
READERS_S = 10.0


Failures = dict[Key, ApplianceError]


class LogUnknown(ApplianceError):
    kafka_code = 3


class LogBusy(ApplianceError):
    kafka_code = 56


class Keeper(Protocol):
    """What keeps records from retention (`export/holds.py`)."""

    def judged(
        self, logs: Mapping[Key, Log], now_ms: int
    ) -> AbstractContextManager[Callable[[Log], int]]:
        """For one run of retention: the offset from which a log is kept."""
        ...


class NoKeeper:
    @contextmanager
    def judged(self, logs: Mapping[Key, Log], now_ms: int) -> Iterator[Callable[[Log], int]]:
        yield lambda log: LONG_MAX


class LogDir:
    """`recover` opens the logs of a locked directory; `open` does both."""

    def __init__(
        self, where: LockedDir, ledger: Losses | None = None, keeper: Keeper | None = None
    ) -> None:
        self._where = where
        self.path = where.path
        self.config = where.config
        self.syncs = where.syncs
        self.engine = engine = where.engine
        self.clock = where.clock
        self.ledger: Losses = ledger or NoLedger()
        self.keeper: Keeper = keeper or NoKeeper()
        self.report = RecoveryReport(engine.was_clean, engine.is_new, Knowledge.of(engine))
        config = where.config
        self.report.notes += where.syncs.warnings(config.sync, config.file_system_accepted)
        self._logs: dict[Key, Log] = {}
        self.unopened: dict[Key, str] = {}  # too damaged to open; with the reason
        self.missing: dict[Key, str] = {}  # had records, but the directory is gone; its name
        self.unowned: set[Key] = set()  # without a topic, and not set aside yet: never cleaned
        self._moved: dict[Key, Path] = {}  # out of here, and the disk may not know
        self.is_let_go = False
        self.compacts_from = 0.0  # of time.monotonic(): a backup reads compacted logs until then
        engine.believe(self.clock.remember().believed_ms)

    @classmethod
    def open(
        cls,
        path: Path | str,
        config: StorageConfig | None = None,
        progress: RecoveryProgress = lambda done, found: None,
        log_config: LogConfigs = lambda topic, partition: LogConfig(),
    ) -> LogDir:
        log_dir = cls(LockedDir.lock(path, config))
        log_dir.recover(progress, log_config)
        return log_dir

    def recover(
        self,
        progress: RecoveryProgress = lambda done, found: None,
        log_config: LogConfigs = lambda topic, partition: LogConfig(),
        is_elsewhere: Callable[[Key], bool] = lambda key: False,
    ) -> None:
        """Opens every log. `log_config` returns the settings of each, `is_elsewhere` whether its
        place is in another directory."""
        start = Recovery(self._where, self.report, self.ledger, is_elsewhere)
        self._logs, self.unopened, self.missing = start.logs, start.unopened, start.missing
        try:
            start.run(progress, log_config)
        except BaseException:
            self.abandon()
            raise

    def forget_missing(self, keys: Iterable[Key]) -> None:
        self.engine.forget_names([self.missing.pop(key) for key in keys])

    # Logs

    def logs(self) -> dict[Key, Log]:
        return dict(self._logs)

    def log(self, topic: str, partition: int) -> Log:
        try:
            return self._logs[topic, partition]
        except KeyError:
            raise LogUnknown(f"there is no log {topic}-{partition} in {self.path}") from None

    def create(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        """A new, empty log whose name is on disk afterwards."""
        return self.create_all(topic, [partition], config)[0]

    def create_all(
        self, topic: str, partitions: Iterable[int], config: LogConfig | None = None
    ) -> list[Log]:
        """Creates all of them, or none."""
        new = NewPartitions(topic, list(partitions), config or LogConfig())
        self.create_new([new])
        return new.made()

    def create_new(self, batch: Sequence[NewPartitions]) -> None:
        """Of each topic all, or none and its error."""
        for new in batch:
            for key in new.keys:
                if key in self._logs:
                    new.refuse(LogExists(f"{directory_name(*key)} exists already"))
        asked = [new for new in batch if new.error is None]
        self.settle()
        partition_creation.create(self._where, asked, self.missing.values())
        for new in asked:
            for number, log in new.logs.items():
                self._logs[new.topic, number] = log
                self.missing.pop((new.topic, number), None)

    def take_back(self, batch: Iterable[NewPartitions]) -> None:
        """Those that are here: of no topic after all, and without a record."""
        mine = []
        for new in batch:
            logs = {number: self._logs.pop((new.topic, number)) for number in new.numbers
                    if (new.topic, number) in self._logs}  # fmt: skip
            mine.append(NewPartitions(new.topic, [*logs], new.config, logs))
        names = [name for new in mine for name in new.names.values()]
        partition_creation.take_back(self._where, mine, names)

    def reopen(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        """Reopens a log that failed or could not be opened, as after a crash: nothing in memory is
        trusted. If this fails the log is listed as not open."""
        key = (topic, partition)
        name = directory_name(topic, partition)
        if not self.holds(topic, partition):
            raise LogUnknown(f"there is no log {name} in {self.path}")
        if key in self._logs:
            self._let_go(self._logs[key])
            del self._logs[key]
            self.unopened[key] = "it is being reopened"
        return self._open(key, name, config or LogConfig(), is_again=True)

    def reopen_closed(self, topic: str, partition: int, config: LogConfig) -> None:
        """One whose move to another directory came to nothing. If it failed meanwhile it waits for
        an operator's word, as all that failed: who still reads it cannot be told any more."""
        key = (topic, partition)
        if (log := self._logs.get(key)) is not None and log.failed is not None:
            return
        self._logs.pop(key, None)
        self.unopened[key] = "its move to another directory failed"
        self._open(key, directory_name(topic, partition), config, is_again=True)

    def adopt(self, topic: str, partition: int, config: LogConfig) -> Log:
        """One that came from another directory, with its files and its state (`take_over`)."""
        key = (topic, partition)
        self.unopened[key] = "it was moved here, and is not open yet"
        return self._open(key, directory_name(topic, partition), config, is_moved=True)

    def _open(
        self,
        key: Key,
        name: str,
        config: LogConfig,
        *,
        is_again: bool = False,
        is_moved: bool = False,
    ) -> Log:
        try:
            log, recovered = self._where.open_log(name, config, is_again, is_moved)
        except ApplianceError as error:
            self.unopened[key] = str(error)
            raise
        report = RecoveryReport(was_clean=False)
        report.note(log, recovered, self.path / log.name)
        note(self.engine, self.ledger, report.losses)
        try:
            self.engine.commit_journal()
        except ApplianceError as error:
            log.close()
            self.unopened[key] = str(error)
            raise
        self._logs[key] = log
        del self.unopened[key]
        return log

    def let_go(self) -> None:
        """Closes all of it before it is opened again as after a crash, or its disk is taken out.
        Where a log is still read it raises, and those that are closed by then are not open. Moves
        from here and to here end: they hold files of it open."""
        self.is_let_go = True
        try:
            self._close_all_unread()
        except BaseException:
            self.is_let_go = False
            raise
        self.engine.close(False)

    def _close_all_unread(self) -> None:
        alive = [each for each in self._logs.values() if each.failed is None]
        for log in alive:
            log.ask_commit()
        deadline = time.monotonic() + READERS_S
        for key, log in self.logs().items():
            with suppress(ApplianceError):  # what the disk does not take was not acknowledged
                if log.failed is None:
                    log.flush(max(0.0, deadline - time.monotonic()))
            self._close_unread(log, deadline)
            self._logs.pop(key, None)
            self.unopened[key] = "its directory is being opened again"

    def _let_go(self, log: Log) -> None:
        """Closes a log before it is reopened."""
        if log.failed is None:
            log.flush()
        self._close_unread(log, time.monotonic() + READERS_S)

    def _close_unread(self, log: Log, deadline: float) -> None:
        # A page that a reader holds cannot be dropped from the page cache, and after a failed write
        # the cache cannot be trusted.
        while log.files_held():
            if time.monotonic() > deadline:
                raise LogBusy(f"{log.name} is still read after {READERS_S:g} s, and cannot be "
                              "reopened before that ends: stop its consumers and exports")
            time.sleep(0.01)
        if log.failed is not None:
            log.end_at_durable()  # the thread that met the failure may not have come to that yet
        log.close()
        log.settle()

    def holds(self, topic: str, partition: int) -> bool:
        """Whether a directory of this name exists, open or not."""
        return (topic, partition) in self._logs or (topic, partition) in self.unopened

    def is_unwritten(self, topic: str, partition: int) -> bool:
        """It is open, and never had a record; nor has its directory a file with anything else."""
        log = self._logs.get((topic, partition))
        if log is None or log.failed is not None or log.log_end_offset > 0:
            return False
        try:
            return partition_creation.is_unwritten(self.path / log.name)
        except OSError:
            return False  # what cannot be looked at may be something

    def held(self) -> list[Key]:
        return sorted({*self._logs, *self.unopened})

    def delete(self, topic: str, partition: int) -> None:
        """Removes a log. Slices that readers hold stay readable until released."""
        raise_first(self.delete_all([(topic, partition)]).values())

    def delete_all(self, keys: Iterable[Key]) -> Failures:
        """Why some of them stay. What they wait for at the disk they wait for together."""
        return self._move({key: self.path / DELETED / directory_name(*key) for key in keys})

    @property
    def has_unsettled(self) -> bool:
        """Whether the next deletion has to do with an earlier one, too."""
        return bool(self._moved)

    def set_aside(self, topic: str, partition: int) -> Path:
        """Takes a log out of service and keeps its files; returns their new directory."""
        name = directory_name(topic, partition)
        orphans = (self.path / ORPHANS).glob(f"{name}*")
        taken = {each.name.removesuffix(UNSETTLED) for each in orphans}
        names = (f"{name}.{i}" if i else name for i in itertools.count())
        place = self.path / ORPHANS / next(each for each in names if each not in taken)
        way = place.with_name(f"{place.name}{UNSETTLED}")
        raise_first(self._move({(topic, partition): way}).values())
        return place

    def _move(self, targets: Mapping[Key, Path]) -> Failures:
        """Moves logs durably into another directory; why some were not."""
        failures: Failures = {}
        for (topic, partition), target in targets.items():
            try:
                self._move_one(topic, partition, target)
                self._moved[topic, partition] = target
            except ApplianceError as error:
                failures[topic, partition] = error
        try:
            self.settle()
        except ApplianceError as error:
            failures |= dict.fromkeys(self._moved, error)
        return failures

    def settle(self) -> None:
        """What was moved away: the names may be used again, so the journal must forget them first.
        Only then do the files go that are to go, and orphans get their names. What fails is tried
        again with the next deletion, and before a log is made here or comes here under such a name.
        """
        for parent in {target.parent for target in self._moved.values()}:
            try:
                durable_directories.sync_name(parent)
            except OSError as error:
                raise storage_error(error, f"{parent} cannot be synced") from error
        if not self._moved:
            return
        self.engine.sync_directory()
        self.engine.forget_names([directory_name(*key) for key in self._moved])
        settled, self._moved = self._moved, {}
        for target in settled.values():
            if target.parent == self.path / DELETED:
                durable_directories.bury(target)
            else:
                durable_directories.come_to_rest(target)

    def _move_one(self, topic: str, partition: int, target: Path) -> None:
        if not self.holds(topic, partition):
            raise LogUnknown(f"there is no log {topic}-{partition} in {self.path}")
        name = directory_name(topic, partition)
        try:
            make_directory(target.parent, exist_ok=True)
            if target.exists():
                shutil.rmtree(target)
            log = self._logs.get((topic, partition))
            with log.directory_held() if log is not None else nullcontext():
                (self.path / name).rename(target)
                # Only now: a log that cannot be moved stays in service.
                self._logs.pop((topic, partition), None)
                if log is not None:
                    log.close()
                    # A checkpoint that has begun would add the name to the journal again after its
                    # removal.
                    log.settle_journal()
            self.unopened.pop((topic, partition), None)
            self.unowned.discard((topic, partition))
        except OSError as error:
            raise storage_error(error, f"{name} cannot be moved to {target.parent}") from error

    # Upkeep: called by the server's timers, or by hand

    def checkpoint(self) -> None:
        """Makes the recovery points of all changed logs durable."""
        self.engine.checkpoint()

    def watch_clock(self) -> int:
        """Every second: passes the believed time to the engine, and stores what must survive a
        kill."""
        self.engine.believe(self.clock.remember().believed_ms)
        self._where.belief.keep()
        return 0

    def confirm_clock(self) -> Doubt | None:
        """A person confirms the machine's clock; returns the doubt that this ends."""
        ended = self.clock.confirm()
        self.engine.believe(self.clock.remember().believed_ms)
        self._where.belief.keep(at_once=True)
        return ended

    def retain(self, now_ms: int | None = None) -> int:
        """Applies retention to every log; returns the number of deleted segments."""
        now = self.clock.now_ms() if now_ms is None else now_ms
        with self.keeper.judged(self.logs(), now) as keeps_from:
            return self.retain_by(now, keeps_from)

    def retain_by(self, now_ms: int, keeps_from: Callable[[Log], int]) -> int:
        try:
            return self._each(lambda log: log.retain(now_ms, keeps_from(log)))
        finally:
            self.rest(self.config.sealed_files_idle_ms)

    def rest(self, idle_ms: int) -> None:
        """Closes files that were unused for the given time and have no unsynced data."""
        for log in self.logs().values():
            log.rest(idle_ms)

    def compact(self, now_ms: int | None = None) -> int:
        """Compacts every log that is due; returns their number."""
        span = self.clock.look()
        now, latest = (span.earliest_ms, span.latest_ms) if now_ms is None else (now_ms, now_ms)
        return self._each(lambda log: self._may_compact and log.compact(now, latest_ms=latest))

    @property
    def _may_compact(self) -> bool:
        return time.monotonic() >= self.compacts_from

    def _each(self, job: Callable[[Log], int]) -> int:
        """The sum over the logs of topics: logs without a topic have no retention. A log that fails
        does not stop the others: the first error is raised at the end."""
        count, failures = 0, []
        for key, log in self.logs().items():
            if key in self.unowned:
                continue
            try:
                count += job(log)
            except ApplianceError as error:
                if self._logs.get(key) is log:  # not deleted meanwhile
                    failures.append(error)
        if failures:
            raise failures[0]
        return count

    @property
    def is_full(self) -> bool:
        """Whether clients' writes are refused for lack of space."""
        return self.engine.is_full

    @property
    def journal_failed(self) -> bool:
        """Whether recovery points cannot be saved: the broker serves everything, but the next
        start reads more, and partitions cannot be created or deleted."""
        return self.engine.journal_failed != 0

    @property
    def free_bytes(self) -> int:
        return self.engine.free_bytes

    def is_failing(self, topic: str, partition: int) -> bool:
        """Whether a refused read is the disk's, and says nothing of the records."""
        log = self._logs.get((topic, partition))
        return self.journal_failed or (log is not None and log.failed is not None)

    @property
    def is_failing_everywhere(self) -> bool:
        """Whether that is so of all logs."""
        return self.journal_failed

    @property
    def hangs_s(self) -> float:
        """For how long the sync that is under way has lasted."""
        return self.engine.counters()["sync_age_ns"] / 1e9

    def counters(self) -> dict[str, int]:
        return self.engine.counters()

    def commit_times(self) -> tuple[list[int], int]:
        return self.engine.commit_times()

    # Reads that failed

    @property
    def read_faults(self) -> tuple[int, int]:
        return self.engine.read_faults

    def wake_at_read_faults(self) -> int:
        return self.engine.wake_at_read_faults()

    def take_read_faults(self) -> list[ReadFaultInfo]:
        return self.engine.take_read_faults()

    def close(self) -> None:
        """A clean stop, if every log can be made durable; otherwise an unclean one, also safe."""
        logs = list(self._logs.values())
        alive = [log for log in logs if log.failed is None]
        self._where.belief.keep(at_once=True)
        try:
            for log in alive:
                log.seal_times()
                log.ask_commit()
            for log in alive:
                log.flush()
            self.engine.checkpoint()
        except ApplianceError:
            self._close(logs, cleanly=False)
            raise
        self._close(logs, cleanly=len(alive) == len(logs))

    def abandon(self) -> None:
        """Closes everything like a killed process: nothing is flushed or marked."""
        self._close(list(self._logs.values()), cleanly=False)

    def _close(self, logs: Iterable[Log], cleanly: bool) -> None:
        for log in logs:
            log.close()
        self.engine.close(cleanly)
        self._logs = {}
