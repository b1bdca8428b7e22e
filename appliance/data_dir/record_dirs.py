"""The directories of `log.dirs`: locked, opened, let go of and opened again, each with an engine of
its own. Which logs are in them is for `LogDirs` (`log_dirs.py`).
"""

from __future__ import annotations

import select
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from appliance.catalog.log_directory_rows import LogDirectoryRows
from appliance.config import BrokerConfig, LogConfig
from appliance.data_dir import data_format, directory_id
from appliance.data_dir.control_dir import ControlDir
from appliance.data_dir.directory_start import StartReport, recover_all
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import Keeper, LogDir, NoKeeper
from appliance.data_dir.made_logs import MadeLogs
from appliance.data_dir.partition_names import Key
from appliance.data_dir.record_dir import DirectoryBusy, DirectoryOffline, LogDirUnknown, RecordDir
from appliance.data_dir.recovery import LogConfigs, Losses, RecoveryProgress
from appliance.data_dir.unfinished_moves import remove_futures
from appliance.errors import ApplianceError
from appliance.machine.believed_time import Doubt
from appliance.process import event_log
from appliance.storage._data_directory import ReadFaultInfo

events = event_log.named("log_dirs")

Result = TypeVar("Result")

# A sync that takes longer is a disk that does not answer: upkeep leaves it alone, since whoever
# waits for that disk does nothing for the others.
HANGS_S = 30.0


