"""Several directories of records: where partitions go, and a directory that is away."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.broker import Broker
from appliance.data_dir import directory_id
from appliance.data_dir.control_dir import RecordsElsewhere
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.record_dir import DirectoryBusy, DirectoryOffline, LogDirUnknown
from appliance.errors import ApplianceError, LogFailed, StorageFull, StorageIoFailed
from tests.support.broker import Recorder
from tests.support.logs import STORAGE, batch, break_file
from tests.support.open_files import open_files
from tests.support.several_dirs import (
    WHOLE,
    away,
    come_back,
    config_of,
    fill,
    found,
    live,
    records,
    texts,
)


def test_the_lock_of_data_dir_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    close = LogDir.close

    def note(log_dir: LogDir) -> None:
        closed.append(log_dir.path.name)
        close(log_dir)

    monkeypatch.setattr(LogDir, "close", note)
    live(tmp_path, fill, "data", "a", "b")
    assert closed == ["a", "b", "data"]


# Where partitions go


def test_partitions_are_spread_and_stay_where_they_are(tmp_path: Path) -> None:
    live(tmp_path, fill)
    own = {name: found(tmp_path, name) for name in ("a", "b")}
    assert sorted(map(len, own.values())) == [2, 2]
    assert found(tmp_path, "data") == []
    assert (tmp_path / "data" / "catalog.db").exists()

    async def look(broker: Broker) -> None:
        assert records(broker) == WHOLE
        await broker.topics.create_partitions("t", 6)
        assert broker.log_dir.report.notes == []

    live(tmp_path, look)
    live(tmp_path, see_six, "b", "a")
    for name, partitions in own.items():
        assert {*partitions} < {*found(tmp_path, name)}


async def see_six(broker: Broker) -> None:
    assert {each: records(broker)[each] for each in WHOLE} == WHOLE
    assert len(broker.topics["t"].all_logs()) == 6


def test_free_space_decides_where_new_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = {"a": 3 << 30, "b": 1 << 30}
    monkeypatch.setattr(LogDir, "free_bytes", property(lambda it: room[it.path.name]))

    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 8)

    live(tmp_path, use)
    assert (len(found(tmp_path, "a")), len(found(tmp_path, "b"))) == (6, 2)


def test_a_full_directory_gets_no_new_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: set[str] = {"a"}
    monkeypatch.setattr(LogDir, "is_full", property(lambda it: it.path.name in full))

    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 4)
        assert (found(tmp_path, "a"), len(found(tmp_path, "b"))) == ([], 4)
        full.add("b")
        with pytest.raises(StorageFull, match=r"u: no directory of log\.dirs .* free, wanted more"):
            await broker.topics.create("u", 1)
        assert "u" not in broker.topics
        await broker.topics.internal("__consumer_offsets", 2, 1 << 20)  # rather there than nowhere
        assert any("b: the disk is full" in each for each in texts(broker))

    live(tmp_path, use)


def test_a_creation_that_a_disk_refuses_leaves_nothing_and_the_next_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = LockedDir.open_log

    def open_log(where: LockedDir, *given: Any, **named: Any) -> Any:
        if where.path.name == "a":
            raise StorageIoFailed(f"{where.path}: EIO")
        return opens(where, *given, **named)

    async def use(broker: Broker) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LockedDir, "open_log", open_log)
            with pytest.raises(ApplianceError):
                await broker.topics.create("t", 4)
            assert (found(tmp_path, "a"), found(tmp_path, "b")) == ([], [])
            await broker.topics.create("t", 4)
        assert (found(tmp_path, "a"), len(found(tmp_path, "b"))) == ([], 4)
        assert any("nothing new goes there" in each for each in texts(broker))

    live(tmp_path, use)
    live(tmp_path, see_four)


async def see_four(broker: Broker) -> None:
    assert len(broker.topics["t"].all_logs()) == 4


def test_one_directory_was_enough_and_a_second_is_added(tmp_path: Path) -> None:
    async def fill_one(broker: Broker) -> None:
        await fill(broker)
        assert not broker.log_dir.has_ids

    async def look(broker: Broker) -> None:
        assert records(broker) == WHOLE
        await broker.topics.create("u", 1)  # where nothing is yet

    async def alone(broker: Broker) -> None:
        id_of_b = directory_id.read(tmp_path / "b")
        text = f"its directory, {tmp_path / 'b'} ({id_of_b}), is not in log.dirs"
        assert broker.topics["u"].unserved == {0: text}
        assert records(broker) == WHOLE

    asyncio.run(one_life(tmp_path, fill_one))
    assert not (tmp_path / "data" / "directory.id").exists()
    with pytest.raises(RecordsElsewhere, match=r"holds 4 partitions \(t-0, t-1, t-2\): name it"):
        live(tmp_path, look, "b")
    live(tmp_path, look, "data", "b")
    assert found(tmp_path, "b", "u") == ["u-0"]
    asyncio.run(one_life(tmp_path, alone))  # nothing is made anew


async def one_life(root: Path, use: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    broker = await asyncio.to_thread(Broker.open, config_of(root))
    broker.connect(Recorder())
    await use(broker)
    await broker.close()


def test_directories_of_a_broker_without_a_catalog_are_its_own(tmp_path: Path) -> None:
    live(tmp_path, fill)
    shutil.rmtree(tmp_path / "data")
    for name in ("a", "b"):
        (tmp_path / name / "directory.id").unlink()

    async def look(broker: Broker) -> None:
        assert records(broker) == WHOLE

    live(tmp_path, look)
    live(tmp_path, look)


# A directory that is away


def test_what_is_not_mounted_takes_its_own_partitions_alone(tmp_path: Path) -> None:
    live(tmp_path, fill)
    mine, others = [[int(each[2:]) for each in found(tmp_path, name)] for name in ("a", "b")]
    place = away(tmp_path)

    async def use(broker: Broker) -> None:
        assert sorted(records(broker)) == mine
        assert sorted(broker.topics["t"].unserved) == others
        text = texts(broker)[0]
        assert f"{tmp_path / 'b'} is offline, and its 2 partitions with it" in text
        assert "has no directory.id" in text
        assert "findmnt" in text
        assert len(texts(broker)) == 1
        await broker.topics.create("u", 3)
        assert found(tmp_path, "a", "u") == ["u-0", "u-1", "u-2"]
        assert await broker.reopening.retry() == 0
        assert os.listdir(tmp_path / "b") == []  # nothing is made anew there
        come_back(tmp_path, place)
        assert await broker.reopening.retry() == 1
        assert records(broker) == WHOLE
        assert broker.topics["t"].unserved == {}
        assert texts(broker) == []
        for log in broker.topics["t"].all_logs():
            log.append_durable(batch("more"))

    async def look(broker: Broker) -> None:
        assert records(broker) == {each: [f"of {each}", "more"] for each in range(4)}
        assert broker.log_dir.report.losses == []

    live(tmp_path, use, is_killed=True)
    live(tmp_path, look)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda b: (b / "directory.id").write_text("AAAAAAAAAAAAAAAAAAAAAA\n"), "none of this br"),
        (lambda b: (b / "directory.id").unlink(), "has no directory.id"),
        (shutil.rmtree, "is not there"),
        (lambda b: b.rename(b.with_name("moved")) and b.write_text(""), "Not a directory"),
    ],
    ids=["another", "none", "gone", "file"],
)
def test_why_a_directory_is_offline(
    spoil: Callable[[Path], object], why: str, tmp_path: Path
) -> None:
    live(tmp_path, fill)
    spoil(tmp_path / "b")

    async def use(broker: Broker) -> None:
        assert why in texts(broker)[0]
        assert len(records(broker)) == 2

    live(tmp_path, use)


def test_a_directory_that_another_broker_has_is_offline(tmp_path: Path) -> None:
    live(tmp_path, fill)

    async def use(broker: Broker) -> None:
        assert "in use by another broker" in texts(broker)[0]
        other.release()
        await broker.reopening.directories.reopen(str(tmp_path / "b"))
        assert records(broker) == WHOLE

    other = LockedDir.lock(tmp_path / "b", STORAGE)
    live(tmp_path, use)


def test_a_directory_is_known_by_its_id_wherever_it_is(tmp_path: Path) -> None:
    live(tmp_path, fill)
    (tmp_path / "b").rename(tmp_path / "c")

    async def look(broker: Broker) -> None:
        assert records(broker) == WHOLE

    live(tmp_path, look, "a", "c")
    live(tmp_path, look, "c", "a")
    for before, after in (("a", "x"), ("c", "a"), ("x", "c")):
        (tmp_path / before).rename(tmp_path / after)
    live(tmp_path, look, "a", "c")


def test_a_copy_of_a_directory_is_not_another_one(tmp_path: Path) -> None:
    live(tmp_path, fill)
    shutil.copytree(tmp_path / "b", tmp_path / "c")

    async def use(broker: Broker) -> None:
        assert "it is a copy of that" in texts(broker)[0]
        assert records(broker) == WHOLE

    live(tmp_path, use, "a", "b", "c")


def test_a_new_directory_is_to_be_empty(tmp_path: Path) -> None:
    live(tmp_path, fill)
    (tmp_path / "c" / "x-0").mkdir(parents=True)

    async def use(broker: Broker) -> None:
        assert "is new to this broker and holds 1 partitions (x-0) already" in texts(broker)[0]

    live(tmp_path, use, "a", "b", "c")
    assert os.listdir(tmp_path / "c") == ["x-0"]


def test_without_any_directory_there_is_no_broker(tmp_path: Path) -> None:
    live(tmp_path, fill)
    for name in ("a", "b"):
        (tmp_path / name / directory_id.NAME).unlink()
    with pytest.raises(DirectoryOffline, match=r"can be opened: .*a has no .*b has no"):
        live(tmp_path, see_four)
    with pytest.raises(DirectoryOffline):  # and nothing is held
        live(tmp_path, see_four)


def test_a_topic_deleted_meanwhile_is_set_aside_when_its_directory_comes_back(
    tmp_path: Path,
) -> None:
    live(tmp_path, fill)
    others = found(tmp_path, "b")
    place = away(tmp_path)

    async def use(broker: Broker) -> None:
        await broker.topics.delete("t")
        assert broker.topics.undeleted == {}
        topic = await broker.topics.create("t", 4)  # the name is free
        topic.logs[0].append_durable(batch("new"))
        come_back(tmp_path, place)
        assert await broker.reopening.retry() == 1
        assert sorted(each.name for each in (tmp_path / "b" / "orphans").iterdir()) == others
        assert records(broker) == {0: ["new"], 1: [], 2: [], 3: []}

    live(tmp_path, use)


@pytest.mark.parametrize("is_replaced", [True, False], ids=["an empty disk", "no disk"])
def test_one_that_will_not_come_back_is_given_up(is_replaced: bool, tmp_path: Path) -> None:
    live(tmp_path, fill)
    others = [int(each[2:]) for each in found(tmp_path, "b")]
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").mkdir()
    if not is_replaced:
        (tmp_path / "b" / "foreign-0").mkdir()  # it cannot be opened as a new one, either

    async def use(broker: Broker) -> None:
        reopening = broker.reopening
        with pytest.raises(DirectoryBusy, match="is open: what is in it can be moved"):
            await reopening.directories.give_up(str(tmp_path / "a"))
        assert await reopening.directories.give_up(str(tmp_path / "b")) == 2
        assert await reopening.retry() == 2 + is_replaced
        assert records(broker) == {each: [] if each in others else WHOLE[each] for each in WHOLE}
        entries = [str(each.damage) for each in broker.ledger.open()]
        assert entries == [
            f"t-{each}: offsets from 0 on: its directory {tmp_path / 'b'} was given up"
            for each in others
        ]
        for each in others:
            broker.topics["t"].log(each).append_durable(batch("anew"))

    async def look(broker: Broker) -> None:
        assert [records(broker)[each] for each in others] == [["anew"], ["anew"]]
        assert (broker.log_dir.offline() == []) is is_replaced

    live(tmp_path, use, is_killed=True)
    live(tmp_path, look)


# A directory that failed


def test_one_that_failed_is_opened_again_on_a_persons_word(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await fill(broker)
        (mine, *_), (hurt, *more) = [
            [each for each in broker.topics["t"].all_logs() if f"/{name}/t-" in each.directory]
            for name in ("a", "b")
        ]
        hurt.append(batch("lost"))
        break_file(hurt)
        with pytest.raises(LogFailed):
            hurt.await_durable(1)
        more[0].append(batch("kept"))  # not flushed yet
        assert await broker.reopening.retry() == 0  # never by itself
        with pytest.raises(LogDirUnknown, match="is no directory of records; there are"):
            await broker.reopening.directories.reopen("/elsewhere")
        reopened = broker.reopening.directories.reopen(str(tmp_path / "b"))
        told = asyncio.create_task(reopened)
        await asyncio.sleep(0)
        mine.append_durable(batch("beside it"))
        assert await told == 2
        number, other = hurt.partition, more[0].partition
        assert records(broker) == {
            **WHOLE, mine.partition: [f"of {mine.partition}", "beside it"],
            number: [f"of {number}"], other: [f"of {other}", "kept"],
        }  # fmt: skip
        broker.topics["t"].log(number).append_durable(batch("after"))
        assert texts(broker) == []
        names = {each.split("/")[0] for each in files_below(tmp_path / "b") if each[:2] == "t-"}
        assert names == {f"t-{number}", f"t-{other}"}
        assert hurt.files_held() == 0

    live(tmp_path, use)


def files_below(path: Path) -> list[str]:
    """What this process has open there."""
    return [each.removeprefix(f"{path}/") for each in open_files()
            if each == str(path) or each.startswith(f"{path}/")]  # fmt: skip


def test_one_that_is_closed_can_be_taken_out(tmp_path: Path) -> None:
    """Its disk is away when it is to be opened again: nothing of it is held any more."""

    async def use(broker: Broker) -> None:
        await fill(broker)
        old = broker.topics["t"].all_logs()  # somebody keeps them for hours
        (tmp_path / "b" / directory_id.NAME).rename(tmp_path / "id")
        with pytest.raises(DirectoryOffline, match=r"has no directory\.id"):
            await broker.reopening.directories.reopen(str(tmp_path / "b"))
        assert files_below(tmp_path / "b") == []
        assert len(records(broker)) == 2
        assert len(broker.topics["t"].unserved) == 2
        (tmp_path / "id").rename(tmp_path / "b" / directory_id.NAME)
        assert await broker.reopening.retry() == 1
        assert records(broker) == WHOLE
        assert len(old) == 4

    live(tmp_path, use)


def test_one_that_is_read_is_not_closed_under_its_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.data_dir.log_dir.READERS_S", 0.05)

    async def use(broker: Broker) -> None:
        await fill(broker)
        log = broker.log_dir.directories[1].opened().logs().popitem()[1]
        held = log.slice(0)
        with pytest.raises(ApplianceError, match="is still read"):
            await broker.reopening.directories.reopen(str(tmp_path / "b"))
        del held
        await broker.reopening.retry()
        assert records(broker) == WHOLE

    live(tmp_path, use)
