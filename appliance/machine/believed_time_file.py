"""The believed time, kept in the data directory for the next start.

    file `clock`   two slots, at 0 and 4096, written in turn: a slot that a power cut tears fails
                   its CRC, and the other slot is a minute older
    slot           magic 8 bytes "APCLOCK2" | sequence i64 | believed wall clock ms i64 |
                   steady clock ms i64 | boot id, 36 characters of ASCII or zeros | flags u8 |
                   CRC-32C u32 of all before it

A thread writes it in place, into allocated blocks, once a minute and at a stop. So a full disk does
not stop it, and no commit waits for it. A directory without the file (of an older version, or with
a lost file) was last written at the time of its journal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from appliance._crc import crc32c
from appliance.machine.believed_time import Remembered, WallClock
from appliance.process import event_log
from appliance.process.owner_only import FILE_MODE

events = event_log.named("clock")

NAME = "clock"
MAGIC = b"APCLOCK2"
SLOT = struct.Struct(">8sqqq36sB")
HAS_GAP, WAS_KEPT_RIGHT = 1, 2
CRC = struct.Struct(">I")
SLOT_SIZE = 4096  # a block of disk and file system: writing one slot cannot damage the other
SLOTS = 2

STORE_MS = 60_000  # a kill loses at most this much; well below the step that raises a doubt

# Files that a broker writes all the time, and a person hardly ever.
WRITTEN_WITH_RECORDS = ("checkpoint.0", "checkpoint.1")

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """A new id after each boot. "": the kernel has none."""
    try:
        return BOOT_ID.read_text().strip()[:36]
    except OSError:
        return ""


def load(directory: Path) -> Remembered | None:
    """None: the directory has no belief yet."""
    newest = _newest(directory)
    return newest[1] if newest else _by_files(directory)


def _newest(directory: Path) -> tuple[int, Remembered] | None:
    try:
        data = (directory / NAME).read_bytes()[: SLOTS * SLOT_SIZE]
    except FileNotFoundError:
        return None
    except OSError as error:
        events.warning("the believed time cannot be read", path=directory / NAME,
                       error=error)  # fmt: skip
        return None
    slots = filter(None, (_parsed(data[i * SLOT_SIZE :]) for i in range(SLOTS)))
    return max(slots, default=None)


def is_sound(slot: bytes) -> bool:
    """Of any version: the last byte of its magic number says which."""
    if len(slot) < SLOT.size + CRC.size:
        return False
    (crc,) = CRC.unpack_from(slot, SLOT.size)
    return bool(crc == crc32c(slot[: SLOT.size]))


def _parsed(data: bytes) -> tuple[int, Remembered] | None:
    if not is_sound(data):
        return None
    magic, sequence, believed_ms, steady_ms, boot, flags = SLOT.unpack_from(data)
    if magic != MAGIC:
        return None
    boot_id = boot.rstrip(b"\0").decode("ascii")
    has_gap, was_kept_right = bool(flags & HAS_GAP), bool(flags & WAS_KEPT_RIGHT)
    return sequence, Remembered(believed_ms, steady_ms, boot_id, has_gap, was_kept_right)


def _by_files(directory: Path) -> Remembered | None:
    newest = max(_written_ms(directory / name for name in WRITTEN_WITH_RECORDS), default=None)
    return None if newest is None else Remembered(newest, 0, "")


def _written_ms(files: Iterable[Path]) -> Iterable[int]:
    for each in files:
        try:
            yield each.stat().st_mtime_ns // 1_000_000
        except OSError:
            continue


class BelievedClock:
    """The clock of one data directory. `keep` belongs to one thread at a time."""

    def __init__(self, directory: Path, clock: WallClock) -> None:
        self.clock = clock
        self._path = directory / NAME
        newest = _newest(directory)
        self.is_new = newest is None
        self._sequence = newest[0] if newest else 0
        self._stored_steady_ms: int | None = None
        self._failed = ""

    def keep(self, *, at_once: bool = False) -> None:
        """Stores the belief when it is due."""
        now, stored = self.clock.remember(), self._stored_steady_ms
        if not at_once and stored is not None and now.steady_ms - stored < STORE_MS:
            return
        self._stored_steady_ms = now.steady_ms
        try:
            self._store(now)
        except OSError as error:
            # An older belief only makes a doubt more likely at the next start.
            if self._failed != str(error):
                events.warning("the believed time cannot be stored", path=self._path,
                               error=error)  # fmt: skip
            self._failed = str(error)
        else:
            self._failed = ""

    def _store(self, now: Remembered) -> None:
        flags = HAS_GAP * now.has_gap + WAS_KEPT_RIGHT * now.was_kept_right
        data = SLOT.pack(MAGIC, self._sequence + 1, now.believed_ms, now.steady_ms,
                         now.boot_id.encode("ascii"), flags)  # fmt: skip
        data += CRC.pack(crc32c(data))
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if os.fstat(descriptor).st_size < SLOTS * SLOT_SIZE:
                self._make(descriptor)
            os.pwrite(descriptor, data, (self._sequence + 1) % SLOTS * SLOT_SIZE)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._sequence += 1

    def _make(self, descriptor: int) -> None:
        """Makes the blocks and the name durable before anything depends on them."""
        os.pwrite(descriptor, bytes(SLOTS * SLOT_SIZE), 0)
        os.fsync(descriptor)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