class RecordDirs:
    """`recover` opens the logs of the directories that could be locked."""

    def __init__(
        self,
        control: ControlDir,
        config: BrokerConfig,
        rows: LogDirectoryRows,
        ledger: Losses,
        keeper: Keeper | None = None,
        *,
        may_hold_records: bool = False,
    ) -> None:
        """`may_hold_records`: there was no catalog, and directories without an id are its own."""
        self._control = control
        self.rows = rows
        self.ledger = ledger
        self.keeper: Keeper = keeper or NoKeeper()
        self.path = control.path  # of what is kept beside the records
        self.clock = control.belief.clock
        self.config = config.storage
        self._known = rows.directories()
        self._is_configured = bool(config.log_dirs.all)
        self.has_ids = self._is_configured or bool(self._known)
        self._places: dict[Key, str] = rows.places()
        self._may_hold_records = may_hold_records
        self._compacts_from = 0.0
        self._wakes: select.epoll | None = None
        self._faults_before = (0, 0)  # of engines that were closed
        self.made = MadeLogs()
        self.directories = [RecordDir(each) for each in config.record_dirs]
        self.report = StartReport()
        for each in self.directories:
            self._lock(each)
        self._check_any()

    # Directories

    def _lock(self, directory: RecordDir) -> None:
        """Raises where it is the only one: then there is nothing to serve."""
        try:
            directory.logs = self._locked(directory)
        except (ApplianceError, OSError) as error:
            if not self.has_ids:
                raise
            self._set_offline(directory, error)

    def _locked(self, directory: RecordDir) -> LogDir:
        if self.has_ids:
            may_hold = self._may_hold_records or directory.path == self.path
            directory.id = directory_id.of(directory.path, self._known, may_hold)
            self._check_own(directory)
        held = self._control.records if directory.path == self.path else None
        if held is not None:
            self._control.records = None
        locked = held or LockedDir.lock(directory.path, self.config, belief=self._control.belief)
        if self.has_ids and self._known.get(directory.id) != str(directory.path):
            try:
                self.rows.put_directory(directory.id, str(directory.path))
            except ApplianceError:
                locked.release()
                raise
            self._known = self.rows.directories()
        if self.has_ids:
            remove_futures(directory)
        logs = LogDir(locked, self.ledger, self.keeper)
        logs.compacts_from = self._compacts_from
        return logs

    def _check_own(self, directory: RecordDir) -> None:
        for each in self.directories:
            if each is not directory and each.id == directory.id and each.is_open:
                directory.id = ""
                raise directory_id.DirectoryUnknown(
                    f"{directory.path} has the id of {each.path}: it is a copy of that, or the "
                    "same directory"
                )

    def _set_offline(self, directory: RecordDir, error: Exception) -> None:
        text = str(error)
        if directory.why != text:
            events.error("a directory is offline", path=directory.path, error=error)
        directory.logs, directory.why, directory.doubt = None, text, ""
        if not directory.id:
            known = {path: each for each, path in self._known.items()}
            directory.id = known.get(str(directory.path), "")

    def _check_any(self) -> None:
        if not any(each.is_open for each in self.directories):
            told = "; ".join(f"{each.path}: {each.why}" for each in self.directories)
            raise DirectoryOffline(f"log.dirs: no directory can be opened: {told}")

    def recover(
        self,
        progress: RecoveryProgress = lambda done, found: None,
        log_config: LogConfigs = lambda topic, partition: LogConfig(),
    ) -> None:
        """Opens every log. `log_config` returns the settings of each."""
        opened = [each for each in self.directories if each.logs is not None]
        self.report.take([(each.path, each.opened().report) for each in opened])
        failed = recover_all(opened, progress, log_config, self._is_elsewhere)
        for directory, error in failed:
            if not self.has_ids:
                raise error
            self._set_offline(directory, error)
        self._check_any()

    def _is_elsewhere(self, directory: RecordDir, key: Key) -> bool:
        return self._places.get(key, directory.id) != directory.id

    @property
    def needs(self) -> Mapping[str, str]:
        """A build that knows one directory alone would make partitions of the others anew."""
        own = {each for each, path in self._known.items() if path == str(self.path)}
        is_used = self._is_configured or bool({*self._places.values()} - own)
        return data_format.LOG_DIRS if is_used else {}

    def named(self, path: str) -> RecordDir:
        for each in self.directories:
            if str(each.path) == path:
                return each
        raise LogDirUnknown(
            f"{path!r} is no directory of records; there are "
            f"{', '.join(str(each.path) for each in self.directories)}"
        )

    def offline(self) -> list[RecordDir]:
        return [each for each in self.directories if not each.is_open]

    def count_in(self, directory: RecordDir) -> int:
        """Partitions that have their place there."""
        if directory.logs is not None:
            return len(directory.logs.held())
        return sum(place == directory.id for place in self._places.values())

    def in_words(self, directory: RecordDir) -> str:
        """In front of what is said of it: nothing where it is the only one."""
        return f"{directory.path}: " if len(self.directories) > 1 else ""

    def let_go(self, directory: RecordDir) -> None:
        """Closes one, so that its disk can be taken out. Blocks while it is read."""
        if directory.logs is None:
            return
        if directory.logs.hangs_s > HANGS_S:
            raise DirectoryBusy(
                f"{directory.path}: a sync has not ended for {directory.logs.hangs_s:.0f} s, and "
                "the directory cannot be closed before that: mend or detach the disk first"
            )
        faults = directory.logs.read_faults
        directory.logs.let_go()
        self._faults_before = (
            self._faults_before[0] + faults[0], self._faults_before[1] + faults[1]
        )  # fmt: skip
        directory.logs, directory.why = None, "it is being opened again"

    def open_again(self, directory: RecordDir, log_config: LogConfigs) -> LogDir:
        """One that is not open. As after a crash: nothing in memory is trusted."""
        if directory.logs is not None:
            return directory.logs
        try:
            logs = self._locked(directory)
            logs.recover(
                log_config=log_config, is_elsewhere=lambda key: self._is_elsewhere(directory, key)
            )
        except (ApplianceError, OSError) as error:
            self._set_offline(directory, error)
            raise DirectoryOffline(f"{directory.path} cannot be opened: {error}") from error
        directory.logs, directory.why, directory.doubt = logs, "", ""
        self._watch_faults(logs)
        return logs

    # All that are open

    def _opened(self) -> list[tuple[RecordDir, LogDir]]:
        return [(each, each.logs) for each in self.directories if each.logs is not None]

    def _paths(self) -> str:
        return ", ".join(str(each.path) for each in self.directories)

    # Upkeep: called by the server's timers, or by hand

    def checkpoint(self) -> None:
        self._each(lambda logs: logs.checkpoint())

    def watch_clock(self) -> int:
        """Every second: passes the believed time to the engines, and stores what must survive a
        kill."""
        believed_ms = self.clock.remember().believed_ms
        for _, logs in self._opened():
            logs.engine.believe(believed_ms)
        self._control.belief.keep()
        return 0

    def confirm_clock(self) -> Doubt | None:
        """A person confirms the machine's clock; returns the doubt that this ends."""
        ended = self.clock.confirm()
        self.watch_clock()
        self._control.belief.keep(at_once=True)
        return ended

    def compact(self, now_ms: int | None = None) -> int:
        """Compacts every log that is due; returns their number."""
        return sum(self._each(lambda logs: logs.compact(now_ms)))

    def _each(self, job: Callable[[LogDir], Result]) -> list[Result]:
        """A directory that fails does not stop the others: the first error is raised at the end."""
        done, failures = [], []
        for directory, logs in self._opened():
            if len(self.directories) > 1 and logs.hangs_s > HANGS_S:
                continue
            try:
                done.append(job(logs))
            except ApplianceError as error:
                if directory.logs is logs:  # not closed meanwhile
                    failures.append(error)
        if failures:
            raise failures[0]
        return done

    @property
    def compacts_from(self) -> float:
        return self._compacts_from

    @compacts_from.setter
    def compacts_from(self, at: float) -> None:
        self._compacts_from = at
        for _, logs in self._opened():
            logs.compacts_from = at

    # In numbers

    @property
    def is_full(self) -> bool:
        """Whether clients' writes to some directory are refused for lack of space."""
        return any(logs.is_full for _, logs in self._opened())

    @property
    def journal_failed(self) -> bool:
        return any(logs.journal_failed for _, logs in self._opened())

    @property
    def is_failing_everywhere(self) -> bool:
        """Whether no directory has a log that could be verified."""
        return all(logs.is_failing_everywhere for _, logs in self._opened())

    def total_bytes(self) -> int:
        """Of the file systems, each once."""
        found: dict[int, int] = {}
        for each, _ in self._opened():
            with suppress(OSError):  # a disk that is going
                found[each.path.stat().st_dev] = each.room().total_bytes
        return sum(found.values())

    @property
    def free_bytes(self) -> int:
        """At the engines' last look; of each file system once."""
        found: dict[int, int] = {}
        for each, logs in self._opened():
            with suppress(OSError):
                found[each.path.stat().st_dev] = logs.free_bytes
        return sum(found.values())

    def counters(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for _, logs in self._opened():
            found.update(logs.counters())
        found["sync_age_ns"] = max(
            (logs.counters()["sync_age_ns"] for _, logs in self._opened()), default=0
        )
        return dict(found)

    def commit_times(self) -> tuple[list[int], int]:
        every = [logs.commit_times() for _, logs in self._opened()]
        return [sum(each) for each in zip(*(counts for counts, _ in every), strict=True)], sum(
            sum_ns for _, sum_ns in every
        )

    # Reads that failed

    @property
    def read_faults(self) -> tuple[int, int]:
        count, unnamed = self._faults_before
        for _, logs in self._opened():
            count, unnamed = count + logs.read_faults[0], unnamed + logs.read_faults[1]
        return count, unnamed

    def wake_at_read_faults(self) -> int:
        """A descriptor that is readable when `take_read_faults` has something."""
        if self._wakes is None:
            self._wakes = select.epoll()
            for _, logs in self._opened():
                self._watch_faults(logs)
        return self._wakes.fileno()

    def _watch_faults(self, logs: LogDir) -> None:
        if self._wakes is not None:
            self._wakes.register(logs.wake_at_read_faults(), select.EPOLLIN)

    def take_read_faults(self) -> list[ReadFaultInfo]:
        return [each for _, logs in self._opened() for each in logs.take_read_faults()]

    # Closing

    def close(self) -> None:
        """A clean stop of every directory that can be made durable. The first error is raised at
        the end."""
        failures = []
        for logs in self._in_closing_order():
            try:
                logs.close()
            except ApplianceError as error:
                failures.append(error)
        self._release()
        if failures:
            raise failures[0]

    def abandon(self) -> None:
        """Closes everything like a killed process: nothing is flushed or marked."""
        for logs in self._in_closing_order():
            logs.abandon()
        self._release()

    def _in_closing_order(self) -> list[LogDir]:
        """`data.dir` last: the next broker waits for its lock, and then wants all others."""
        opened = sorted(self._opened(), key=lambda each: each[0].path == self.path)
        return [logs for _, logs in opened]

    def _release(self) -> None:
        if self._wakes is not None:
            self._wakes.close()
            self._wakes = None
        self._control.release()
