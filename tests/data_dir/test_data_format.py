"""Which data directories this build opens, and what it says of those that it refuses."""

from __future__ import annotations

import errno
import json
import struct
from pathlib import Path

import pytest

from appliance import __version__
from appliance._crc import crc32c
from appliance._log import Engine
from appliance.data_dir import data_format
from appliance.data_dir.data_format import (
    FIRST,
    LOG_DIRS,
    OURS,
    FormatUnreadable,
    Version,
    check,
    read,
    take,
)
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, StorageFull
from appliance.machine.believed_time_file import SLOT, SLOT_SIZE

NEXT = Version(OURS.major + 1, 0)
AT_MS = 1_800_000_000_000


def said(directory: Path, **told: object) -> None:
    made = {"format": str(OURS), "appliance": "0.1.0", "at_ms": AT_MS, **told}
    (directory / "format").write_text(json.dumps(made))


def refused(directory: Path) -> str:
    """By a start, which changes nothing."""
    before = state_of(directory)
    with pytest.raises(ApplianceError) as error:
        LockedDir.lock(directory)
    assert state_of(directory) == before
    return str(error.value)


def state_of(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(each.relative_to(directory)): (each.read_bytes(), each.stat().st_mtime_ns)
        for each in sorted(directory.rglob("*")) if each.is_file()
    }  # fmt: skip


def used(directory: Path) -> Path:
    """By a broker that stopped cleanly."""
    log_dir = LogDir.open(directory)
    log_dir.create("orders", 0)
    log_dir.close()
    return directory


def test_a_directory_without_one_is_of_the_first_version(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    assert check(tmp_path) is None
    made = take(tmp_path, AT_MS)
    assert (made.version, made.by) == (OURS, (__version__, str(OURS), AT_MS))
    assert OURS > FIRST
    assert read(tmp_path) == made
    assert (tmp_path / "format").stat().st_mode & 0o777 == 0o600


def test_it_is_written_once(tmp_path: Path) -> None:
    take(tmp_path, AT_MS)
    before = state_of(tmp_path)
    assert take(tmp_path, AT_MS + 1).by.at_ms == AT_MS
    assert state_of(tmp_path) == before


def test_a_newer_minor_version_is_opened_and_stays(tmp_path: Path) -> None:
    newer = Version(OURS.major, OURS.minor + 3)
    said(tmp_path, format=str(newer), appliance="0.9.0", what_we_do_not_know=[1])
    check(tmp_path)
    assert data_format.is_of_newer(tmp_path)
    found = take(tmp_path, AT_MS + 5)
    assert (found.version, found.by.appliance) == (newer, "0.9.0")
    assert found.last == (__version__, str(OURS), AT_MS + 5)
    assert read(tmp_path) == found


def test_a_newer_major_version_is_refused_with_who_wrote_it(tmp_path: Path) -> None:
    used(tmp_path)
    said(tmp_path, format=str(NEXT), appliance="3.1.4")
    told = refused(tmp_path)
    assert told.startswith(f"{tmp_path}: its data has format {NEXT}, and this appliance knows up "
                           f"to {OURS}: appliance 3.1.4 (2027-01-15 08:00:00Z) wrote it. ")
    assert "Install that version of the appliance or a later one" in told
    assert "restore a backup from before it" in told


def test_of_a_newer_major_version_only_the_number_need_be_there(tmp_path: Path) -> None:
    (tmp_path / "format").write_text(json.dumps({"format": str(NEXT), "last": {"format": "9.0"}}))
    assert f"has format {NEXT}" in refused(tmp_path)


def test_what_the_data_needs_and_we_do_not_know_is_refused(tmp_path: Path) -> None:
    said(tmp_path, needs={"mirrors": "0.2.0"})
    told = refused(tmp_path)
    assert "needs what this appliance does not know: mirrors (since 0.2.0)" in told


def test_what_it_needs_and_we_know_is_kept_while_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(tmp_path, AT_MS, LOG_DIRS)
    assert take(tmp_path, AT_MS).needs == LOG_DIRS
    monkeypatch.setattr(data_format, "KNOWN_NEEDS", frozenset())
    assert "log.dirs" in refused(tmp_path)
    take(tmp_path, AT_MS, {})
    check(tmp_path)


def test_a_full_disk_keeps_nobody_from_starting_but_where_an_older_build_could_do_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(data_format.owner_only, "write", full)
    assert take(tmp_path, AT_MS).version == OURS
    assert not (tmp_path / "format").exists()
    with pytest.raises(StorageFull):
        take(tmp_path, AT_MS, {"mirrors": "0.2.0"})
    monkeypatch.setattr(data_format, "OURS", NEXT)
    with pytest.raises(StorageFull):
        take(tmp_path, AT_MS)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "x"}', '{"appliance": "1"}', "7"])
