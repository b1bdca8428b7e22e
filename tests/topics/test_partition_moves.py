"""Partitions move to another directory of records while they are written to."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.broker import Broker
from appliance.catalog.log_directory_rows import LogDirectoryRows
from appliance.data_dir import durable_directories
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_move import PartitionMove
from appliance.data_dir.record_dir import DirectoryOffline, LogDirUnknown, RecordDir
from appliance.errors import ApplianceError, LogClosed, LogFailed, StorageFull, StorageIoFailed
from appliance.topics import partition_moves
from tests.support.broker import kill_points
from tests.support.logs import (
    batch,
    break_file,
    break_open,
    end_txn,
    everything,
    produced,
    until,
    values,
)
from tests.support.moves import facts, fill_with_all, finish, move, nothing_is_left, place
from tests.support.several_dirs import away, come_back, found, live, records, texts


def test_a_log_is_the_same_in_the_other_directory(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        old = await fill_with_all(broker)
        before, (source,) = facts(old), place(tmp_path)
        await move(broker)
        await finish(broker)
        new = broker.topics["t"].log(0)
        assert new is not old
        assert place(tmp_path) == [{"a": "b", "b": "a"}[source]]
        assert facts(new) == before
        assert new.append(produced(5, pid=3)).duplicate
        assert new.append_durable(produced(6, pid=3)).base_offset == before[2]
        end_txn(new, "commit", pid=8)
        new.flush()
        with pytest.raises(LogClosed):
            old.append(batch("too late"))
        nothing_is_left(tmp_path)

    async def look(broker: Broker) -> None:
        assert broker.log_dir.report.losses == []
        assert broker.log_dir.report.notes == []
        log = broker.topics["t"].log(0)
        assert log.log_start_offset == 3
        assert log.append(produced(6, pid=3)).duplicate
        assert log.last_stable_offset == log.high_watermark

    live(tmp_path, use, is_killed=True)
    live(tmp_path, look)


class Writing:
    """Writes to a partition as clients do: what is refused is tried again."""

    def __init__(self, broker: Broker) -> None:
        self.acknowledged: list[str] = []
        self._broker = broker
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            log = self._broker.topics["t"].logs[0]
            try:
                assert log is not None
                log.append_durable(batch(f"{number} {'x' * 2000}"))
            except (ApplianceError, AssertionError):
                self._ends.wait(0.001)
                continue
            self.acknowledged.append(f"{number} {'x' * 2000}")
            number += 1

    def end(self) -> list[str]:
        self._ends.set()
        self._thread.join()
        return self.acknowledged


def test_it_is_written_to_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = PartitionMove.copy

    async def use(broker: Broker) -> list[str]:
        await broker.topics.create("t", 1)
        writing = Writing(broker)

        def goes_on() -> None:
            """However busy the disk and the machine are."""
            written = len(writing.acknowledged)
            until(lambda: len(writing.acknowledged) > written)

        def copy_slowly(moved: PartitionMove) -> None:
            goes_on()
            copy(moved)
            goes_on()

        monkeypatch.setattr(PartitionMove, "copy", copy_slowly)
        try:
            for _ in range(4):
                await asyncio.sleep(0.1)
                await move(broker)
                await finish(broker)
        finally:
            acknowledged = await asyncio.to_thread(writing.end)
        got = values(everything(broker.topics["t"].log(0)))
        assert {*acknowledged} <= {*got}
        nothing_is_left(tmp_path)
        return acknowledged

    acknowledged = live(tmp_path, use, is_killed=True)

    async def look(broker: Broker) -> None:
        assert {*acknowledged} <= {*values(everything(broker.topics["t"].log(0)))}
        assert broker.log_dir.report.losses == []

    live(tmp_path, look)


# What goes wrong


def test_a_log_that_comes_back_is_not_forgotten_with_the_one_that_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first directory could not make durable that its log was moved away."""
    sync = durable_directories.sync_name

    async def use(broker: Broker) -> str:
        log = await fill_with_all(broker)
        before, (source,) = facts(log), place(tmp_path)
        graves = tmp_path / source / durable_directories.DELETED

        def refuse(path: Path) -> None:
            if path == graves:
                raise OSError(errno.EIO, "EIO")
            sync(path)

        with monkeypatch.context() as patch:
            patch.setattr(durable_directories, "sync_name", refuse)
            await move(broker)
            await finish(broker)
        assert len([*graves.iterdir()]) == 1
        assert broker.log_dir.rows.moves() != {}, "its end waits for that"
        await move(broker)
        await finish(broker)
        assert place(tmp_path) == [source]
        await asyncio.to_thread(broker.log_dir.settle_moves)
        assert broker.log_dir.rows.moves() == {}
        nothing_is_left(tmp_path)
        for number in range(4):  # in both directories
            await broker.topics.create(f"next-{number}", 1)
        (home,) = [each for each in broker.log_dir.directories if each.path.name == source]
        assert "t-0" in home.opened().engine.known()
        assert facts(broker.topics["t"].log(0)) == before
        return source

    live(tmp_path, use, is_killed=True)


