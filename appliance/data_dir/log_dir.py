"""The data directory: finds, recovers, creates, deletes and closes the logs of all partitions.

    LogDir.open    lock; read the journal, finish interrupted deletions, open every log in parallel,
                   begin a new journal generation; then, and only then, the first append
    delete         1 move the directory into `deleted/`, durably   2 forget it in the journal
                   3 remove its files; recovery finishes what a crash left
    set_aside      the same into `orphans/`, where the files stay
    close          flush all, checkpoint all, mark the stop as clean
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

from appliance._log import Engine, Log, Recovered
from appliance.catalog.ledger import Damage
from appliance.config import LONG_MAX, LogConfig, StorageConfig
from appliance.data_dir import descriptors
from appliance.data_dir.recovery_report import Knowledge, RecoveryReport
from appliance.errors import ApplianceError, FilesExhausted, StorageFull, StorageIoFailed
from appliance.machine.believed_clock import BelievedClock, boot_id, load
from appliance.machine.clock import is_kept_right_by_the_kernel
from appliance.machine.syncs import Syncs, syncs_on
from appliance.machine.wall_clock import Doubt, WallClock
from appliance.native import _descriptors
from appliance.process import event_log
from appliance.process.owner_only import DIRECTORY_MODE, make_directory, tighten
from appliance.process.spoken import read_only

events = event_log.named("log_dir")

Key = tuple[str, int]
Progress = Callable[[int, int], None]

# Kafka's rule. 249 characters leave room for "-" and five digits in a file name of 255 bytes.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,4})")
_DELETED = "deleted"  # made at the start: on a full disk there is no block for a new directory
_ORPHANS = "orphans"

# How long a log that is opened again waits for those who read it: longer than an answer is sent.
READERS_S = 10.0

# How long a creation waits for a commit that lets go of files: a slow disk's.
DESCRIPTORS_S = 2.0

# Each waits for the disk, not for a core: what they sync at once is one write of the file system's.
CREATION_THREADS = 16


class TopicNameInvalid(ApplianceError):
    kafka_code = 17


class LogExists(ApplianceError):
    kafka_code = 36


class LogUnknown(ApplianceError):
    kafka_code = 3


class LogBusy(ApplianceError):
    kafka_code = 56
    retriable = True


class DescriptorsExhausted(ApplianceError):
    """A matter of policy for clients: the operator's limit, which they cannot wait out."""

    kafka_code = 44


class Losses(Protocol):
    """Who remembers what is lost or damaged (`ledger.py`)."""

    def note(self, damages: Iterable[Damage]) -> bool:
        """Before the journal forgets that it was there; whether all of it is on disk."""
        ...

    def knows(self, topic: str, partition: int, offset: int) -> bool:
        """Whether it has an entry, open or not, about this offset."""
        ...

    def save(self) -> bool: ...


class NoLedger:
    def note(self, damages: Iterable[Damage]) -> bool:
        return True

    def knows(self, topic: str, partition: int, offset: int) -> bool:
        return True

    def save(self) -> bool:
        return True


class Keeper(Protocol):
    """Who wants something kept that retention would delete (`export/holds.py`)."""

    def judged(
        self, logs: Mapping[Key, Log], now_ms: int
    ) -> AbstractContextManager[Callable[[Log], int]]:
        """For one run: the offset from which on a log is kept."""
        ...


class NoKeeper:
    @contextmanager
    def judged(self, logs: Mapping[Key, Log], now_ms: int) -> Iterator[Callable[[Log], int]]:
        yield lambda log: LONG_MAX


