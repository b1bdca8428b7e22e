"""New partitions, of many topics at once: directories, logs and names in the journal. Of each topic
all of them or none; one that fails does not fail the others.

    1 the directories, and where one sync of the file system is cheaper, the first segments
    2 one sync: of the data directory, in which the names are, or of the file system
    3 the logs; those without a segment make it, and sync its directory
    4 one commit of the journal

Which sync: docs/decisions/topic-creation.md. Until a topic is in the catalog nobody writes there,
so what a crash leaves is empty, and the next start removes it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import descriptor_budget, partition_metadata
from appliance.data_dir.durable_directories import remove, storage_error
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.partition_names import Key, directory_name
from appliance.errors import ApplianceError
from appliance.native import _descriptors
from appliance.process import event_log
from appliance.process.owner_only import FILE_MODE, make_directory

events = event_log.named("log_dir")

# How long a creation waits for a commit that closes files on a slow disk.
DESCRIPTORS_S = 2.0

# Each waits for the disk, not for a core: concurrent syncs become one write of the file system.
CREATION_THREADS = 16

FIRST_SEGMENT = f"{0:020d}.log"


class LogExists(ApplianceError):
    kafka_code = 36


class DescriptorsExhausted(ApplianceError):
    """A policy violation for clients: waiting does not lift the operator's limit."""

    kafka_code = 44


@dataclass(eq=False)
class NewPartitions:
    """Of one topic: what is wanted, and what came of it."""

    topic: str
    numbers: Sequence[int]
    config: LogConfig
    logs: dict[int, Log] = field(default_factory=dict)
    error: ApplianceError | None = None  # then there is no log

    @property
    def keys(self) -> list[Key]:
        return [(self.topic, number) for number in self.numbers]

    @property
    def names(self) -> dict[int, str]:
        return {number: directory_name(self.topic, number) for number in self.numbers}

    def made(self) -> list[Log]:
        """In their order, or the reason why there are none."""
        if self.error is not None:
            raise self.error
        return [self.logs[number] for number in self.numbers]

    def refuse(self, error: ApplianceError) -> None:
        """The first reason is the true one."""
        self.error = self.error or error


def create(where: LockedDir, batch: Sequence[NewPartitions], missing: Collection[str]) -> None:
    """Journal entries of `missing` partitions survive a failure: they were promised."""
    if not batch:
        return
    count = sum(len(new.numbers) for new in batch)
    is_together = where.engine.syncs_together(count + 1)
    made: dict[NewPartitions, list[str]] = {new: [] for new in batch}
    try:
        # Older than what it is to speak of, so that no error of that is missed.
        whole = os.open(where.path, os.O_RDONLY | os.O_DIRECTORY) if is_together else -1
    except OSError as error:
        for new in batch:
            new.refuse(storage_error(error, f"{where.path} cannot be opened"))
        return
    try:
        _all(batch, lambda: _check_descriptors(batch, 1 if is_together else CREATION_THREADS))
        _each(batch, lambda new: _make_all(where, new, made[new], missing, is_together))
        if is_together:
            _all(batch, lambda: where.engine.sync_file_system(whole))
        else:
            _all(batch, where.engine.sync_directory)
        _open_all(where, batch, 1 if is_together else CREATION_THREADS)
        # The journal knows them from their first record on: recovery takes unknown directories for
        # foreign, and treats damage in their middle as a hole, not as the end of what was promised.
        _all(batch, where.engine.commit_journal)
    finally:
        if is_together:
            os.close(whole)
    failed = [new for new in batch if new.error is not None]
    take_back(where, failed, [name for new in failed for name in made[new]], missing)


def _each(batch: Iterable[NewPartitions], step: Callable[[NewPartitions], None]) -> None:
    """For each that has not failed."""
    for new in batch:
        if new.error is None:
            try:
                step(new)
            except ApplianceError as error:
                new.refuse(error)


