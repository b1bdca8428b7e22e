"""Which file system holds the data directory, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.config import StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.machine import sync_guarantee as module
from appliance.machine.sync_guarantee import Syncs, syncs_on

QUIET = {"reserve_bytes": 0, "low_water_bytes": 0}
ROOT = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,errors=remount-ro\n"


def mounted(kind: str, place: str = "/data", options: str = "rw") -> str:
    return f"{ROOT}40 22 0:50 / {place} rw,relatime shared:1 - {kind} none {options}\n"


def found(mounts: str, path: str = "/data/broker") -> Syncs:
    return syncs_on(Path(path), mounts)


@pytest.mark.parametrize(("kind", "may_syncfs"), [("ext4", True), ("xfs", True), ("btrfs", False)])
def test_proven_ones_are_known_and_how(kind: str, may_syncfs: bool) -> None:
    it = found(mounted(kind))
    assert (it.kind, it.is_proven, it.may_syncfs) == (kind, True, may_syncfs)


@pytest.mark.parametrize(
    "kind", ["zfs", "nfs4", "fuse.sshfs", "overlay", "tmpfs", "ext3", "cifs", "9p", "f2fs", "other"]
)
def test_of_all_others_it_is_said_that_nothing_is_proven(kind: str) -> None:
    it = found(mounted(kind))
    assert (it.kind, it.is_proven, it.may_syncfs) == (kind, False, False)
    assert f"on {kind}, of which nothing is proven" in it.text
    assert "put the data directory on ext4 or XFS" in it.text


def test_a_mount_that_flushes_nothing_is_not_proven() -> None:
    for options in ("rw,nobarrier", "rw,barrier=0"):
        it = found(mounted("ext4", options=options))
        assert (it.is_proven, it.may_syncfs) == (False, False)
        assert "may take back what was acknowledged" in it.text


def test_the_deepest_and_latest_mount_counts() -> None:
    mounts = mounted("tmpfs") + "41 40 8:1 / /data/broker rw - xfs /dev/sda rw\n"
    assert found(mounts).kind == "xfs"
    assert found(mounts, "/data/brokers").kind == "tmpfs"
    assert found(mounts, "/elsewhere").kind == "ext4"
    assert found(mounts + "42 40 0:9 / /data/broker rw - zfs pool rw\n").kind == "zfs"


def test_a_name_with_a_blank_is_found() -> None:
    assert found(mounted("xfs", "/my\\040data"), "/my data/broker").kind == "xfs"


def test_the_real_table_is_read(tmp_path: Path) -> None:
    assert syncs_on(tmp_path).kind in Path("/proc/mounts").read_text()


def test_the_start_says_what_is_not_proven_and_that_one_sync_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Syncs("zfs", False, "the data directory is on zfs, of which nothing is proven")
    monkeypatch.setattr("appliance.data_dir.locked_dir.syncs_on", lambda path: it)
    log_dir = LogDir.open(tmp_path / "data", StorageConfig(**QUIET, sync="filesystem"))
    assert log_dir.syncs is it
    said = log_dir.report.text()
    assert "WARNING: the data directory is on zfs, of which nothing is proven." in said
    assert "commit.sync=filesystem is not used on zfs" in said
    log_dir.close()
    accepted = StorageConfig(**QUIET, file_system_accepted="zfs")
    log_dir = LogDir.open(tmp_path / "accepted", accepted)
    assert "storage.file.system.accepted=zfs accepts it." in log_dir.report.text()
    log_dir.close()


def test_what_is_accepted_is_a_kind_and_no_mistake_in_a_mount() -> None:
    assert found(mounted("zfs")).is_accepted("zfs")
    assert not found(mounted("zfs")).is_accepted("")
    assert not found(mounted("zfs")).is_accepted("nfs")
    assert found(mounted("ext4")).is_accepted("")
    assert not found(mounted("ext4", options="rw,nobarrier")).is_accepted("ext4")


def test_every_kind_has_one_verdict() -> None:
    assert not module.PROVEN.keys() & module.UNPROVEN.keys()