class LogDir:
    """All logs under one directory. `open` is the constructor."""

    def __init__(
        self, engine: Engine, path: Path, config: StorageConfig, clock: WallClock, syncs: Syncs
    ) -> None:
        self.path = path
        self.config = config
        self.syncs = syncs
        self.report = RecoveryReport(engine.was_clean, engine.is_new, Knowledge.of(engine))
        self.report.notes += syncs.warnings(config.sync, config.file_system_accepted)
        self.engine = engine
        self.keeper: Keeper = NoKeeper()
        self.ledger: Losses = NoLedger()
        self.unopened: dict[Key, str] = {}  # there, but damaged beyond opening; and why
        self.missing: dict[Key, str] = {}  # had records, and have no directory; its name
        self.unowned: set[Key] = set()  # of no topic, and not set aside yet: nobody cleans them
        self._logs: dict[Key, Log] = {}
        self.clock = clock
        self._belief = BelievedClock(path, clock)
        engine.believe(clock.remember().believed_ms)

    @classmethod
    def open(
        cls,
        path: Path | str,
        config: StorageConfig | None = None,
        progress: Progress | None = None,
        log_config: Callable[[str, int], LogConfig] | None = None,
    ) -> LogDir:
        """Recovers every log found. `log_config` names each one's settings."""
        log_dir = cls.lock(path, config)
        log_dir.recover(progress, log_config)
        return log_dir

    @classmethod
    def lock(
        cls,
        path: Path | str,
        config: StorageConfig | None = None,
        clients: int = 0,
        admin: int = 0,
    ) -> LogDir:
        """Takes the directory, so that no other process can; `recover` is to follow. `clients` may
        connect at most, and `admin` at the admin port: the logs get what descriptors they leave."""
        config = config or StorageConfig()
        path = Path(path).absolute()
        _make(path)
        tighten(path)
        descriptors.take(clients, admin)
        remembered = load(path)  # before the journal is touched, whose age may have to do
        syncs = syncs_on(path)
        engine = Engine(
            str(path),
            checkpoint_interval_ms=config.checkpoint_interval_ms,
            reserve_bytes=config.reserve_bytes,
            low_water_bytes=config.low_water_bytes,
            sync=_sync_by(config.sync, syncs),
            sync_threads=config.sync_threads,
            write_behind_bytes=config.write_behind_bytes,
        )
        clock = WallClock(
            is_synchronised=is_kept_right_by_the_kernel, remembered=remembered, boot_id=boot_id()
        )
        return cls(engine, path, config, clock, syncs)

    def recover(
        self,
        progress: Progress | None = None,
        log_config: Callable[[str, int], LogConfig] | None = None,
    ) -> None:
        try:
            self._recover(progress or _silent, log_config or _default_config)
        except BaseException:
            self.abandon()
            raise

    # Recovery

    def _recover(self, progress: Progress, log_config: Callable[[str, int], LogConfig]) -> None:
        begin = time.monotonic()
        if self._belief.is_new:
            # Once the journal is written again its age says nothing of what was believed before.
            self._belief.keep()
        if not self.engine.was_clean:
            # A name that only the page cache knew must not be relied on below.
            self.engine.sync_directory()
        dead = self._forget_deleted()
        found = sorted(_partitions(self.path))
        self._miss({name for _, _, name in found})
        done = 0
        with ThreadPoolExecutor(self.config.recovery_threads, "recovery") as pool:
            opened = pool.map(lambda each: self._open_one(each, log_config), found)
            for (topic, partition, name), result in zip(found, opened, strict=True):
                if isinstance(result, ApplianceError):
                    self.report.failures.append(f"{name}: {result}")
                    self.unopened[topic, partition] = str(result)
                else:
                    self._logs[topic, partition] = result[0]
                    self.report.note(*result, self.path / name)
                done += 1
                try:
                    progress(done, len(found))
                except BaseException:
                    pool.shutdown(cancel_futures=True)  # the start is to stop here
                    raise
        self._tell_ledger()
        self.engine.start()
        for each in dead:
            _remove(each)
        self.report.seconds = time.monotonic() - begin

    def _tell_ledger(self) -> None:
        """Before the journal takes the holes for known."""
        forgotten = [
            Damage(topic, partition, first, end - 1, "lost or damaged before this start")
            for (topic, partition), log in self._logs.items()
            for first, end in log.holes()
            if not self.ledger.knows(topic, partition, first)
        ]
        told = {(each.topic, each.partition, each.first_offset) for each in self.report.losses}
        self._note([
            *self.report.losses,
            *self.report.unknown(),
            *(each for each in forgotten
              if (each.topic, each.partition, each.first_offset) not in told),
        ])  # fmt: skip

    def _note(self, damages: Iterable[Damage]) -> None:
        """On disk when this returns: a full disk gives its reserve for it. Where even that is not
        enough the log is served all the same: until an entry is on disk health says that it is
        not, and a start tells of every hole that the ledger lacks (`forgotten`)."""
        if not self.ledger.note(damages) and self.engine.release_reserve():
            self.ledger.save()

    def _open_one(
        self, found: tuple[str, int, str], log_config: Callable[[str, int], LogConfig]
    ) -> tuple[Log, Recovered] | ApplianceError:
        # One bad partition never stops the others.
        topic, partition, name = found
        try:
            return self._open_log(name, log_config(topic, partition))
        except ApplianceError as error:
            return error

    def _open_log(
        self, name: str, config: LogConfig, is_again: bool = False
    ) -> tuple[Log, Recovered]:
        try:
            return self.engine.open_log(name, config, is_again=is_again)
        except FilesExhausted:
            if not _descriptors.relieve():
                raise
            return self.engine.open_log(name, config, is_again=is_again)

    def _forget_deleted(self) -> list[Path]:
        """What interrupted deletions left: out of the journal first, its files after that."""
        grave = self.path / _DELETED
        try:
            make_directory(grave, exist_ok=True)
            dead = list(grave.iterdir())
        except OSError as error:
            # A full disk must not stop a start. A deletion will try again, and say so.
            events.warning("no place for deleted logs", path=grave, error=error)
            return []
        gone = [each.name for each in dead if not (self.path / each.name).exists()]
        self.engine.forget_names(gone)
        return dead

    def _miss(self, found: set[str]) -> None:
        """Logs that the journal knows and that have no directory. One that had records stays in the
        journal: made anew, it goes on where it ended (`create`)."""
        empty = []
        for name in self.engine.known():
            match = _DIRECTORY.fullmatch(name)
            if match is None or name in found:
                continue
            first, end = self.engine.promised(name)
            if first >= end or any((self.path / _ORPHANS).glob(f"{name}*")):
                empty.append(name)  # its creation, or its way into `orphans`, was interrupted
                continue
            key = (match[1], int(match[2]))
            self.missing[key] = name
            self.report.losses.append(Damage(*key, first, end - 1, "the directory is gone"))
        self.engine.forget_names(empty)

    def forget_missing(self, keys: Iterable[Key]) -> None:
        """These are not waited for any more."""
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
        """A new, empty log whose name is on disk when this returns."""
        return self.create_all(topic, [partition], config)[0]

    def create_all(
        self, topic: str, partitions: Iterable[int], config: LogConfig | None = None
    ) -> list[Log]:
        """All of them, or none. However many they are, the disk is waited for a few times only:
        what threads sync at once the file system writes together."""
        keys = [(topic, number) for number in partitions]
        made: list[str] = []
        logs: list[Log] = []
        self._check_descriptors(topic, len(keys))
        try:
            for key in keys:
                made.append(self._make_directory(key))
            self.engine.sync_directory()
            logs = self._open_new(made, config or LogConfig())
            # Known from its first record on: recovery holds unknown directories for foreign ones,
            # where damage in the middle is a hole, not the end of what was promised.
            self.engine.commit_journal()
        except ApplianceError:
            self._take_back(made, logs)
            raise
        self._logs.update(zip(keys, logs, strict=True))
        for key in keys:
            self.missing.pop(key, None)
        return logs

    def _make_directory(self, key: Key) -> str:
        name = directory_name(*key)
        if key in self._logs:
            raise LogExists(f"{name} exists already")
        try:
            make_directory(self.path / name, exist_ok=True)
            # A creation that failed may have left it, but nothing in it.
            if any(each.lstat().st_size for each in (self.path / name).iterdir()):
                raise LogExists(f"{self.path / name} exists but is not open; see the recovery "
                                "report")
        except OSError as error:
            raise _storage_error(error, f"{name} cannot be created") from error
        return name

    def _check_descriptors(self, topic: str, count: int) -> None:
        """Before half of them is made: those that are opened at once must find room."""
        wanted = descriptors.BUSY_PARTITION * min(count, CREATION_THREADS)
        deadline = time.monotonic() + DESCRIPTORS_S
        while not _descriptors.relieve(wanted):
            if time.monotonic() > deadline:
                found = _descriptors.counters()
                raise DescriptorsExhausted(
                    f"{topic}: to make {count} partitions takes {wanted} file descriptors at once, "
                    f"and logs that are in use hold {found['open']} of the {found['most']} that "
                    "they may have: raise LimitNOFILE of the service, or try again when fewer are "
                    "written"
                )
            time.sleep(0.01)  # the files that hold what is not synced were asked for

    def _open_new(self, names: list[str], config: LogConfig) -> list[Log]:
        """All of them, or none is open."""
        logs: list[Log] = []
        failures: list[ApplianceError] = []
        with ThreadPoolExecutor(CREATION_THREADS, "creation") as pool:
            for each in [pool.submit(self._open_log, name, config) for name in names]:
                try:
                    logs.append(each.result()[0])
                except ApplianceError as error:
                    failures.append(error)
        if failures:
            _let_go_of_new(logs)
            raise failures[0]
        return logs

    def reopen(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        """Opens a log that could not be opened, or that failed, as after a crash: nothing of it is
        trusted. Where it cannot be, it is among those that are not open."""
        key = (topic, partition)
        name = directory_name(topic, partition)
        if not self.holds(topic, partition):
            raise LogUnknown(f"there is no log {name} in {self.path}")
        if key in self._logs:
            self._let_go(self._logs[key])
            del self._logs[key]
            self.unopened[key] = "it is being opened again"
        try:
            log, recovered = self._open_log(name, config or LogConfig(), is_again=True)
        except ApplianceError as error:
            self.unopened[key] = str(error)
            raise
        found = RecoveryReport(was_clean=False)
        found.note(log, recovered, self.path / log.name)
        self._note(found.losses)
        try:
            self.engine.commit_journal()
        except ApplianceError as error:
            log.close()
            self.unopened[key] = str(error)
            raise
        self._logs[key] = log
        del self.unopened[key]
        return log

    def _let_go(self, log: Log) -> None:
        """Closes a log that is to be opened again."""
        if log.failed is None:
            log.flush()
        # A page that a reader holds cannot be dropped from the page cache, and what the cache shows
        # after a failed write is what must not be believed.
        deadline = time.monotonic() + READERS_S
        while log.files_held():
            if time.monotonic() > deadline:
                raise LogBusy(f"{log.name} is still read after {READERS_S:g} s, and cannot be "
                              "opened again before that ends: stop its consumers and exports")
            time.sleep(0.01)
        log.close()
        log.settle()

    def _take_back(self, names: list[str], logs: list[Log]) -> None:
        _let_go_of_new(logs)
        kept = set(self.missing.values())  # what they promised must outlive the failure
        for name in names:
            _remove(self.path / name)
        try:
            self.engine.forget_names([name for name in names if name not in kept])
        except ApplianceError as error:
            events.error("a creation that failed is in the journal; the next start forgets it",
                         error=error)  # fmt: skip

    def holds(self, topic: str, partition: int) -> bool:
        """Whether there is a directory of this name, open or not."""
        return (topic, partition) in self._logs or (topic, partition) in self.unopened

    def held(self) -> list[Key]:
        return sorted({*self._logs, *self.unopened})

    def delete(self, topic: str, partition: int) -> None:
        """Removes a log. Slices that readers hold stay readable until they let go."""
        self.delete_all(topic, [partition])

    def delete_all(self, topic: str, partitions: Iterable[int]) -> None:
        names = {(topic, number): directory_name(topic, number) for number in partitions}
        graves = {key: self.path / _DELETED / name for key, name in names.items()}
        self._move(graves)
        for grave in graves.values():
            _remove(grave)

    def set_aside(self, topic: str, partition: int) -> Path:
        """Takes a log out of service and keeps its files; where they are now."""
        name = directory_name(topic, partition)
        taken = {each.name for each in (self.path / _ORPHANS).glob(f"{name}*")}
        names = (f"{name}.{i}" if i else name for i in itertools.count())
        place = self.path / _ORPHANS / next(each for each in names if each not in taken)
        self._move({(topic, partition): place})
        return place

    def _move(self, targets: Mapping[Key, Path]) -> None:
        """Out of service and into one other directory, and durably so when this returns. Where one
        cannot be moved, those before it are: their names may be used again, so nothing of the
        journal's may be left for them."""
        moved: dict[str, Path] = {}
        try:
            for (topic, partition), target in targets.items():
                self._move_one(topic, partition, target)
                moved[directory_name(topic, partition)] = target
        finally:
            if moved:
                self._settle(moved)

    def _settle(self, moved: Mapping[str, Path]) -> None:
        for parent in {target.parent for target in moved.values()}:
            try:
                _sync_name(parent)
            except OSError as error:
                raise _storage_error(error, f"{parent} cannot be synced") from error
        self.engine.sync_directory()
        self.engine.forget_names(list(moved))

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
                # Not before: a log that cannot be moved is served as it was.
                self._logs.pop((topic, partition), None)
                if log is not None:
                    log.close()
                    # A checkpoint that has begun would put the name into the journal again after
                    # that forgot it.
                    log.settle_journal()
            self.unopened.pop((topic, partition), None)
            self.unowned.discard((topic, partition))
        except OSError as error:
            raise _storage_error(error, f"{name} cannot be moved to {target.parent}") from error

    # Upkeep: each is called by a timer of the server's, or by hand

    def checkpoint(self) -> None:
        """Recovery points of all that changed are on disk when this returns."""
        self.engine.checkpoint()

    def watch_clock(self) -> int:
        """Every second: the engine is told what is believed of the time, and what is to be known
        of it after a kill is stored."""
        self.engine.believe(self.clock.remember().believed_ms)
        self._belief.keep()
        return 0

    def confirm_clock(self) -> Doubt | None:
        """A person says that the machine's clock is right; the doubt that this ended."""
        ended = self.clock.confirm()
        self.engine.believe(self.clock.remember().believed_ms)
        self._belief.keep(at_once=True)
        return ended

    def retain(self, now_ms: int | None = None) -> int:
        """Applies retention to every log; the count of segments deleted."""
        now = self.clock.now_ms() if now_ms is None else now_ms
        try:
            with self.keeper.judged(self.logs(), now) as keeps_from:
                return self._each(lambda log: log.retain(now, keeps_from(log)))
        finally:
            self.rest(self.config.sealed_files_idle_ms)

    def rest(self, idle_ms: int) -> None:
        """Closes the files that nobody used for so long and that have nothing left to write."""
        for log in self.logs().values():
            log.rest(idle_ms)

    def compact(self, now_ms: int | None = None) -> int:
        """Compacts every log that is due; the count of them."""
        span = self.clock.look()
        now, latest = (span.earliest_ms, span.latest_ms) if now_ms is None else (now_ms, now_ms)
        return self._each(lambda log: log.compact(now, latest_ms=latest))

    def _each(self, job: Callable[[Log], int]) -> int:
        """The sum over the logs of topics: of the others nobody said what may go. One that fails
        holds up no other: the first failure is raised when all had their turn."""
        count, failures = 0, []
        for key, log in self.logs().items():
            if key in self.unowned:
                continue
            try:
                count += job(log)
            except ApplianceError as error:
                if self._logs.get(key) is log:  # it was not deleted meanwhile
                    failures.append(error)
        if failures:
            raise failures[0]
        return count

    @property
    def is_full(self) -> bool:
        """Whether clients' writes are refused for want of space."""
        return self.engine.is_full

    @property
    def journal_failed(self) -> bool:
        """Whether recovery points cannot be saved: everything is served, but the next start has
        more to read, and nothing can be created or deleted."""
        return self.engine.journal_failed != 0

    @property
    def free_bytes(self) -> int:
        return self.engine.free_bytes

    def poll_space(self) -> None:
        self.engine.poll()

    def counters(self) -> dict[str, int]:
        return self.engine.counters()

    def close(self) -> None:
        """A clean stop, if every log can be made durable; otherwise an unclean one, also safe."""
        logs = list(self._logs.values())
        alive = [log for log in logs if log.failed is None]
        self._belief.keep(at_once=True)
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
        """Lets go of everything as a killed process would: nothing flushed, nothing marked."""
        self._close(list(self._logs.values()), cleanly=False)

    def _close(self, logs: Iterable[Log], cleanly: bool) -> None:
        for log in logs:
            log.close()
        self.engine.close(cleanly)
        self._logs = {}


def directory_name(topic: str, partition: int) -> str:
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise TopicNameInvalid(f"{topic!r} is not a topic name: wanted 1 to 249 characters out of "
                               "a-z A-Z 0-9 . _ -, and neither '.' nor '..'")
    if not 0 <= partition <= 99_999:
        raise TopicNameInvalid(f"partition {partition} is not between 0 and 99999")
    return f"{topic}-{partition}"


def _partitions(path: Path) -> Iterable[tuple[str, int, str]]:
    with os.scandir(path) as entries:
        for entry in entries:
            match = _DIRECTORY.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False):
                yield match[1], int(match[2]), entry.name