def test_a_move_back_waits_until_the_old_log_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_moves, "RETRY_S", 0.01)

    def refuse(directory: LogDir, topic: str, partition: int) -> None:
        raise StorageIoFailed("EIO")

    async def use(broker: Broker) -> None:
        log = await fill_with_all(broker)
        before, (source,) = facts(log), place(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(LogDir, "delete", refuse)
            await move(broker)
            await finish(broker)
            assert place(tmp_path) == ["a", "b"]
            log = broker.topics["t"].log(0)
            await move(broker)
            await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])
            assert "is there yet, of a move before" in broker.moves.under_way["t", 0].why
            assert broker.topics["t"].log(0) is log, "it was not even closed"
        await finish(broker)
        assert place(tmp_path) == [source]
        assert facts(broker.topics["t"].log(0)) == before
        nothing_is_left(tmp_path)

    live(tmp_path, use)


def test_a_catalog_from_before_the_end_of_a_move_loses_no_log(tmp_path: Path) -> None:
    """As a backup has it that was made while the log was copied."""

    async def use(broker: Broker) -> list[bytes]:
        log = await fill_with_all(broker)
        kept, rows, key = everything(log), broker.log_dir.rows, ("t", 0)
        await move(broker)
        row = rows.moves()[key]
        await finish(broker)
        rows.place({key: row.source})
        rows.begin_move(key, row)
        return kept

    kept, places = live(tmp_path, use, is_killed=True), place(tmp_path)

    async def look(broker: Broker) -> None:
        assert everything(broker.topics["t"].log(0)) == kept
        assert broker.log_dir.rows.moves() == {}
        assert broker.log_dir.report.losses == []
        await finish(broker)

    for _ in range(2):
        live(tmp_path, look)
        assert place(tmp_path) == places


