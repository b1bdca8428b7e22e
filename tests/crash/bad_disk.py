"""A disk that dies, hangs, refuses some writes, and loses unflushed writes: a file in our own FUSE
file system, and a loop device over that file, which can have any file system.

    good       every write succeeds; a flush makes all writes before it safe
    dead       every read, write and flush fails with EIO
    still      a read returns only when the disk is good again
    spoiled    a number of writes fails with EIO if their bytes have a mark
    unreadable a read fails with EIO if its bytes have a mark

`cut_the_power` resets the disk to its safe content, and a random part of the unsafe sectors. As a
module it is the process of the file system: it reads commands as lines of JSON.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .build import TESTS

SECTOR = 4096  # a loop device over FUSE is written in pages
KINDS = ("ext4", "xfs", "btrfs")
MEGABYTES = {"ext4": 96, "xfs": 320, "btrfs": 160}  # near the minimum of each mkfs
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"], "xfs": ["mkfs.xfs", "-q", "-f"],
        "btrfs": ["mkfs.btrfs", "-q", "-f"]}
MOUNTED_SECONDS_MAX = 20.0


def why_not() -> str:
    """The reason why this machine cannot run it; empty if it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    devices = [each for each in ("/dev/loop-control", "/dev/fuse") if not os.path.exists(each)]
    if devices:
        return f"this kernel offers no {' and no '.join(devices)}"
    tools = ("fusermount3", "mount", "umount", "losetup", *(each[0] for each in MKFS.values()))
    missing = [tool for tool in tools if not shutil.which(tool)]
    return f"not installed: {', '.join(missing)}" if missing else ""


