"""Copies a partition's files into another directory of records while it is written to, and puts the
copy in its place.

    copy      `<topic>-<partition>.<hex>-future` in the target gets what the log has, round by round
    switch    the log is closed, and clients come again; the last bytes; the journal of the target;
              the name; the catalog's row, which decides; the new log is opened, the old one deleted

Whatever is interrupted before the row is done again from its beginning, and after it is finished:
`LogDirs.settle_moves`. All of it blocks.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir import durable_directories
from appliance.data_dir.durable_directories import storage_error
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, StorageFull, StorageIoFailed
from appliance.process import event_log
from appliance.process.owner_only import FILE_MODE, make_directory
from appliance.process.spoken import size

events = event_log.named("moves")

CHUNK = 1 << 20
LITTLE = 1 << 20  # copied while nobody can write: some milliseconds
MUCH = 16 << 20  # the same, of a partition that is written to nearly as fast as it is copied
ROUNDS_MAX = 20  # by the rate that is set; as many again as fast as it goes

_FUTURE = re.compile(r"(.+-\d{1,5})\.[0-9a-f]{32}-future")
_SEGMENT = re.compile(r"(\d{20})\.log")
_PASSING = (".swap", ".cleaned", ".new", ".deleted")  # of work that is under way


class MoveTooSlow(ApplianceError):
    kafka_code = 56


class MoveCancelled(ApplianceError):
    """Somebody wants it elsewhere, or nowhere, or the broker stops."""

    kafka_code = 56


class Stamp(NamedTuple):
    """By which a file that was copied is known to be the same."""

    inode: int
    modified_ns: int
    size: int


def futures_in(directory: Path) -> list[Path]:
    """What moves that did not end have left."""
    return [each for each in directory.iterdir() if _FUTURE.fullmatch(each.name)]


class PartitionMove:
    def __init__(
        self,
        log: Log,
        source: LogDir,
        target: LogDir,
        bytes_per_s: Callable[[], int],
        is_cancelled: threading.Event,
    ) -> None:
        self.log = log
        self.source = source
        self.target = target
        self.folder = target.path / f"{log.name}.{secrets.token_hex(16)}-future"
        self.has_left = False  # a copy that has its name, and could not be taken back
        self.copied_bytes = 0
        self.offset = log.log_start_offset  # up to which the last round copied
        self._bytes_per_s = bytes_per_s
        self._is_cancelled = is_cancelled
        self._stamps: dict[str, Stamp] = {}
        self._active = -1  # the active segment of the last round, open
        self._began = time.monotonic()

    @property
    def _placed(self) -> Path:
        return self.target.path / self.log.name

    # Copying

    def begin(self, *, was_left: bool = False) -> None:
        """`was_left`: by an attempt before this one."""
        self._check_room()
        self._settle_target()
        try:
            is_open = self.target.holds(self.log.topic, self.log.partition)
            if was_left and not is_open and self._placed.exists():
                self._placed.rename(self.folder)
                shutil.rmtree(self.folder)
            make_directory(self.folder)
        except OSError as error:
            raise storage_error(error, f"{self.folder} cannot be made") from error

    def _check_room(self) -> None:
        wanted, low = self.log.size, self.target.config.low_water_bytes
        if self.target.free_bytes < wanted + low:
            raise StorageFull(
                f"{self.log.name}: {self.target.path} has {size(self.target.free_bytes)} free, "
                f"wanted {size(wanted)} and {size(low)} that stay free"
            )

    def copy(self) -> None:
        """Until little is left, and all before it is on disk."""
        left = 0
        for number in range(2 * ROUNDS_MAX):
            left = self.round(is_paced=number < ROUNDS_MAX)
            self.sync()
            if left <= LITTLE:
                return
            self._check_cancelled()
        if left > MUCH:
            raise MoveTooSlow(
                f"{self.log.name}: it is written to faster than it can be copied, {size(left)} "
                "while as much was copied"
            )

    def round(self, is_paced: bool = True) -> int:
        """What changed since the last one; how many bytes that was."""
        before = self.copied_bytes
        end_offset = self.log.log_end_offset
        try:
            found = dict(self._files())
            for name in self._stamps.keys() - found.keys():
                (self.folder / name).unlink(missing_ok=True)
                del self._stamps[name]
            active = max((each for each in found if _SEGMENT.fullmatch(each)), default="")
            for name in sorted(found):  # what was active before comes before what is
                self._copy_file(name, found[name], is_paced, is_active=name == active)
        except OSError as error:
            raise storage_error(error, f"{self.log.name} cannot be copied to {self.target.path}"
                                ) from error  # fmt: skip
        self.offset = end_offset
        return self.copied_bytes - before

    def _files(self) -> Iterator[tuple[str, Stamp]]:
        """Those of the log with their sizes: of segments what is whole."""
        sizes = {each.base_offset: each.size for each in self.log.segments()}
        with os.scandir(self.log.directory) as entries:
            for entry in entries:
                if entry.name.endswith(_PASSING) or not entry.is_file(follow_symlinks=False):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # retention was faster
                length = status.st_size
                if segment := _SEGMENT.fullmatch(entry.name):
                    if int(segment[1]) not in sizes:
                        continue
                    length = min(length, sizes[int(segment[1])])
                yield entry.name, Stamp(status.st_ino, status.st_mtime_ns, length)

    def _copy_file(self, name: str, wanted: Stamp, is_paced: bool, is_active: bool) -> None:
        if self._stamps.get(name) == wanted:
            return
        try:
            source = os.open(f"{self.log.directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self._copy_from(source, name, wanted, is_paced)
            if is_active:
                self._hold(os.dup(source))
        finally:
            os.close(source)
        self._stamps[name] = wanted

    def _copy_from(self, source: int, name: str, wanted: Stamp, is_paced: bool) -> None:
        start = self._copied_of(name, source, wanted)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        target = os.open(self.folder / name, flags, FILE_MODE)
        try:
            os.ftruncate(target, start)
            self._copy_bytes(source, target, start, wanted.size, is_paced)
            self._sync_file(target)
        finally:
            os.close(target)

    def _sync_file(self, target: int) -> None:
        """By the descriptor that wrote it: of what cannot be written back one that is opened later
        may never be told."""
        os.fsync(target)
        # Nobody reads it soon: what clients read stays in the page cache.
        os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)

    def _copied_of(self, name: str, source: int, wanted: Stamp) -> int:
        """The active segment grows at its end; whatever else changed is another file. Compaction
        puts new files in the place of old ones, and inodes are used again: what is the same file is
        only known while it is open."""
        known = self._stamps.get(name)
        if known is None or self._active < 0 or known.size > wanted.size:
            return 0
        is_same = os.path.samestat(os.fstat(self._active), os.fstat(source))
        return known.size if is_same else 0

    def _hold(self, descriptor: int) -> None:
        before, self._active = self._active, descriptor
        if before >= 0:
            os.close(before)

    def _copy_bytes(
        self, source: int, target: int, start: int, end: int, is_paced: bool
    ) -> None:
        while start < end:
            if is_paced:
                self._check_cancelled()
            data = os.pread(source, min(CHUNK, end - start), start)
            if not data:
                return  # a file that is no segment's became shorter
            # Where the disk has room for a part of it that is written, and the next one says so.
            written = os.pwrite(target, data, start)
            start += written
            self.copied_bytes += written
            if is_paced:
                self._pause()

    def _check_cancelled(self) -> None:
        is_let_go = self.source.is_let_go or self.target.is_let_go
        if self._is_cancelled.is_set() or is_let_go:
            raise MoveCancelled(f"{self.log.name}: the move is cancelled")

    def _pause(self) -> None:
        rate = self._bytes_per_s()
        if rate > 0:
            ahead_s = self.copied_bytes / rate - (time.monotonic() - self._began)
            if ahead_s > 0:
                self._is_cancelled.wait(min(ahead_s, 1.0))

    def sync(self) -> None:
        """The names: each file was synced when it was written."""
        try:
            durable_directories.sync_name(self.folder)
        except OSError as error:
            raise storage_error(error, f"{self.folder} cannot be synced") from error

    def discard(self) -> None:
        self._hold(-1)
        shutil.rmtree(self.folder, ignore_errors=True)

    # The switch

    def switch(self, decide: Callable[[], None], config: LogConfig) -> Log:
        """Between two changes of topics. `decide` writes the row."""
        self._settle_target()
        self.source.checkpoint()  # recovery in the target reads what comes after it
        self.log.flush()
        self._check_files()
        key = (self.log.topic, self.log.partition)
        with self.log.directory_held():
            try:
                self._close_and_put(decide)
            except BaseException:
                self._take_back(config)
                raise
        new = self.target.adopt(*key, config)
        try:
            self.source.delete(*key)
        except ApplianceError as error:  # the move's row stays, by which it is deleted later
            events.warning("the old log of a move stays for now", log=self.log.name, error=error)
        return new

    def _settle_target(self) -> None:
        """It may have to forget a former log of this name yet; later that would be this one. And a
        move from there may have left the old log: its files under the checkpoint of this one would
        be read as damage."""
        self.target.settle()
        if self.target.holds(self.log.topic, self.log.partition):
            raise StorageIoFailed(f"{self._placed} is there yet, of a move before")

    def _check_files(self) -> None:
        """One that somebody deleted is there while the log is open, and can be repaired."""
        gone = {each.path for each in self.log.segments() if not Path(each.path).exists()}
        for path in sorted(gone & {each.path for each in self.log.segments()}):
            raise StorageIoFailed(f"{path} is gone: repair the partition before it is moved")

    def _close_and_put(self, decide: Callable[[], None]) -> None:
        name = self.log.name
        self.log.close()
        self.log.settle()
        if self.log.failed is not None:
            raise MoveCancelled(f"{name}: {self.log.failed_text}")
        self.round(is_paced=False)
        self.sync()
        self.target.engine.forget_names([name])
        self.target.engine.take_over(self.log)
        try:
            self.folder.rename(self._placed)
        except OSError as error:
            raise storage_error(error, f"{self.folder} cannot be renamed") from error
        self.target.engine.sync_directory()
        decide()

    def _take_back(self, config: LogConfig) -> None:
        """Nothing was decided: the old log is the log, also when the target's disk died."""
        try:
            if self._placed.exists():
                self._placed.rename(self.folder)
                self.target.engine.sync_directory()
            self.target.engine.forget_names([self.log.name])
        except (ApplianceError, OSError) as error:
            self.has_left = True
            events.warning("what a move left stays for now", path=self.target.path, error=error)
        finally:
            self.source.reopen_closed(self.log.topic, self.log.partition, config)