def _all(batch: Iterable[NewPartitions], step: Callable[[], None]) -> None:
    """Once, for all that have not failed."""
    if alive := [new for new in batch if new.error is None]:
        try:
            step()
        except ApplianceError as error:
            for new in alive:
                new.refuse(error)


def _make_all(
    where: LockedDir,
    new: NewPartitions,
    made: list[str],
    missing: Collection[str],
    with_segments: bool,
) -> None:
    """What it made of one that fails is room for the others."""
    try:
        for name in new.names.values():
            _make(where, name)
            made.append(name)
            if with_segments and name not in missing:  # that goes on where its promised end was
                _make_segment(where.path / name)
    except ApplianceError:
        for name in made:
            remove(where.path / name)
        made.clear()
        raise


def _make(where: LockedDir, name: str) -> None:
    path = where.path / name
    try:
        make_directory(path, exist_ok=True)
        # A failed creation may have left it.
        if not is_unwritten(path):
            raise LogExists(f"{path} exists but is not open; see the recovery report")
    except OSError as error:
        raise storage_error(error, f"{name} cannot be created") from error


def _make_segment(directory: Path) -> None:
    path = directory / FIRST_SEGMENT
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    except OSError as error:
        raise storage_error(error, f"{path} cannot be created") from error


def is_unwritten(directory: Path) -> bool:
    """Whether no file there has a byte, but for the topic's id."""
    found = [each.lstat() for each in directory.iterdir() if each.name != partition_metadata.NAME]
    return all(stat.S_ISREG(each.st_mode) and each.st_size == 0 for each in found)


def _check_descriptors(batch: Sequence[NewPartitions], threads: int) -> None:
    """Fails before half of them exist: new partitions need descriptors at once."""
    count = sum(len(new.numbers) for new in batch)
    wanted = descriptor_budget.BUSY_PARTITION * min(count, threads)
    deadline = time.monotonic() + DESCRIPTORS_S
    while not _descriptors.relieve(wanted):
        if time.monotonic() > deadline:
            files = _descriptors.counters()
            others = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
            raise DescriptorsExhausted(
                f"{batch[0].topic}{others}: creating {count} partitions takes {wanted} "
                f"file descriptors at once, and logs that are in use hold {files['open']} of the "
                f"{files['most']} that they may have: raise LimitNOFILE of the service, or try "
                "again when fewer are written"
            )
        time.sleep(0.01)  # a commit closes unsynced files


def _open_all(where: LockedDir, batch: Iterable[NewPartitions], threads: int) -> None:
    """What is open of a topic that fails is taken back at the end."""
    wanted = [(new, *named) for new in batch if new.error is None for named in new.names.items()]

    def open_one(each: tuple[NewPartitions, int, str]) -> None:
        new, number, name = each
        try:
            new.logs[number] = where.open_log(name, new.config)[0]
        except ApplianceError as error:
            new.refuse(error)

    if min(len(wanted), threads) <= 1:
        for each in wanted:  # a thread of its own takes longer
            open_one(each)
        return
    with ThreadPoolExecutor(CREATION_THREADS, "creation") as pool:
        for done in [pool.submit(open_one, each) for each in wanted]:
            done.result()


def take_back(
    where: LockedDir,
    batch: Iterable[NewPartitions],
    names: Sequence[str],
    missing: Collection[str] = (),
) -> None:
    """What no topic was told of. Nothing of it needs room on the disk."""
    for new in batch:
        _let_go(new.logs.values())
        new.logs.clear()
    for name in names:
        remove(where.path / name)
    try:
        where.engine.forget_names([name for name in names if name not in missing])
    except ApplianceError as error:
        events.error("a failed creation is in the journal; the next start removes it",
                     error=error)  # fmt: skip


def _let_go(logs: Iterable[Log]) -> None:
    """Closes the files; no checkpoint that has begun adds them to the journal again."""
    for log in logs:
        log.close()
        log.settle_journal()
