"""A small real ext4 on a loop device, and the ioctl that stops it as a power cut would."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125  # _IOR('X', 125, u32): ext4, XFS, f2fs
NO_LOG_FLUSH = 2  # stops all writes to the disk, even of the journal


def why_not() -> str:
    """The reason why this machine cannot run it; empty if it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    if not os.path.exists("/dev/loop-control"):
        return "this kernel offers no loop devices"
    missing = [
        tool for tool in ("mkfs.ext4", "mount", "umount", "losetup") if not shutil.which(tool)
    ]
    return f"not installed: {', '.join(missing)}" if missing else ""


class LoopDisk:
    """A mounted image file; `with` always unmounts it."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self.image, self.root = place / "disk.img", place / "disk"
        self.root.mkdir()
        with self.image.open("wb") as image:
            image.truncate(megabytes << 20)
        self.format()

    def format(self) -> None:
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(self.image)], check=True)

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.root)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.root)], check=True)

    def cut_the_power(self) -> None:
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    def __enter__(self) -> LoopDisk:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.root)], check=False, capture_output=True)
