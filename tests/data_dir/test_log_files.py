from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from appliance.data_dir import log_files, log_verify
from appliance.data_dir.log_files import Damage, Partition
from appliance.record import _batch_builder


def batch(base_offset: int, count: int = 2) -> bytes:
    records = [(1000 + base_offset + i, b"k%d" % i, b"v") for i in range(count)]
    return _batch_builder.batch(records, base_offset=base_offset, codec="lz4")


def partition(folder: Path, first: bytes, second: bytes | None = None) -> Partition:
    """One segment at offset 0, and perhaps one at offset 4."""
    path = folder / "orders-0"
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(first)
    if second is not None:
        (path / f"{4:020d}.log").write_bytes(second)
    return Partition("orders", 0, path)


def damages(found: Partition) -> list[tuple[str, int, bool]]:
    return [
        (each.segment.name[18:20], each.position, each.is_tail)
        for each in log_verify.verify(found, None, lambda _: None)
        if isinstance(each, Damage)
    ]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_partitions_are_the_directories_with_a_number(tmp_path: Path) -> None:
    for name in ("b-1", "b-0", "a-b-2", "a-x", "-3", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    found = [(each.topic, each.partition) for each in log_files.partitions(tmp_path)]
    assert found == [("a-b", 2), ("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("offset", "bases"),
    [(0, [0, 2, 4, 6]), (3, [2, 4, 6]), (4, [4, 6]), (7, [6]), (8, [])],
)
def test_reading_starts_with_the_batch_that_holds_the_offset(
    offset: int, bases: list[int], tmp_path: Path
) -> None:
    found = partition(tmp_path, batch(0) + batch(2), batch(4) + batch(6) + batch(8)[:-1])
    assert [each.check().base_offset for each in log_files.read(found, offset)] == bases


def test_the_end_is_after_the_last_whole_batch(tmp_path: Path) -> None:
    found = partition(tmp_path, batch(0) + batch(2)[:-1], b"")
    assert [log_files.end_offset(each) for each in found.segments] == [2, 4]


def test_whole_files_have_no_damage(tmp_path: Path) -> None:
    assert damages(partition(tmp_path, batch(0) + batch(2), batch(4))) == []


def test_one_flipped_bit_is_one_damage(tmp_path: Path) -> None:
    data = batch(0) + flipped(batch(2), 70) + batch(4)
    assert damages(partition(tmp_path, data)) == [("00", len(batch(0)), False)]


@pytest.mark.parametrize("tail", [batch(2)[:-1], batch(2)[:11], bytes(4096)])
def test_a_torn_end_is_damage_only_in_a_sealed_segment(tail: bytes, tmp_path: Path) -> None:
    found = partition(tmp_path, batch(0) + tail, batch(4) + tail)
    size = len(batch(0))
    assert damages(found) == [("00", size, False), ("04", size, True)]


def test_an_offset_that_goes_back_is_damage(tmp_path: Path) -> None:
    found = partition(tmp_path, batch(4) + batch(2))
    assert damages(found) == [("00", len(batch(4)), False)]


def test_a_running_broker_keeps_readers_out(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as broker:
        fcntl.flock(broker, fcntl.LOCK_EX)
        with pytest.raises(log_files.DirectoryInUse), log_files.held(tmp_path):
            pass
    with log_files.held(tmp_path):
        pass
