"""The file system of the logs: what the kernel counts against it, and when it takes no writes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.machine import file_system
from appliance.machine.file_system import FileSystem
from appliance.machine.watch import Machine


class Kernel:
    """What it shows of the file system that holds `directory`, which is really another."""

    def __init__(self, root: Path, kind: str, device: str, options: str = "rw") -> None:
        self.directory, self.sys, self.mounts = root / "data", root / "sys", root / "mounts"
        self.directory.mkdir(parents=True)
        number = os.stat(self.directory).st_dev
        found = f"{os.major(number)}:{os.minor(number)}"
        self.mounts.write_text(
            f"20 1 0:1 / / rw - ext4 /dev/other rw\n"
            f"21 1 {found} / /data rw,relatime shared:1 - {kind} /dev/{device} {options}\n"
        )
        blocks = self.sys / "dev" / "block"
        blocks.mkdir(parents=True)
        if kind != "btrfs":  # its device number is its own invention
            own = self.sys / "devices" / device
            own.mkdir(parents=True)
            (blocks / found).symlink_to(own)

    def shows(self, name: str, text: str) -> None:
        file = self.sys / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    @property
    def found(self) -> FileSystem:
        return file_system.look(self.directory, self.sys, self.mounts)


def test_one_that_is_well_says_nothing(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "ext4", "sda1")
    kernel.shows("ext4/sda1/errors_count", "0")
    found = kernel.found
    assert (found.kind, found.device) == ("ext4", "sda1")
    assert [*found.failures(), *found.warnings()] == []


def test_ext4_counts_errors_in_its_structures(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "ext4", "dm-3")
    kernel.shows("ext4/dm-3/errors_count", "2")
    kernel.shows("ext4/dm-3/last_error_time", "1700000000")
    kernel.shows("ext4/dm-3/last_error_func", "ext4_lookup")
    assert list(kernel.found.warnings()) == [
        "ext4 on dm-3 counts errors: 2 in its structures (the last 2023-11-14 22:13:20Z in "
        "ext4_lookup); unmount and check it"
    ]


@pytest.mark.parametrize("option", ["emergency_ro", "shutdown"])
def test_one_that_stopped_itself_is_failing(tmp_path: Path, option: str) -> None:
    (text,) = Kernel(tmp_path, "ext4", "sda1", f"rw,{option},data=ordered").found.failures()
    assert text.startswith(f"ext4 on sda1 is shut down ({option})")


def test_btrfs_counts_errors_of_its_devices_and_those_that_are_missing(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "btrfs", "sdx")
    kernel.shows("btrfs/some-id/devices/sdx", "")
    stats = "write_errs {}\nread_errs 0\nflush_errs 1\ncorruption_errs 0\ngeneration_errs 0"
    kernel.shows("btrfs/some-id/devinfo/1/error_stats", stats.format(4))
    kernel.shows("btrfs/some-id/devinfo/2/error_stats", stats.format(0))
    kernel.shows("btrfs/some-id/devinfo/2/missing", "1")
    assert list(kernel.found.warnings()) == [
        "btrfs on sdx counts errors: 4 write errors, 2 flush errors; look at its disks",
        "btrfs on sdx lacks a device (id 2): redundancy is less, or data is gone",
    ]


def test_errors_of_btrfs_on_a_logical_volume_are_seen(tmp_path: Path) -> None:
    (tmp_path / "dev" / "mapper").mkdir(parents=True)
    (tmp_path / "dev" / "mapper" / "vg-logs").symlink_to("../dm-4")
    kernel = Kernel(tmp_path, "btrfs", "sdx")
    mounts = kernel.mounts.read_text()
    kernel.mounts.write_text(mounts.replace("/dev/sdx", f"{tmp_path}/dev/mapper/vg-logs"))
    kernel.shows("btrfs/some-id/devices/dm-4", "")
    kernel.shows("btrfs/some-id/devinfo/1/error_stats", "write_errs 4")
    assert list(kernel.found.warnings()) == [
        "btrfs on dm-4 counts errors: 4 write errors; look at its disks"
    ]


def test_a_directory_that_cannot_be_looked_at_is_failing(tmp_path: Path) -> None:
    (text,) = file_system.look(tmp_path / "gone").failures()
    assert text.startswith("the directory of the logs cannot be read (No such file or ")


def test_a_directory_that_the_start_has_not_made_yet_is_no_failure(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "data")
    machine.look()
    assert list(machine.file_system.failures()) == []
    (tmp_path / "data").mkdir()
    machine.look()
    (tmp_path / "data").rmdir()
    machine.look()
    assert len(list(machine.file_system.failures())) == 1


# A real one


@contextmanager
def mounted(tmp_path: Path, options: str) -> Iterator[tuple[Path, str]]:
    image, place = tmp_path / "image", tmp_path / "mount"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", f"loop,{options}", image, place], check=True)
    try:
        number = os.stat(place).st_dev
        block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        yield place, block.resolve().name
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_real_ext4_that_met_an_error_is_told(tmp_path: Path) -> None:
    with mounted(tmp_path, "errors=remount-ro") as (place, device):
        found = file_system.look(place)
        assert (found.kind, found.device) == ("ext4", device)
        assert [*found.failures(), *found.warnings()] == []
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("planted\n")
        found = file_system.look(place)
        assert len(list(found.failures())) == 1
        (text,) = found.warnings()
        assert text.startswith(f"ext4 on {device} counts errors: 1 in its structures (the last ")
