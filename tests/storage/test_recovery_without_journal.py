"""Recovery of a foreign directory, which has no journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import OffsetInHole
from tests.support.logs import batch, everything, one_log, opened, values


def foreign(folder: Path, *segments: tuple[int, list[bytes]]) -> None:
    folder.mkdir(parents=True)
    for base, batches in segments:
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))


def at(offset: int, *values: str, epoch: int = 0) -> bytes:
    return batch(*values, base_offset=offset, leader_epoch=epoch)


def test_a_foreign_directory_is_read_whole(tmp_path: Path) -> None:
    foreign(tmp_path / "t-0", (5, [at(5, "a", "b"), at(7, "c")]), (8, [at(8, "d", epoch=4)]))
    with one_log(tmp_path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (5, 9)
        assert values(everything(log)) == list("abcd")
        assert log.end_offset_for_epoch(0) == (0, 8)
        log.append_durable(batch("e"))
    with one_log(tmp_path) as log:
        assert values(everything(log)) == list("abcde")


def test_a_compacted_foreign_directory_may_have_gaps(tmp_path: Path) -> None:
    foreign(tmp_path / "t-0", (0, [at(3, "a"), at(9, "b")]), (20, [at(22, "c")]), (30, []))
    with opened(tmp_path) as log_dir:
        log = log_dir.log("t", 0)
        assert log_dir.report.losses == []
        assert (values(everything(log)), log.log_end_offset) == (list("abc"), 30)
        assert [values(log.read(offset, 1)) for offset in (0, 4, 10, 23)] == [
            ["a"],
            ["b"],
            ["c"],
            [],
        ]


def test_damage_in_a_foreign_directory_is_a_hole_and_not_an_end(tmp_path: Path) -> None:
    bad = bytearray(at(1, "x"))
    bad[-1] ^= 1
    foreign(tmp_path / "t-0", (0, [at(0, "a"), bytes(bad), at(2, "y")]), (3, [at(3, "b")]))
    for _ in range(2):
        with opened(tmp_path) as log_dir:
            log = log_dir.log("t", 0)
            assert (values(log.read(0)), values(log.read(3))) == (["a"], ["b"])
            for offset in (1, 2):
                with pytest.raises(OffsetInHole):
                    log.read(offset)
            log_dir.abandon()


def test_a_torn_end_of_a_foreign_directory_is_cut(tmp_path: Path) -> None:
    foreign(tmp_path / "t-0", (0, [at(0, "a"), at(1, "b")[:-1]]))
    with opened(tmp_path) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["a"]
        assert log_dir.report.cut_bytes == len(at(1, "b")) - 1
