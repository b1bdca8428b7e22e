"""A life over a disk that refuses some writes, with every order of append, commit, roll, rest,
restart and power cut. All acknowledged records, and all records that a start has served since, must
survive. While health reports no problem, all of them are readable at once, and writes succeed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError
from appliance.record import _batch, _batch_builder

from .bad_disk import BadDisk
from .told import told

MARK = b"<spoil>"
LOGS = 4
STARTS_MAX = 3  # one for each write error that no descriptor has reported yet
CONFIG = LogConfig(segment_bytes=40_000, retention_ms=-1)
LIBC = ctypes.CDLL(None, use_errno=True)


def storage(sync: str) -> StorageConfig:
    return StorageConfig(sync=sync, checkpoint_interval_ms=3_600_000, reserve_bytes=0,
                         low_water_bytes=0, write_behind_bytes=8192)


def batch(value: bytes) -> bytes:
    return _batch_builder.batch([(1_700_000_000_000, b"k", value)])


def served(log: Any, holes: Mapping[int, int] | None = None) -> dict[int, bytes]:
    """The records up to the first gap; it skips `holes` (end by begin)."""
    found: dict[int, bytes] = {}
    offset = log.log_start_offset
    while data := log.read(offset := (holes or {}).get(offset, offset), 1 << 20):
        for record in _batch.records(data):
            found[record.offset] = record.value or b""
        offset = max(found) + 1
    return found


def files(folder: Path) -> Iterator[int]:
    for each in sorted(folder.glob("*.log")):
        fd = os.open(each, os.O_RDONLY)
        try:
            yield fd
        finally:
            os.close(fd)


def read_ahead(folder: Path) -> None:
    """Like the kernel, which reads folios that are larger than a page."""
    for fd in files(folder):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        while os.read(fd, 16384):
            pass


class Life:
    def __init__(self, disk: BadDisk, sync: str, seed: int) -> None:
        self.disk, self.sync = disk, sync
        self.chance = random.Random(seed)
        self.promised: list[dict[int, bytes]] = [{} for _ in range(LOGS)]
        # What a start entered into the ledger: where the watermarks are lost nobody knows whether a
        # torn write was acknowledged. Here it is known: then its offset is missed below.
        self.entered: list[dict[int, int]] = [{} for _ in range(LOGS)]
        self.wrong: list[str] = []
        self.done: list[str] = []
        self.acknowledged = 0
        self.log_dir: Any = None  # None between two lives
        self.open()
        for number in range(LOGS):
            self.log_dir.create("t", number, CONFIG)

    @property
    def path(self) -> Path:
        return self.disk.root / "data"

    def open(self) -> None:
        self.log_dir = LogDir.open(self.path, storage(self.sync), log_config=lambda *_: CONFIG)
        for each in self.log_dir.report.losses:
            self.entered[each.partition][each.first_offset] = each.last_offset + 1

    # Events

    def append(self, number: int) -> None:
        value = MARK + b"%d:" % self.chance.getrandbits(60) + bytes(self.chance.randrange(9000))
        log = self.log_dir.log("t", number)
        try:
            appended = log.append(batch(value))
            if self.chance.random() < 0.6:
                log.await_durable(appended.last_offset)
                self.promised[number][appended.base_offset] = value
                self.acknowledged += 1
        except ApplianceError:
            pass  # refused, so nothing was promised

    def together(self, number: int) -> None:
        """Many commits at once, which may become one sync of the file system."""
        waits = []
        for each in range(LOGS):
            log = self.log_dir.log("t", each)
            value = MARK + b"%d" % self.chance.getrandbits(60)
            try:
                waits.append((each, log, log.append(batch(value)).last_offset, value))
                log.ask_commit()
            except ApplianceError:
                continue
        for each, log, offset, value in waits:
            try:
                log.await_durable(offset)
            except ApplianceError:
                continue
            self.promised[each][offset] = value
            self.acknowledged += 1

    def look(self, number: int) -> None:
        """All that health does not report is readable and writable."""
        refused = self.log_dir.engine.read_faults[0]
        try:
            found = served(self.log_dir.log("t", number), self.entered[number])
        except ApplianceError as error:
            if self.log_dir.engine.read_faults[0] > refused:
                return  # noted: health names the segment until it was verified (`refused_reads.py`)
            self._must_be_told(f"t-{number} cannot be read: {error!r}")
            return
        lost = [each for each, value in self.promised[number].items() if found.get(each) != value]
        if lost:
            self._must_be_told(f"t-{number}: offsets {lost} are not served")
        errors = [self._refusal(number) for _ in range(2)]
        if all(errors):  # one may be a temporary write error
            self._must_be_told(f"t-{number} takes no write: {errors}")

    def _refusal(self, number: int) -> str:
        try:
            self.log_dir.log("t", number).append_durable(batch(b"looked"))
        except ApplianceError as error:
            return repr(error)
        return ""

    def _must_be_told(self, what: str) -> None:
        if not told(self.log_dir):
            self.wrong.append(f"{what}, and health says nothing, behind {self.done[-12:]}")

    def roll(self, number: int) -> None:
        with contextlib.suppress(ApplianceError):
            self.log_dir.log("t", number).roll()

    def rest(self, number: int) -> None:
        self.log_dir.rest(0)

    def checkpoint(self, number: int) -> None:
        with contextlib.suppress(ApplianceError):
            self.log_dir.checkpoint()

    def neighbour(self, number: int) -> None:
        """A sync of another program gets the error first."""
        with contextlib.suppress(OSError):
            for fd in files(self.path / f"t-{number}"):
                if LIBC.syncfs(fd) == 0:
                    os.fsync(fd)

    def read_ahead(self, number: int) -> None:
        with contextlib.suppress(OSError):  # the file system failed and must be mounted again
            read_ahead(self.path / f"t-{number}")

    def spoil(self, number: int) -> None:
        self.disk.spoil(MARK, self.chance.randrange(1, 4))

    def restart(self, number: int) -> None:
        self.let_go(cleanly=self.chance.random() < 0.3)
        if not self._is_started():
            gc.collect()
            self.cut(number)

    def _is_started(self) -> bool:
        """If not, the file system failed: remounted once no frame of the error holds it."""
        try:
            self.start_again("restart")
        except (ApplianceError, OSError):
            return False
        return True

    def cut(self, number: int) -> None:
        if self.log_dir is not None:
            self.let_go(cleanly=False)
        self.disk.cut_the_power(self.chance.getrandbits(30))
        self.start_again("power cut")

    # Stops and starts

    def let_go(self, cleanly: bool) -> None:
        try:
            if cleanly:
                self.log_dir.close()
            else:
                self.log_dir.abandon()
        except ApplianceError:
            self.log_dir.abandon()
        self.log_dir = None
        gc.collect()

    def start_again(self, after: str) -> None:
        self.disk.heal()
        self.open()
        for _ in range(STARTS_MAX):
            if not self.log_dir.unopened:
                break
            self.let_go(cleanly=False)
            self.open()  # the error was reported once
        for number in range(LOGS):
            self.compare(number, after)

    def compare(self, number: int, after: str) -> None:
        try:
            found = served(self.log_dir.log("t", number), self.entered[number])
        except ApplianceError as error:
            self.wrong.append(f"t-{number} after a {after}: {error!r}")
            return
        for offset, value in self.promised[number].items():
            if found.get(offset) != value:
                self.wrong.append(f"t-{number} after a {after}: offset {offset} is lost, behind "
                                  f"{self.done[-12:]}")
        # Readers rely on it from now on.
        self.promised[number] = found

    def run(self, steps: int) -> list[str]:
        likely: list[tuple[Callable[[int], None], int]] = [
            (self.append, 30), (self.together, 8), (self.roll, 5), (self.rest, 8),
            (self.checkpoint, 4), (self.neighbour, 5), (self.read_ahead, 5), (self.spoil, 8),
            (self.restart, 6), (self.cut, 3), (self.look, 8),
        ]
        acts, weights = zip(*likely, strict=True)
        for _ in range(steps):
            act = self.chance.choices(acts, weights)[0]
            number = self.chance.randrange(LOGS)
            self.done.append(f"{act.__name__} {number}")
            act(number)
        self.cut(0)
        self.let_go(cleanly=True)
        return self.wrong