def test_one_that_says_nothing_is_no_reason_to_guess(tmp_path: Path, text: str) -> None:
    (tmp_path / "format").write_text(text)
    with pytest.raises(FormatUnreadable, match="move it elsewhere, and the other files are asked"):
        check(tmp_path)


# Without it, by the other files


def test_our_journal_says_our_version(tmp_path: Path) -> None:
    used(tmp_path)
    found = {each.path.name: each.version for each in data_format.versions_of_files(tmp_path)}
    assert found["checkpoint.1"] == str(OURS)


def journal_of(version: bytes) -> bytes:
    """The first record of a generation."""
    rest = struct.pack(">qqB", 9, 0, 1) + version
    return struct.pack(">II", 1 + len(version), crc32c(rest)) + rest


@pytest.mark.parametrize("name", data_format.JOURNALS)
def test_a_newer_journal_is_not_taken_for_a_damaged_one(tmp_path: Path, name: str) -> None:
    used(tmp_path)
    head = journal_of(struct.pack(">HH", *NEXT))
    path = tmp_path / name
    path.write_bytes(head + path.read_bytes()[len(head):])
    assert f"{path} has format {NEXT}, and this appliance knows up to {OURS}" in refused(tmp_path)
    # with a wrong checksum it is damage, and the other file counts
    path.write_bytes(head[:-1] + b"\x09" + path.read_bytes()[len(head):])
    check(tmp_path)


@pytest.mark.parametrize("version", [b"", struct.pack(">HH", OURS.major, OURS.minor + 1) + b"more"])
def test_a_journal_of_the_first_or_a_newer_minor_version_is_read(
    tmp_path: Path, version: bytes
) -> None:
    (tmp_path / "checkpoint.0").write_bytes(journal_of(version))
    check(tmp_path)


@pytest.mark.parametrize("at", [0, 4096])
def test_newer_watermarks_are_not_taken_for_damaged_ones(tmp_path: Path, at: int) -> None:
    data = bytearray((used(tmp_path) / "watermarks").read_bytes())
    header = b"wtrmarkt" + bytes(68)
    data[at : at + 80] = header + struct.pack(">I", crc32c(header))
    (tmp_path / "watermarks").write_bytes(data)
    assert f"{tmp_path}/watermarks has format 2, and this appliance knows up to 1" in refused(
        tmp_path)
    data[at + 20] ^= 1
    (tmp_path / "watermarks").write_bytes(data)
    check(tmp_path)


@pytest.mark.parametrize("at", [0, SLOT_SIZE])
def test_a_newer_clock_is_not_taken_for_a_damaged_one(tmp_path: Path, at: int) -> None:
    slot = SLOT.pack(b"APCLOCK3", 9, AT_MS, 1, b"", 0)
    data = bytearray(2 * SLOT_SIZE)
    data[at : at + len(slot) + 4] = slot + struct.pack(">I", crc32c(slot))
    (tmp_path / "clock").write_bytes(data)
    assert f"{tmp_path}/clock has format 3, and this appliance knows up to 2" in refused(tmp_path)
    data[at + 20] ^= 1
    (tmp_path / "clock").write_bytes(data)
    check(tmp_path)


def test_an_engine_reads_a_journal_of_the_first_version(tmp_path: Path) -> None:
    """Nothing behind its first record moves."""
    used(tmp_path)
    engine = Engine(str(tmp_path))
    assert (engine.was_clean, engine.known()) == (True, ["orders-0"])
    engine.close(False)
