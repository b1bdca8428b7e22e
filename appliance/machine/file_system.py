"""The file system that holds the logs: whether it can be written, and what it counts of errors.

    ext4     errors_count: in its own structures since it was last checked; it survives mounts.
             What it does then (errors=remount-ro, panic, continue) was chosen when it was made
    btrfs    errors of each device, until `btrfs device stats -z`; a device that is missing
    XFS      counts nothing; after an error in its structures it shuts down, and every call fails

A file system that makes itself read-only says so by statvfs or, in newer kernels, only in the list
of mounts ("emergency_ro", "shutdown").
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
SHUT_DOWN = (errno.EIO, errno.ESHUTDOWN, errno.EUCLEAN)  # what calls answer then


@dataclass(frozen=True)
class FileSystem:
    kind: str = ""  # "": not known
    device: str = ""  # as the kernel calls it: sda1, dm-0
    is_read_only: bool = False
    stopped: str = ""  # why nothing works there
    errors: dict[str, int] = field(default_factory=dict)  # of its structures and devices
    last_error: str = ""
    missing: tuple[str, ...] = ()  # devices of it
    unseen: str = ""  # why nobody can say any of this

    def failures(self) -> Iterator[str]:
        name = f"{self.kind} on {self.device}" if self.device else "the file system of the logs"
        if self.unseen:
            yield (
                f"the directory of the logs cannot be looked at ({self.unseen}): whether anything "
                "can be written there is not known"
            )
        elif self.stopped:
            yield (
                f"{name} is shut down ({self.stopped}): nothing can be written or relied on; the "
                "kernel's log says why. It is to be unmounted and checked"
            )
        elif self.is_read_only:
            yield (
                f"{name} is mounted read-only, which the kernel does after an error: its log says "
                "why. The file system is to be unmounted and checked"
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
            next(entries, None)  # of a directory that is in memory stat alone would tell nothing
    except OSError as error:
        why = str(error.strerror or error)
        is_stopped = error.errno in SHUT_DOWN
        return FileSystem(stopped=why) if is_stopped else FileSystem(unseen=why)
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    mount = of_number(number, mounts)
    kind, source = (mount.kind, mount.source) if mount else ("", "")
    block = sys / "dev" / "block" / number
    # A source may be a link: of LVM and LUKS /dev/mapper/name is one to ../dm-0.
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
    """Summed over its devices; an error of one is mended from others or is not."""
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
