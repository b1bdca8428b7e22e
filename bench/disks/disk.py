"""A simulated disk or array (`simulated_disk.c`) below a real file system.

The program shows a file that takes the time of spinning disks; a loop device over it is the disk,
and ext4 is on that. So the page cache, the elevator and the flushes are the kernel's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
MODEL = ("settings.c", "array.c", "platter.c")
NEEDED = {"cc": "gcc", "pkg-config": "pkg-config", "fusermount3": "fuse3", "losetup": "mount",
          "mkfs.ext4": "e2fsprogs", "fio": "fio"}
PATIENCE_S = 60
DIRTY_BYTES = 128 << 20  # unwritten, at most: a run is too short to fill the memory, as days would
Told = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What is simulated, as words of the program."""

    name: str
    words: tuple[str, ...]
    members: int = 1
    line_kib: int = 0  # of a stripe without its parity; 0: no stripes

    def command(self, program: Path, mountpoint: Path, megabytes: int, slower: int) -> list[str]:
        return [str(program), str(mountpoint), str(megabytes), *self.words, f"slower={slower}"]


SATA = Kind("one SATA disk", ())
SATA_UNCACHED = Kind("one SATA disk, write cache off", ("cache_mib=0",))
RAID5 = Kind("RAID-5 of six", ("level=5", "members=6", "stripe_cache=4096"), 6, 5 * 512)
RAID5_SMALL = Kind("RAID-5 of six, stripe cache of 256", ("level=5", "members=6"), 6, 5 * 512)
RAID5_UNCACHED = Kind("RAID-5 of six, write cache off",
                      ("level=5", "members=6", "stripe_cache=4096", "cache_mib=0"), 6, 5 * 512)
RAID10 = Kind("RAID-10 of six", ("level=10", "members=6"), 6, 3 * 512)
KINDS = {"sata": SATA, "sata-uncached": SATA_UNCACHED, "raid5": RAID5, "raid5-small": RAID5_SMALL,
         "raid5-uncached": RAID5_UNCACHED, "raid10": RAID10}


def missing() -> str:
    """What this machine lacks, in words; empty if it has all."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not os.path.exists(device):
            return f"this kernel offers no {device}"
    absent = sorted({package for tool, package in NEEDED.items() if not shutil.which(tool)})
    if shutil.which("pkg-config") and not has_libfuse():
        absent.append("libfuse3-dev")
    return f"not installed: apt-get install {' '.join(absent)}" if absent else ""


def has_libfuse() -> bool:
    return subprocess.run(["pkg-config", "--exists", "fuse3"], check=False).returncode == 0


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def build(folder: Path) -> Path:
    flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
    return compiled(folder, "simulated_disk", *flags)


def build_replay(folder: Path) -> Path:
    """The model alone."""
    return compiled(folder, "replay")


def compiled(folder: Path, name: str, *flags: str) -> Path:
    sources = [HERE / each for each in (f"{name}.c", *MODEL)]
    run(os.environ.get("CC", "cc"), "-O2", "-o", folder / name, *sources, *flags, "-lm")
    return folder / name


class SimulatedDisk:
    """`with` gives a device at `device`; `format` and `mount` make it a folder, `root`."""

    def __init__(self, kind: Kind, megabytes: int, slower: int = 1,
                 place: Path | None = None) -> None:
        self.kind, self.slower = kind, slower
        self._megabytes = megabytes
        self._place = Path(tempfile.mkdtemp(prefix="disks-", dir=place))
        self._fuse, self.root = self._place / "fuse", self._place / "root"
        self.device = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        self._fuse.mkdir()
        self.root.mkdir()
        program = build(self._place)
        # A session of its own: Ctrl-C must not end it before what is mounted on it.
        self._process = subprocess.Popen(
            self.kind.command(program, self._fuse, self._megabytes, self.slower),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._wait_for(lambda: (self._fuse / "disk").exists(), "the simulated disk")
        self.device = run("losetup", "--find", "--show", "--direct-io=on",
                          self._fuse / "disk").strip()
        for name, value in (("rotational", 1), ("scheduler", "mq-deadline")):
            self.set(name, value)
        for name, value in (("strict_limit", 1), ("max_bytes", DIRTY_BYTES)):
            Path("/sys/class/bdi", self._numbers(), name).write_text(str(value))

    def _numbers(self) -> str:
        number = os.stat(self.device).st_rdev
        return f"{os.major(number)}:{os.minor(number)}"

    def _wait_for(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{what} is not there")
            time.sleep(0.02)

    def set(self, name: str, value: int | str) -> None:
        """A setting of the block device, such as `read_ahead_kb`."""
        Path("/sys/block", Path(self.device).name, "queue", name).write_text(str(value))

    def told(self, line: str = "tell") -> Told:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer: Told = json.loads(self._process.stdout.readline())
        return answer

    def slow_down(self, slower: int) -> None:
        self.slower = slower
        self.told(f"slower {slower}")

    def format(self) -> None:
        words = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E"]
        chunk = 512 // 4
        raid = f",stride={chunk},stripe_width={self.kind.line_kib // 4}"
        run(*words, "lazy_itable_init=0,lazy_journal_init=0" +
            (raid if self.kind.line_kib else ""), self.device)

    def mount(self, options: str = "") -> None:
        words = ",".join(filter(None, ("noatime", options)))
        run("mount", "-t", "ext4", "-o", words, self.device, self.root)

    def unmount(self) -> None:
        run("umount", self.root)

    def forget_cache(self) -> None:
        """Later reads come from the disk. Other file systems keep their cache."""
        with self.at_full_speed():
            run("sync", "--file-system", self.root)
        for folder, _, names in os.walk(self.root):
            for name in names:
                forget(Path(folder, name))

    @contextmanager
    def at_full_speed(self) -> Iterator[None]:
        """For what is not measured."""
        usual = self.slower
        self.slow_down(1)
        try:
            yield
        finally:
            self.slow_down(usual)

    def __exit__(self, *_: object) -> None:
        commands: Sequence[list[str | Path]] = (["umount", self.root],
                                               ["losetup", "--detach", self.device])
        for command in commands:
            subprocess.run(command, check=False, capture_output=True)
        if self._process:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE_S)
            self._process.stdout.close()
        subprocess.run(["umount", "-l", self._fuse], check=False, capture_output=True)
        shutil.rmtree(self._place, ignore_errors=True)


def forget(path: Path) -> None:
    try:
        opened = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # a broker deletes what belonged to a topic
    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(opened)


def apart(before: Told, after: Told) -> Told:
    """What happened between two answers."""
    return {name: apart(before[name], value) if isinstance(value, dict)
            else value if name in ("members", "slower") else value - before[name]
            for name, value in after.items()}