class BadDisk:
    """A bad disk with one kind of file system, mounted at `root`; `with` always unmounts it."""

    def __init__(self, place: Path, kind: str) -> None:
        self.kind = kind
        self.root, self._fuse = place / f"{kind}-root", place / f"{kind}-fuse"
        self._device = ""
        self._process: subprocess.Popen[str] | None = None
        self._size = MEGABYTES[kind] << 20
        self._image = place / f"{kind}.img"
        for each in (self.root, self._fuse):
            each.mkdir()

    def __enter__(self) -> BadDisk:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.bad_disk", self._fuse, self._image, str(self._size)],
            cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.tell()
        deadline = time.monotonic() + MOUNTED_SECONDS_MAX
        while not (self._fuse / "disk").exists():
            assert time.monotonic() < deadline, "the FUSE file system is not there"
            time.sleep(0.01)
        self._attach()
        _run(*MKFS[self.kind], self._device)
        self.mount()

    def tell(self, **command: Any) -> dict[str, int]:
        """Sends `command`. Returns the counters."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        answer: dict[str, int] = json.loads(process.stdout.readline())
        return answer

    def die(self) -> None:
        self.tell(mode="dead")

    def spoil(self, mark: bytes, times: int) -> None:
        """Makes the next `times` writes of bytes with `mark` fail."""
        self.tell(mode="spoiled", mark=mark.hex(), times=times)

    def refuse(self, mark: bytes) -> None:
        """Makes reads of bytes with `mark` fail."""
        self.tell(mode="unreadable", mark=mark.hex())

    def hang(self) -> None:
        self.tell(mode="still")

    def heal(self) -> None:
        self.tell(mode="good")

    def cut_the_power(self, seed: int, is_mounted: bool = True) -> None:
        """Cuts the power and mounts the file system again, which has to recover."""
        self.tell(mode="dead")
        if is_mounted:
            self.unmount()
        self._detach()
        self.tell(mode="good", cut=seed)
        self._attach()
        self.mount()

    def mount(self) -> None:
        _run("mount", "-t", self.kind, self._device, str(self.root))

    def unmount(self) -> None:
        _run("umount", str(self.root))

    def _attach(self) -> None:
        found = _run("losetup", "--find", "--show", "--direct-io=on", str(self._fuse / "disk"))
        self._device = found.strip()

    def _detach(self) -> None:
        _run("losetup", "--detach", self._device)
        deadline = time.monotonic() + MOUNTED_SECONDS_MAX
        # The device ends with its last user: a process that is being reaped, or udev.
        while _run("losetup", "--noheadings", "--list", "--output", "BACK-FILE",
                   "--associated", str(self._fuse / "disk")).strip():
            assert time.monotonic() < deadline, f"{self._device} is still in use"
            time.sleep(0.02)
        self._device = ""

    def __exit__(self, *_: object) -> None:
        for command in (["umount", "-l", self.root], ["losetup", "--detach", self._device],
                        ["umount", "-l", self._fuse]):
            subprocess.run(command, check=False, capture_output=True)
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
        self._image.unlink(missing_ok=True)


@contextmanager
def bad_disk(place: Path, kind: str) -> Iterator[BadDisk]:
    with BadDisk(place, kind) as disk:
        yield disk


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


# The process of the file system


class Sectors:
    """The content that the disk shows, and the part of it that is safe."""

    def __init__(self, image: Path, size: int) -> None:
        with image.open("wb") as file:
            file.truncate(size)
        self._file = image.open("r+b")
        self._safe = mmap.mmap(self._file.fileno(), size)
        self._shown = mmap.mmap(-1, size)
        self._unsafe: set[int] = set()
        self._guard = threading.Lock()
        self._mode, self._mark, self._times = "good", b"", 0
        self._moves = threading.Event()
        self._moves.set()
        self._counts = {"reads": 0, "writes": 0, "flushes": 0, "refused": 0, "spoiled": 0}

    def tell(self, command: dict[str, Any]) -> dict[str, int]:
        with self._guard:
            self._mode = command.get("mode", self._mode)
            (self._moves.clear if self._mode == "still" else self._moves.set)()
            self._mark = bytes.fromhex(command.get("mark", self._mark.hex()))
            self._times = command.get("times", self._times)
            if "cut" in command:
                self._cut(random.Random(command["cut"]))
            return dict(self._counts)

    def _cut(self, chance: random.Random) -> None:
        share = chance.random()
        for sector in sorted(self._unsafe):
            place = slice(sector * SECTOR, (sector + 1) * SECTOR)
            if chance.random() < share:
                self._safe[place] = self._shown[place]
            else:
                self._shown[place] = self._safe[place]
        self._unsafe.clear()

    def read(self, size: int, offset: int) -> bytes:
        self._moves.wait()
        with self._guard:
            self._refuse_when_dead("reads")
            found = self._shown[offset : offset + size]
            if self._mode == "unreadable" and self._mark in found:
                self._counts["refused"] += 1
                raise OSError(errno.EIO, "a bad sector")
            return found

    def write(self, data: bytes, offset: int) -> int:
        with self._guard:
            self._refuse_when_dead("writes")
            if self._mode == "spoiled" and self._times > 0 and self._mark in data:
                self._times -= 1
                self._counts["spoiled"] += 1
                raise OSError(errno.EIO, "a spoiled write")
            self._shown[offset : offset + len(data)] = data
            self._unsafe.update(range(offset // SECTOR, (offset + len(data) - 1) // SECTOR + 1))
            return len(data)

    def flush(self) -> None:
        with self._guard:
            self._refuse_when_dead("flushes")
            for sector in self._unsafe:
                place = slice(sector * SECTOR, (sector + 1) * SECTOR)
                self._safe[place] = self._shown[place]
            self._unsafe.clear()

    def _refuse_when_dead(self, what: str) -> None:
        self._counts[what] += 1
        if self._mode == "dead":
            self._counts["refused"] += 1
            raise OSError(errno.EIO, "the disk is dead")


def serve(mountpoint: str, image: str, size: int) -> None:
    import mfusepy

    sectors = Sectors(Path(image), size)

    class OneFile(mfusepy.Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
            if path != "/disk":
                raise mfusepy.FuseOSError(errno.ENOENT)
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": size}

        def open(self, path: str, fi: Any) -> int:
            fi.direct_io = 1  # no copy in the kernel: a request fails at once
            return 0

        def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
            return sectors.read(size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: Any) -> int:
            return sectors.write(data, offset)

        def fsync(self, path: str, datasync: int, fh: Any) -> int:
            sectors.flush()
            return 0

    def obey() -> None:
        for line in sys.stdin:
            print(json.dumps(sectors.tell(json.loads(line))), flush=True)

    threading.Thread(target=obey, daemon=True).start()
    mfusepy.FUSE(OneFile(), mountpoint, raw_fi=True, foreground=True, nothreads=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