def test_each_file_is_synced_by_the_descriptor_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is opened later may not be told of what could not be written back."""
    dirty: set[int] = set()
    unsynced: list[int] = []
    copy, sync, close = PartitionMove._copy_bytes, os.fsync, os.close

    def copying(copied: PartitionMove, source: int, target: int, *given: Any) -> None:
        dirty.add(target)
        copy(copied, source, target, *given)

    def syncing(descriptor: int) -> None:
        sync(descriptor)
        dirty.discard(descriptor)

    def closing(descriptor: int) -> None:
        if descriptor in dirty:
            unsynced.append(descriptor)
        close(descriptor)

    async def use(broker: Broker) -> None:
        await fill_with_all(broker)
        monkeypatch.setattr(PartitionMove, "_copy_bytes", copying)
        monkeypatch.setattr(os, "fsync", syncing)
        monkeypatch.setattr(os, "close", closing)
        await move(broker)
        await finish(broker)
        assert (dirty, unsynced) == (set(), [])

    live(tmp_path, use)


def test_a_move_waits_until_its_target_has_forgotten_a_former_log_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_moves, "RETRY_S", 0.01)
    settle = LogDir.settle

    async def use(broker: Broker) -> None:
        log = await fill_with_all(broker)
        before, (source,) = facts(log), place(tmp_path)

        def refuse(directory: LogDir) -> None:
            if directory.path.name != source:
                raise StorageIoFailed("EIO")
            settle(directory)

        monkeypatch.setattr(LogDir, "settle", refuse)
        await move(broker)
        await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])
        assert broker.moves.under_way["t", 0].why == "EIO"
        assert (broker.topics["t"].log(0), place(tmp_path)) == (log, [source])
        monkeypatch.setattr(LogDir, "settle", settle)
        await finish(broker)
        assert place(tmp_path) != [source]
        assert facts(broker.topics["t"].log(0)) == before

    live(tmp_path, use)


def test_what_can_be_asked_for(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 1)
        log = broker.topics["t"].log(0)
        log.append_durable(batch("a"))
        own = str(Path(log.directory).parent)
        await broker.moves.ask("t", 0, own)  # it is there
        assert broker.moves.under_way == {}
        with pytest.raises(LogDirUnknown):
            await broker.moves.ask("t", 0, "/elsewhere")
        await move(broker)
        assert [*broker.moves.under_way] == [("t", 0)]
        await move(broker)  # the same again
        await broker.moves.ask("t", 0, own)  # it is to stay
        assert broker.moves.under_way == {}
        assert broker.log_dir.rows.moves() == {}
        await finish(broker)
        assert broker.topics["t"].log(0) is log

    async def without_room(broker: Broker) -> None:
        with pytest.raises(StorageFull, match=r"t-0 has .* free, of which .* stay free"):
            await move(broker)

    async def without_disk(broker: Broker) -> None:
        (name,) = place(tmp_path)
        with pytest.raises(DirectoryOffline):
            await broker.moves.ask("t", 0, str(tmp_path / {"a": "b", "b": "a"}[name]))

    live(tmp_path, use)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogDir, "free_bytes", 10)
        live(tmp_path, without_room)
    (name,) = place(tmp_path)
    (tmp_path / {"a": "b", "b": "a"}[name] / "directory.id").unlink()
    live(tmp_path, without_disk)


@pytest.mark.parametrize(("owner", "step"), [(PartitionMove, "sync"), (LogDirs, "moved"),
                                             (PartitionMove, "_close_and_put")])  # fmt: skip
def test_where_a_step_fails_the_old_log_is_the_log(
    owner: type, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_moves, "RETRY_S", 0.01)
    calls = 0
    right = getattr(owner, step)

    def wrong(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (1, 3):
            raise StorageIoFailed("EIO")
        return right(*given)

    async def use(broker: Broker) -> None:
        log = await fill_with_all(broker)
        before = everything(log)
        (source,) = place(tmp_path)
        monkeypatch.setattr(owner, step, wrong)
        await move(broker)
        await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])
        assert broker.moves.under_way["t", 0].why == "EIO"
        assert place(tmp_path) == [source]
        now = broker.topics["t"].log(0)
        assert everything(now) == before
        assert now.append(produced(5, pid=3)).duplicate
        now.append_durable(produced(6, pid=3))
        await finish(broker)  # it is tried again
        assert place(tmp_path) != [source]
        assert len(everything(broker.topics["t"].log(0))) == len(before) + 1
        nothing_is_left(tmp_path)

    live(tmp_path, use)


@pytest.mark.parametrize("what", ["the journal", "the name"])
def test_where_the_target_dies_in_the_switch_the_old_log_is_the_log(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be taken back there."""
    monkeypatch.setattr(partition_moves, "RETRY_S", 0.01)
    rename = Path.rename
    moved = LogDirs.moved

    def refuse(path: Path, to: Path) -> Path:
        if path.name == "t-0" and to.name.endswith("-future"):
            raise OSError(errno.EIO, "EIO")
        return rename(path, to)

    async def use(broker: Broker) -> None:
        log = await fill_with_all(broker)
        before = everything(log)
        (source,) = place(tmp_path)

        def die(directories: LogDirs, key: Any, target: RecordDir) -> None:
            if what == "the journal":
                for each in target.path.glob("checkpoint.*"):
                    break_open(each)
            raise StorageIoFailed("EIO")

        monkeypatch.setattr(LogDirs, "moved", die)
        if what == "the name":
            monkeypatch.setattr(Path, "rename", refuse)
        await move(broker)
        await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])
        assert broker.moves.under_way["t", 0].why == "EIO"
        now = broker.topics["t"].log(0)
        assert Path(now.directory).parent.name == source
        assert everything(now) == before
        now.append_durable(produced(6, pid=3))
        monkeypatch.setattr(LogDirs, "moved", moved)
        monkeypatch.setattr(Path, "rename", rename)
        if what == "the name":
            assert place(tmp_path) == ["a", "b"]
            await finish(broker)  # what was left is out of the way
            assert place(tmp_path) != [source]
            assert len(everything(broker.topics["t"].log(0))) == len(before) + 1
            nothing_is_left(tmp_path)

    async def look(broker: Broker) -> None:
        assert len(everything(broker.topics["t"].log(0))) > 1
        assert broker.log_dir.report.losses == []
        assert len(place(tmp_path)) == 1

    live(tmp_path, use, is_killed=True)
    live(tmp_path, look)


