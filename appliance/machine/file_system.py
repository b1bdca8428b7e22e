"""The file system of the logs: whether it can be written, and its error counters.

    ext4     errors_count: errors in its structures since the last check; survives mounts. Its
             reaction (errors=remount-ro, panic, continue) was chosen at its creation
    btrfs    errors of each device, until `btrfs device stats -z`; a device that is missing
    XFS      has no counter; after an error in its structures it shuts down, and every call fails

A read-only file system shows in statvfs or, with newer kernels, only in the list of mounts
("emergency_ro", "shutdown").
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from appliance.machine.devices import SYS
from appliance.machine.mounts import MOUNTS, of_number
from appliance.process.spoken import moment

STOPPED = ("emergency_ro", "shutdown")  # among a mount's options
SHUT_DOWN = (errno.EIO, errno.ESHUTDOWN, errno.EUCLEAN)  # the errors of calls after a shutdown


@dataclass(frozen=True)
class FileSystem:
    kind: str = ""  # "": not known
    device: str = ""  # as the kernel calls it: sda1, dm-0
    is_read_only: bool = False
    stopped: str = ""  # why it stopped
    errors: dict[str, int] = field(default_factory=dict)  # in its structures and devices
    last_error: str = ""
    missing: tuple[str, ...] = ()  # missing devices
    unseen: str = ""  # why its state is unknown

    def failures(self) -> Iterator[str]:
        name = f"{self.kind} on {self.device}" if self.device else "the file system of the logs"
        if self.unseen:
            yield (
                f"the directory of the logs cannot be read ({self.unseen}): whether anything "
                "can be written to it is unknown"
            )
        elif self.stopped:
            yield (
                f"{name} is shut down ({self.stopped}): nothing can be written or relied on; the "
                "kernel's log says why. Unmount and check the file system"
            )
        elif self.is_read_only:
            yield (
                f"{name} is mounted read-only, which the kernel does after an error: its log says "
                "why. Unmount and check the file system"
            )

    def warnings(self) -> Iterator[str]:
        name = f"{self.kind} on {self.device}"
        if self.errors:
            counts = ", ".join(f"{count} {what}" for what, count in self.errors.items())
            last = f" (the last {self.last_error})" if self.last_error else ""
            then = "unmount and check it" if self.kind == "ext4" else "look at its disks"
            yield f"{name} counts errors: {counts}{last}; {then}"
        for each in self.missing:
            yield f"{name} lacks a device (id {each}): redundancy is less, or data is gone"


def look(directory: Path, sys: Path = SYS, mounts: Path = MOUNTS) -> FileSystem:
    try:
        status = os.stat(directory)
        is_read_only = bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
        with os.scandir(directory) as entries:
            next(entries, None)  # in a directory in memory stat alone proves nothing
    except OSError as error:
        why = str(error.strerror or error)
        is_stopped = error.errno in SHUT_DOWN
        return FileSystem(stopped=why) if is_stopped else FileSystem(unseen=why)
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    mount = of_number(number, mounts)
    kind, source = (mount.kind, mount.source) if mount else ("", "")
    block = sys / "dev" / "block" / number
    # A source may be a link: LVM and LUKS link /dev/mapper/name to ../dm-0.
    by_source = Path(source).resolve().name if source else ""
    device = block.resolve().name if block.exists() else by_source
    stopped = next((each for each in STOPPED if mount and each in mount.options), "")
    if kind == "ext4":
        errors, last = _of_ext4(sys / "fs" / "ext4" / device)
        return FileSystem(kind, device, is_read_only, stopped, errors, last)
    if kind == "btrfs":
        errors, missing = _of_btrfs(sys, device)
        return FileSystem(kind, device, is_read_only, stopped, errors, missing=missing)
    return FileSystem(kind, device, is_read_only, stopped)


def _of_ext4(folder: Path) -> tuple[dict[str, int], str]:
    count = _number(folder / "errors_count")
    if not count:
        return {}, ""
    when, where = _number(folder / "last_error_time"), _text(folder / "last_error_func")
    return {"in its structures": count}, f"{moment(when * 1000)} in {where}" if where else ""


def _of_btrfs(sys: Path, device: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Sums over the devices; another device may have repaired an error of one."""
    errors: dict[str, int] = {}
    missing = []
    for own in sys.glob(f"fs/btrfs/*/devices/{device}"):
        for each in sorted((own.parent.parent / "devinfo").glob("*")):
            if _number(each / "missing"):
                missing.append(each.name)
            for line in _text(each / "error_stats").splitlines():
                what, _, count = line.partition(" ")
                if count.strip().isdigit() and int(count):
                    name = what.removesuffix("_errs") + " errors"
                    errors[name] = errors.get(name, 0) + int(count)
    return errors, tuple(missing)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _number(file: Path) -> int:
    text = _text(file)
    return int(text) if text.isdigit() else 0
