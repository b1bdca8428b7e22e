"""Arrays of disks, as the kernel shows them."""

from __future__ import annotations

from pathlib import Path

from appliance.machine import raid


def array(block: Path, **files: str) -> Path:
    md = block / "md0" / "md"
    md.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (md / name).write_text(text + "\n")
    return md


def test_an_array_that_lacks_a_disk_says_so(tmp_path: Path) -> None:
    md = array(
        tmp_path,
        array_state="clean",
        level="raid5",
        degraded="1",
        sync_action="recover",
        sync_completed="37 / 100",
    )
    for name, state in (("sda", "in_sync"), ("sdc", "faulty")):
        (md / f"dev-{name}").mkdir()
        (md / f"dev-{name}" / "state").write_text(state + "\n")
    (found,) = raid.snapshot(tmp_path)
    lacks = "md0 lacks 1 of its disks (sdc failed); "
    assert raid.reason(found) == lacks + "it is being rebuilt, 37% done"
    array(tmp_path, sync_action="idle", sync_completed="none")
    (found,) = raid.snapshot(tmp_path)
    assert raid.reason(found) == lacks + "writes go on with less redundancy"


def test_one_that_is_whole_is_no_reason(tmp_path: Path) -> None:
    array(tmp_path, array_state="active", level="raid0")  # without redundancy: no other file
    (found,) = raid.snapshot(tmp_path)
    assert (found["missing"], raid.reason(found)) == (0, None)


def test_what_is_no_array_or_not_started_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "md-not").mkdir()
    array(tmp_path, array_state="inactive")
    assert raid.snapshot(tmp_path) == []
