"""Arrays of disks, as the kernel shows them: what is gone, what is in danger, what is well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.machine import devices, raid
from appliance.machine.kernel_counters import Grown
from appliance.machine.raid import Array

GOOD, FAULTY, SPARE = "in_sync", "faulty", "spare"


def made(
    block: Path, level: str, members: str | list[str], name: str = "md0", **files: str
) -> Array:
    """An array as sysfs has it. Of `members` each is a state, by slot; "" is an empty slot."""
    states = members.split() if isinstance(members, str) else members
    md = block / name / "md"
    md.mkdir(parents=True)
    missing = sum(GOOD not in each for each in states)
    facts = {
        "array_state": "clean", "level": level, "raid_disks": str(len(states)),
        "degraded": str(missing), "sync_action": "idle", "sync_completed": "none",
        "mismatch_cnt": "0", "metadata_version": "1.2", "layout": "0",
    }  # fmt: skip
    if level in raid.WITHOUT_REDUNDANCY:  # they have no such files
        for each in ("degraded", "sync_action", "sync_completed", "mismatch_cnt"):
            del facts[each]
    for key, text in (facts | files).items():
        (md / key).write_text(text + "\n")
    for slot, state in enumerate(states):
        if state not in ("", "-"):
            disk(md, f"sd{'abcdefgh'[slot]}", state, slot)
    (found,) = raid.snapshot(block)
    return found


def disk(md: Path, name: str, state: str, slot: int | None = None, **files: str) -> None:
    folder = md / f"dev-{name}"
    folder.mkdir()
    facts = {"state": state, "slot": "none" if slot is None or state == FAULTY else str(slot),
             "errors": "0", "bad_blocks": ""}  # fmt: skip
    for key, text in (facts | files).items():
        (folder / key).write_text(text + "\n")


NEAR_2, NEAR_3, FAR_2, OFFSET_2 = str(0x102), str(0x103), str(0x201), str(0x10201)

# level, layout, members by slot, and: condition, how many more may fail
TABLE = {
    "raid0, whole": ("raid0", "0", "in_sync in_sync", "well", 0),
    "raid0, one gone": ("raid0", "0", "in_sync -", "failed", -1),
    "linear, one gone": ("linear", "0", "in_sync faulty", "failed", -1),
    "raid1, whole": ("raid1", "0", "in_sync in_sync", "well", 1),
    "raid1, three copies, one gone": ("raid1", "0", "in_sync in_sync -", "degraded", 1),
    "raid1, the last copy": ("raid1", "0", "in_sync faulty", "degraded", 0),
    "raid1, none left": ("raid1", "0", "faulty faulty", "failed", -1),
    "raid4, one gone": ("raid4", "0", "in_sync in_sync -", "degraded", 0),
    "raid5, whole": ("raid5", "2", "in_sync in_sync in_sync", "well", 1),
    "raid5, one gone": ("raid5", "2", "in_sync in_sync faulty", "degraded", 0),
    "raid5, two gone": ("raid5", "2", "in_sync faulty faulty", "failed", -1),
    "raid5, one gone, one being rebuilt": ("raid5", "2", "in_sync spare faulty", "failed", -1),
    "raid6, one gone": ("raid6", "2", "in_sync in_sync in_sync faulty", "degraded", 1),
    "raid6, two gone": ("raid6", "2", "in_sync in_sync - faulty", "degraded", 0),
    "raid6, three gone": ("raid6", "2", "in_sync - - faulty", "failed", -1),
    "raid10 near 2, whole": ("raid10", NEAR_2, "in_sync in_sync in_sync in_sync", "well", 1),
    "raid10 near 2, one gone": ("raid10", NEAR_2, "- in_sync in_sync in_sync", "degraded", 0),
    "raid10 near 2, one of each pair": ("raid10", NEAR_2, "- in_sync in_sync -", "degraded", 0),
    "raid10 near 2, a whole pair": ("raid10", NEAR_2, "- - in_sync in_sync", "failed", -1),
    "raid10 near 2 on three, one": ("raid10", NEAR_2, "in_sync - in_sync", "degraded", 0),
    "raid10 near 2 on three, two": ("raid10", NEAR_2, "in_sync - -", "failed", -1),
    "raid10 near 3, two of three": ("raid10", NEAR_3, "- - in_sync", "degraded", 0),
    "raid10 far 2, opposite ones": ("raid10", FAR_2, "- in_sync - in_sync", "degraded", 0),
    "raid10 far 2, neighbours": ("raid10", FAR_2, "- - in_sync in_sync", "failed", -1),
    "raid10 offset 2, neighbours": ("raid10", OFFSET_2, "in_sync - - in_sync", "failed", -1),
}


@pytest.mark.parametrize(
    ("level", "layout", "members", "condition", "survives"), TABLE.values(), ids=TABLE
)
def test_each_level_bears_what_it_bears(
    tmp_path: Path, level: str, layout: str, members: str, condition: str, survives: int
) -> None:
    found = made(tmp_path, level, members, layout=layout)
    assert (found["condition"], found["survives"]) == (condition, survives)
    assert raid.is_failing(found) == (condition == "failed")
    assert (raid.reason(found) is None) == (condition == "well")


STATES = {
    "clear": None,
    "inactive": "failed",
    "suspended": "failed",
    "readonly": "read-only",
    "read-auto": "well",
    "clean": "well",
    "active": "well",
    "write-pending": "well",
    "active-idle": "well",
    "broken": "failed",
}


@pytest.mark.parametrize(("state", "condition"), STATES.items(), ids=STATES)
@pytest.mark.parametrize("level", ["raid0", "raid1", "raid5"])
def test_each_state_of_an_array_is_told(
    tmp_path: Path, level: str, state: str, condition: str | None
) -> None:
    if condition is None:
        with pytest.raises(ValueError, match="not enough values"):
            made(tmp_path, level, "in_sync in_sync in_sync", array_state=state)
        return
    found = made(tmp_path, level, "in_sync in_sync in_sync", array_state=state)
    assert found["condition"] == condition


def test_a_broken_raid5_says_that_its_data_cannot_be_had(tmp_path: Path) -> None:
    found = made(tmp_path, "raid5", "in_sync faulty faulty")
    assert raid.reason(found) == (
        "md0 (raid5) has failed: it is clean and lacks 2 of its 3 disks, and what it holds cannot "
        "be had; sdb failed; sdc failed"
    )


def test_one_that_is_being_rebuilt_says_how_far(tmp_path: Path) -> None:
    found = made(
        tmp_path, "raid6", "in_sync in_sync in_sync spare", sync_action="recover",
        sync_completed="37 / 100",
    )  # fmt: skip
    assert found["condition"] == "degraded"
    assert raid.reason(found) == (
        "md0 (raid6) lacks 1 of its 4 disks, and survives 1 more; it is being rebuilt, 37% done"
    )


def test_after_a_power_cut_copies_are_not_equal_until_the_resync_is_over(tmp_path: Path) -> None:
    found = made(
        tmp_path, "raid1", "in_sync in_sync", sync_action="resync", sync_completed="1 / 4"
    )
    assert raid.reason(found) == (
        "md0 (raid1) is not whole yet; it is being resynchronised, 25% done"
    )


def test_a_check_is_no_trouble_until_it_finds_some(tmp_path: Path) -> None:
    whole = made(
        tmp_path / "1", "raid5", "in_sync in_sync in_sync", sync_action="check",
        sync_completed="1 / 4",
    )  # fmt: skip
    assert raid.reason(whole) is None
    torn = made(
        tmp_path / "2", "raid5", "in_sync in_sync in_sync", mismatch_cnt="16",
        last_sync_action="check",
    )  # fmt: skip
    assert raid.reason(torn) == (
        "md0 (raid5) is not well; the last check found 8.0 KiB that differ from parity"
    )
    mended = made(
        tmp_path / "3", "raid5", "in_sync in_sync in_sync", mismatch_cnt="16",
        last_sync_action="repair",
    )  # fmt: skip
    assert raid.reason(mended) is None


@pytest.mark.parametrize(
    ("state", "files", "words"),
    [
        ("in_sync,blocked", {}, "sda failed and is waited for"),
        ("in_sync,write_error", {}, "sda had write errors"),
        ("in_sync,want_replacement", {}, "sda is to be replaced"),
        ("in_sync", {"errors": "3"}, "sda had 3 read errors that others could mend"),
        ("in_sync", {"bad_blocks": "2048 8\n4096 8"}, "sda has 2 ranges of bad blocks"),
    ],
)
def test_a_member_that_is_not_well_is_told_while_the_array_is_whole(
    tmp_path: Path, state: str, files: dict[str, str], words: str
) -> None:
    md = tmp_path / "md0" / "md"
    made(tmp_path, "raid1", ["", "in_sync"], degraded="0")
    disk(md, "sda", state, 0, **files)
    (found,) = raid.snapshot(tmp_path)
    assert (found["condition"], found["missing"]) == ("degraded", 0)
    assert raid.reason(found) == f"md0 (raid1) is not well; {words}"


@pytest.mark.parametrize(
    "state", ["in_sync,writemostly", "in_sync,failfast", "in_sync,external_bbl", "in_sync"]
)
def test_what_the_kernel_says_beside_that_is_no_trouble(tmp_path: Path, state: str) -> None:
    assert raid.reason(made(tmp_path, "raid1", [state, "in_sync"])) is None


def test_mended_errors_are_news_for_a_week_and_not_for_ever(tmp_path: Path) -> None:
    md, day, now = tmp_path / "md0" / "md", 86_400_000, [1]
    made(tmp_path, "raid1", ["", "in_sync"], degraded="0")
    disk(md, "sda", "in_sync", 0, errors="3")

    def is_told(errors: int) -> bool:
        """By another start each time."""
        (md / "dev-sda" / "errors").write_text(str(errors))
        (found,) = raid.snapshot(tmp_path, None, Grown(tmp_path, lambda: now[0]))
        assert sorted(each["errors"] for each in found["members"]) == [0, errors]
        return raid.reason(found) is not None

    assert is_told(3)
    now[0] += 7 * day
    assert not is_told(3)
    assert is_told(4)
    now[0] += 6 * day
    assert is_told(4)
    assert not is_told(0)  # somebody has looked at the disk, and wrote the zero
    assert is_told(1)


def test_a_spare_beside_a_whole_array_is_no_member_that_is_missing(tmp_path: Path) -> None:
    made(tmp_path, "raid1", "in_sync in_sync")
    disk(tmp_path / "md0" / "md", "sdz", "spare")
    (found,) = raid.snapshot(tmp_path)
    assert (found["condition"], len(found["members"])) == ("well", 3)


def test_one_that_grows_is_measured_by_what_it_becomes(tmp_path: Path) -> None:
    found = made(
        tmp_path, "raid5", "in_sync in_sync in_sync in_sync", raid_disks="4 (3)",
        sync_action="reshape", sync_completed="1 / 2",
    )  # fmt: skip
    assert (found["disks"], found["missing"], found["condition"]) == (4, 0, "degraded")


def test_what_is_no_array_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "md-not").mkdir()
    made(tmp_path, "raid1", "in_sync in_sync", name="md1")
    for name, facts in {
        "md126": {"array_state": "inactive", "level": "", "metadata_version": "external:imsm"},
        "md127": {"array_state": "inactive", "level": "container", "metadata_version": "1.2"},
    }.items():
        (tmp_path / name / "md").mkdir(parents=True)
        for key, text in facts.items():
            (tmp_path / name / "md" / key).write_text(text + "\n")
    assert [each["name"] for each in raid.snapshot(tmp_path)] == ["md1"]


def test_an_array_in_a_container_is_one(tmp_path: Path) -> None:
    found = made(
        tmp_path, "raid1", "in_sync -", metadata_version="external:/md127/0",
        array_state="active",
    )  # fmt: skip
    assert (found["condition"], found["survives"]) == ("degraded", 0)


# Which of them holds the logs


@pytest.mark.parametrize(
    ("beneath", "is_failing", "words"),
    [
        (frozenset({"md0", "sda"}), True, ""),
        (frozenset({"nvme0n1"}), False, "; the logs are not on it"),
        (None, True, ""),
    ],
    ids=["the logs' own", "another's", "not known"],
)
def test_a_broken_array_that_holds_something_else_does_not_stop_the_broker(
    tmp_path: Path, beneath: frozenset[str] | None, is_failing: bool, words: str
) -> None:
    made(tmp_path, "raid0", "in_sync -")
    (found,) = raid.snapshot(tmp_path, beneath)
    assert raid.is_failing(found) == is_failing
    text = raid.reason(found)
    assert text is not None
    assert text.endswith(f"cannot be had{words}")


class FakeSys:
    """/sys with block devices, each with its slaves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev" / "block").mkdir(parents=True)

    def add(self, path: str, number: str = "", slaves: tuple[str, ...] = ()) -> None:
        folder = self.root / "devices" / path
        (folder / "slaves").mkdir(parents=True, exist_ok=True)
        for each in slaves:
            (folder / "slaves" / each.rpartition("/")[2]).symlink_to(self.root / "devices" / each)
        if "/" in path:
            (folder / "partition").write_text("1\n")
        if number:
            (self.root / "dev" / "block" / number).symlink_to(folder)


