"""The block devices below a directory: partition, LUKS, LVM, arrays, down to disks.

The kernel lists the devices below each device in /sys/dev/block. A file system of several devices,
or one with an invented device number (btrfs), is looked up in the list of mounts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from appliance.machine.mounts import MOUNTS, of_number

SYS = Path("/sys")


def beneath(directory: Path, sys: Path = SYS, mounts: Path = MOUNTS) -> frozenset[str] | None:
    """Their names. None: unknown, as for a network file system."""
    return frozenset(folders_beneath(directory, sys, mounts)) or None


def folders_beneath(directory: Path, sys: Path = SYS, mounts: Path = MOUNTS) -> dict[str, Path]:
    """By name the kernel's folder of each, from the file system down to the disks."""
    try:
        device = os.stat(directory).st_dev
    except OSError:
        return {}
    folders: dict[str, Path] = {}
    for start in _starts(f"{os.major(device)}:{os.minor(device)}", sys, mounts):
        _walk(start, folders)
    return folders


def _starts(number: str, sys: Path, mounts: Path) -> Iterator[Path]:
    own = sys / "dev" / "block" / number
    if own.exists():
        yield own.resolve()
        return
    mount = of_number(number, mounts)
    if mount is None or not mount.source.startswith("/dev/"):
        return
    source = Path(mount.source).resolve()
    for device in sys.glob(f"fs/btrfs/*/devices/{source.name}"):
        yield from (each.resolve() for each in device.parent.iterdir())
        return
    try:
        made = os.stat(source).st_rdev
    except OSError:
        return
    disk = sys / "dev" / "block" / f"{os.major(made)}:{os.minor(made)}"
    if disk.exists():
        yield disk.resolve()


def _walk(device: Path, folders: dict[str, Path]) -> None:
    if device.name in folders:
        return
    folders[device.name] = device
    if (device / "partition").exists():
        _walk(device.parent, folders)  # a partition's folder is in its disk's folder
    if (device / "loop" / "backing_file").exists():
        backing = Path((device / "loop" / "backing_file").read_text().strip())
        folders |= folders_beneath(backing.parent)
    slaves = device / "slaves"
    if slaves.is_dir():
        for each in sorted(slaves.iterdir()):
            _walk(each.resolve(), folders)
