"""The checkpoint journal, through the directory that keeps it: damage, rotation, growth."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.data_dir.log_dir import LogDir
from tests.support.damaged import END, SETTINGS, Damaged, build, served
from tests.support.logs import (
    batch,
    copied,
    everything,
    log_config,
    opened,
    produced,
    reopened,
    values,
)

MIB = 1 << 20


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """Three lives, none of which ended well: both files hold whole generations."""
    path = tmp_path_factory.mktemp("journal") / "data"
    batches = build(path)
    for _ in range(2):
        with opened(path, **SETTINGS) as log_dir:
            log_dir.checkpoint()
            log_dir.abandon()
    return Damaged(path, batches)


@pytest.fixture
def damaged(lives: Damaged, tmp_path: Path) -> Damaged:
    return Damaged(copied(lives.path, tmp_path / "data"), lives.batches)


def files(path: Path) -> list[Path]:
    """The newer file first."""
    return sorted(path.glob("checkpoint.*"), key=lambda each: -generation(each))


def generation(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[8:16], "big")


def used(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


def check_all_is_there(damaged: Damaged) -> None:
    for _ in range(2):
        with opened(damaged.path, **SETTINGS) as log_dir:
            log = log_dir.log("t", 0)
            assert served(log, damaged) == list(range(END))
            assert (log_dir.report.losses, log_dir.report.cut_bytes, damaged.aside) == ([], 0, [])
            assert log.append(produced(END - 1)).duplicate
            assert log.end_offset_for_epoch(3) == (3, END)
            log_dir.abandon()
    with opened(damaged.path, **SETTINGS) as log_dir:
        assert log_dir.log("t", 0).append_durable(produced(END)).base_offset == END


def spoil(path: Path, how: str) -> None:
    size = path.stat().st_size
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "zeros":
        path.write_bytes(bytes(size))
    elif how == "garbage":
        path.write_bytes(os.urandom(size))
    elif how == "ones":
        path.write_bytes(b"\xff" * size)


@pytest.mark.parametrize("how", ["missing", "empty", "zeros", "garbage", "ones"])
@pytest.mark.parametrize("which", [[0], [1], [0, 1]], ids=["the newer", "the older", "both"])
def test_a_lost_journal_loses_no_record(which: list[int], how: str, damaged: Damaged) -> None:
    for path in [files(damaged.path)[i] for i in which]:
        spoil(path, how)
    check_all_is_there(damaged)


@pytest.mark.parametrize("which", [0, 1], ids=["the newer", "the older"])
def test_a_journal_may_end_anywhere(which: int, lives: Damaged, tmp_path: Path) -> None:
    end = used(files(lives.path)[which])
    for size in [*range(0, end, 64), end - 1, end, end + 1]:
        damaged = Damaged(copied(lives.path, tmp_path / str(size)), lives.batches)
        os.truncate(files(damaged.path)[which], size)
        check_all_is_there(damaged)


def test_a_flipped_bit_in_the_journal_loses_no_record(lives: Damaged, tmp_path: Path) -> None:
    end = used(files(lives.path)[0])
    for at in range(0, end, 5):
        damaged = Damaged(copied(lives.path, tmp_path / str(at)), lives.batches)
        path = files(damaged.path)[0]
        data = bytearray(path.read_bytes())
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with opened(damaged.path, **SETTINGS) as log_dir:
            assert served(log_dir.log("t", 0), damaged) == list(range(END))
            assert log_dir.report.losses == []
            log_dir.abandon()


def test_of_two_whole_generations_the_newer_is_believed(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for name in "abcd":
            log.append_durable(batch(name))
        log_dir.checkpoint()
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        log_dir.log("t", 0).delete_before(3)
        log_dir.abandon()
    newer, older = files(tmp_path)
    assert generation(newer) == generation(older) + 1
    with opened(tmp_path) as log_dir:
        assert values(everything(log_dir.log("t", 0))) == ["d"]


def test_a_torn_new_generation_does_not_count(damaged: Damaged) -> None:
    """A crash while the other file was being rewritten: it begins, and is not complete."""
    newer, older = files(damaged.path)
    image = bytearray(newer.read_bytes())
    data = bytearray(older.read_bytes())
    head = 8 * ((24 + int.from_bytes(image[:4], "big") + 7) // 8)
    data[:head] = image[:head]
    os.truncate(older, 0)
    older.write_bytes(data)
    check_all_is_there(damaged)


# Rotation and growth


def test_the_journal_rotates_many_times(tmp_path: Path) -> None:
    """A thousand producers make a record of some 70 kB; the file holds a megabyte of them."""
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for pid in range(1000):
            log.append(produced(0, pid=pid))
        first = generation(files(tmp_path)[0])
        for i in range(1, 151):
            log.append_durable(produced(i, pid=3))
            log_dir.checkpoint()
        assert generation(files(tmp_path)[0]) >= first + 6
        assert max(path.stat().st_size for path in tmp_path.glob("checkpoint.*")) <= 2 * MIB
        wanted = sorted(log.producers())
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert log_dir.report.scanned_bytes == 0
        assert sorted(log_dir.log("t", 0).producers()) == wanted


def test_the_journal_grows_beyond_its_first_size(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for pid in range(20_000):
            log.append(produced(0, pid=pid))
        log.flush()
        log_dir.checkpoint()
        assert files(tmp_path)[0].stat().st_size > 2 * MIB
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        log = log_dir.log("t", 0)
        assert (log_dir.report.scanned_bytes, len(log.producers())) == (0, 20_000)
        for i in range(1, 4):
            log.append_durable(produced(i, pid=5))
            log_dir.checkpoint()


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "unclean end"])
def test_many_partitions_have_each_their_own_record(cleanly: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        names = [("a" * 249, 0), ("b.c_d-e", 99_999), *[("t", i) for i in range(60)]]
        for i, (topic, partition) in enumerate(names):
            log = log_dir.create(topic, partition, log_config())
            log.append(produced(i, pid=i), leader_epoch=i)
            log.ask_commit()
        for log in log_dir.logs().values():
            log.flush()
        log_dir.checkpoint()
        again = reopened(log_dir, cleanly)
    assert again.report.scanned_bytes == 0
    for i, each in enumerate(names):
        log = again.log(*each)
        (producer,) = log.producers()
        assert (producer.producer_id, producer.last_sequence) == (i, i)
        assert log.leader_epoch == i + (0 if cleanly else 1)
    again.close()


def test_a_deleted_log_leaves_the_journal(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for i in range(3):
            log_dir.create("t", i, log_config()).append_durable(batch("a"))
        log_dir.checkpoint()
        log_dir.delete("t", 1)
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert sorted(log_dir.logs()) == [("t", 0), ("t", 2)]
        assert log_dir.report.losses == []


# A clean stop


Touch = Callable[[LogDir], object]


def test_a_clean_stop_counts_once(tmp_path: Path) -> None:
    was_clean = []
    for ending in (LogDir.close, LogDir.close, LogDir.abandon, LogDir.close, LogDir.close):
        with opened(tmp_path) as log_dir:
            was_clean.append(log_dir.report.was_clean)
            ending(log_dir)
    assert was_clean[1:] == [True, True, False, True]


def test_after_a_clean_stop_nothing_is_read(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        for i in range(5):
            log = log_dir.create("t", i, log_config())
            log.append(batch("a" * 1000))
    with opened(tmp_path) as log_dir:
        assert (log_dir.report.was_clean, log_dir.report.scanned_bytes) == (True, 0)
        assert [log.log_end_offset for log in log_dir.logs().values()] == [1] * 5


def test_a_clean_stop_is_not_believed_where_a_file_has_another_size(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        log.append(batch("a"))
    with (tmp_path / "t-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"not ours")
    with opened(tmp_path) as log_dir:
        assert log_dir.report.cut_bytes == 8
        assert values(everything(log_dir.log("t", 0))) == ["a"]


def test_only_what_came_after_the_recovery_point_is_read_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log = log_dir.create("t", 0, log_config())
        for _ in range(50):
            log.append(batch("a" * 1000))
        log.flush()
        log_dir.checkpoint()
        log.append_durable(batch("tail"))
        log_dir.abandon()
    with opened(tmp_path) as log_dir:
        assert log_dir.report.scanned_bytes == len(batch("tail"))