def test_devices_are_followed_through_volumes_encryption_arrays_and_partitions(
    tmp_path: Path,
) -> None:
    sys = FakeSys(tmp_path / "sys")
    for each in ("sda", "sdb"):
        sys.add(each)
        sys.add(f"{each}/{each}1")
    sys.add("md0", slaves=("sda/sda1", "sdb/sdb1"))
    sys.add("dm-0", slaves=("md0",))  # LUKS
    device = os.stat(tmp_path).st_dev
    sys.add("dm-1", f"{os.major(device)}:{os.minor(device)}", slaves=("dm-0",))  # LVM
    assert devices.beneath(tmp_path, sys.root) == {
        "dm-1", "dm-0", "md0", "sda1", "sda", "sdb1", "sdb"
    }  # fmt: skip


def test_a_file_system_without_a_device_is_not_known(tmp_path: Path) -> None:
    sys = FakeSys(tmp_path / "sys")
    (tmp_path / "mounts").write_text("1 2 0:99 / /mnt rw - tmpfs tmpfs rw\n")
    assert devices.beneath(tmp_path, sys.root, tmp_path / "mounts") is None
    assert devices.beneath(tmp_path / "not there", sys.root) is None


def test_a_btrfs_is_on_all_of_its_devices(tmp_path: Path) -> None:
    sys = FakeSys(tmp_path / "sys")
    own = sys.root / "fs" / "btrfs" / "some-id" / "devices"
    own.mkdir(parents=True)
    for each in ("sdx", "sdy"):
        sys.add(each)
        (own / each).symlink_to(sys.root / "devices" / each)
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    (tmp_path / "mounts").write_text(f"1 2 {number} / /mnt rw - btrfs /dev/sdx rw\n")
    assert devices.beneath(tmp_path, sys.root, tmp_path / "mounts") == {"sdx", "sdy"}