def test_a_log_that_fails_in_the_switch_waits_for_an_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all that failed: what a reader holds is not read anew from the disk."""
    close = PartitionMove._close_and_put

    def fail(copy: PartitionMove, decide: Any) -> None:
        copy.log.append(batch("unknown"))
        break_file(copy.log)
        with suppress(LogFailed):
            copy.log.flush()
        close(copy, decide)

    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 1)
        topic.log(0).append_durable(batch("kept"))
        with monkeypatch.context() as patch:
            patch.setattr(PartitionMove, "_close_and_put", fail)
            await move(broker)
            await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])
        failed = topic.log(0)
        assert failed.failed is not None
        assert any("t-0" in each for each in texts(broker))
        await broker.moves._move(("t", 0), broker.moves.under_way["t", 0])  # nor is it moved
        await broker.reopening.reopen("t", 0)
        now = topic.log(0)
        assert values(everything(now)) == ["kept"]
        assert now.append_durable(batch("after")).base_offset == 1

    live(tmp_path, use)


def test_a_topic_that_is_deleted_is_not_moved_nor_another_of_its_name(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 1)
        await move(broker)
        await broker.topics.delete("t")
        assert broker.log_dir.rows.moves() == {}
        topic = await broker.topics.create("t", 1)
        (name,) = place(tmp_path)
        await finish(broker)
        assert place(tmp_path) == [name]
        assert topic.log(0).append_durable(batch("a")).base_offset == 0

    live(tmp_path, use)


def test_an_old_log_that_cannot_be_deleted_is_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(log_dir: LogDir, *key: Any) -> None:
        raise StorageIoFailed("EIO")

    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 1)
        broker.topics["t"].log(0).append_durable(batch("a"))
        with monkeypatch.context() as patch:
            patch.setattr(LogDir, "delete", refuse)
            await move(broker)
            await finish(broker)
        assert place(tmp_path) == ["a", "b"]
        assert values(everything(broker.topics["t"].log(0))) == ["a"]
        assert len(broker.log_dir.logs()) == 1

    async def look(broker: Broker) -> None:
        assert len(place(tmp_path)) == 1
        assert values(everything(broker.topics["t"].log(0))) == ["a"]
        assert broker.log_dir.rows.moves() == {}

    live(tmp_path, use)
    live(tmp_path, look)


STEPS: list[tuple[Any, str]] = [
    (LogDirectoryRows, "begin_move"),
    (LogDirectoryRows, "end_move"),
    (LogDirs, "moved"),
    (LogDir, "adopt"),
    (LogDir, "delete"),
    (Path, "rename"),
    (PartitionMove, "round"),
    (PartitionMove, "sync"),
    (durable_directories, "sync_name"),
]


def test_a_kill_at_any_step_leaves_one_whole_log(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    wanted: list[bytes] = []

    async def use(broker: Broker) -> list[Path]:
        wanted.extend(everything(await fill_with_all(broker)))
        with pytest.MonkeyPatch.context() as patch:
            points = kill_points(root, tmp_path / "copies", patch, STEPS)
            await move(broker)
            await finish(broker)
        return points

    points = live(root, use, is_killed=True)
    assert len(points) > 20
    ended = set()
    for each in points:
        ended.add(live(each, functools.partial(whole, each, wanted)))
    assert ended == {"a", "b"}


async def whole(root: Path, wanted: list[bytes], broker: Broker) -> str:
    assert broker.log_dir.report.losses == [], root.name
    assert [each for each in broker.log_dir.report.notes if "orphan" in each] == [], root.name
    log = broker.topics["t"].log(0)
    assert everything(log) == wanted, root.name
    assert log.log_start_offset == 3
    assert log.append(produced(5, pid=3)).duplicate
    (name,) = place(root)
    await finish(broker)  # one that was begun goes on
    assert everything(broker.topics["t"].log(0)) == wanted, root.name
    nothing_is_left(root)
    return name


def test_a_move_waits_for_a_directory_that_is_away(tmp_path: Path) -> None:
    async def begin(broker: Broker) -> None:
        await broker.topics.create("t", 4)
        for log in broker.topics["t"].all_logs():
            log.append_durable(batch(f"of {log.partition}"))
        number = int(found(tmp_path, "a")[0][2:])
        await broker.moves.ask("t", number, str(tmp_path / "b"))

    async def use(broker: Broker) -> None:
        ((_, number),) = broker.moves.under_way
        assert broker.topics["t"].log(number).log_end_offset == 1
        assert broker.moves._next() is None
        come_back(tmp_path, gone)
        assert await broker.reopening.retry() == 1
        await finish(broker)
        assert f"t-{number}" in found(tmp_path, "b")
        assert records(broker) == {each: [f"of {each}"] for each in range(4)}

    live(tmp_path, begin, is_killed=True)
    gone = away(tmp_path)
    live(tmp_path, use)