def _let_go_of_new(logs: Iterable[Log]) -> None:
    """Those of a creation that failed: no file stays open, and no checkpoint that has begun puts
    them into the journal again."""
    for log in logs:
        log.close()
        log.settle_journal()


def _remove(directory: Path) -> None:
    """The files of a log that is no more; what cannot go now goes at the next start."""
    try:
        shutil.rmtree(directory)
    except OSError as error:
        events.warning("files of a deleted log stay for now", path=directory, error=error)


def _sync_by(chosen: str, syncs: Syncs) -> str:
    # Before Linux 5.8 syncfs kept write errors to itself: an acknowledgement could be a lie.
    major, minor = map(int, re.findall(r"\d+", os.uname().release)[:2])
    if not syncs.may_syncfs or (chosen == "auto" and (major, minor) < (5, 8)):
        return "files"
    return chosen


def _make(path: Path) -> None:
    if path.exists():
        return
    try:
        path.mkdir(DIRECTORY_MODE, parents=True)
        _sync_name(path.parent)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StorageIoFailed(read_only(str(path))) from error
        raise _storage_error(error, f"{path} cannot be made") from error


def _sync_name(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _storage_error(error: OSError, doing: str) -> ApplianceError:
    kinds = {errno.ENOSPC: StorageFull, errno.EDQUOT: StorageFull,
             errno.EMFILE: FilesExhausted, errno.ENFILE: FilesExhausted}
    kind = kinds.get(error.errno or 0, StorageIoFailed)
    return kind(f"{doing}: {error.strerror}")


def _silent(done: int, found: int) -> None:
    return


def _default_config(topic: str, partition: int) -> LogConfig:
    return LogConfig()
