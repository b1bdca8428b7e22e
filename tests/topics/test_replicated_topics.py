"""A cluster's topics on one broker: replicas that come here, and those that go."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.broker.broker import Broker
from appliance.catalog.log_directory_rows import Move
from appliance.data_dir import durable_directories, partition_creation
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dirs import LogDirs
from appliance.errors import ApplianceError, StorageFull, StorageIoFailed
from appliance.topics.replicated_topics import ReplicatedTopics, Wanted
from appliance.topics.topic_rows import TopicRows
from tests.support.logs import batch, values
from tests.support.several_dirs import live

ID = uuid.UUID(int=7)


def wanted(*here: int, led: Mapping[int, int] | None = None) -> Wanted:
    return Wanted("t", ID, 3, frozenset(here), {}, led or {})


def replicated(broker: Broker) -> ReplicatedTopics:
    return ReplicatedTopics(
        broker.topics, broker.change, lambda name: broker.topics.show(broker.topics[name])
    )


async def begun(broker: Broker, *here: int) -> ReplicatedTopics:
    """With a record in each, of epoch 5."""
    found = replicated(broker)
    await found.agree(lambda: wanted(*here))
    for each in here:
        log = broker.topics["t"].log(each)
        log.lead(5, 1, [], [], 1)
        log.append_durable(batch(f"{each}"))
    return found


def folders(root: Path) -> list[str]:
    return sorted(each.name for name in ("a", "b") for each in (root / name).glob("t-*"))


def aside(root: Path) -> list[str]:
    return sorted(each.name for name in ("a", "b") for each in (root / name / "orphans").glob("*"))


def disk_fails(*_: object) -> None:
    raise StorageIoFailed("the disk")


def test_a_replica_goes_whatever_is_left_of_another_topic_on_another_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = durable_directories.sync_name

    async def use(broker: Broker) -> None:
        found = await begun(broker, 0, 1)
        await broker.topics.create("u", 2)
        home, other = (broker.log_dir.place_of("t", each) for each in (0, 1))
        assert home is not None
        assert other is not None
        assert home is not other

        def refuse(path: Path) -> None:
            if path == other.path / durable_directories.DELETED:
                disk_fails()
            sync(path)

        monkeypatch.setattr(durable_directories, "sync_name", refuse)
        (left,) = [key for key in other.opened().held() if key[0] == "u"]
        with pytest.raises(StorageIoFailed):
            other.opened().delete(*left)
        await found.agree(lambda: wanted(1, led={0: 6}))
        assert folders(tmp_path) == ["t-1"]
        assert ("t", 0) not in broker.log_dir.rows.places()
        monkeypatch.undo()

    live(tmp_path, use)


def test_replicas_come_and_go(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        found = await begun(broker, 0, 1)
        broker.log_dir.rows.begin_move(("t", 0), Move("x", "y"))
        await found.agree(lambda: wanted(1, 2, led={0: 6}))
        topic = broker.topics["t"]
        assert topic.here == {1, 2}
        assert [log is not None for log in topic.logs] == [False, True, True]
        assert folders(tmp_path) == ["t-1", "t-2"]
        assert {*broker.log_dir.rows.places()} == {("t", 1), ("t", 2)}
        assert broker.log_dir.rows.moves() == {}
        (row,) = broker.topics.rows.all()
        assert row.here == {1, 2}
        await found.agree(lambda: wanted(0, 1, 2))
        assert topic.log(0).log_end_offset == 0, "it begins anew"
        assert values(topic.log(1).read(0)) == ["1"]

    async def look(broker: Broker) -> None:
        topic = broker.topics["t"]
        assert topic.here == {0, 1, 2}
        assert [topic.log(each).log_end_offset for each in range(3)] == [0, 1, 0]
        assert broker.log_dir.report.notes == []

    live(tmp_path, use)
    live(tmp_path, look)
    assert aside(tmp_path) == []


@pytest.mark.parametrize(
    "led", [{}, {0: 4}], ids=["nobody leads it", "its leader is of an election before its own"]
)
def test_what_may_be_the_only_one_is_set_aside(tmp_path: Path, led: Mapping[int, int]) -> None:
    """A ZooKeeper of a former day says, too, that it is elsewhere."""

    async def use(broker: Broker) -> None:
        found = await begun(broker, 0)
        await found.agree(lambda: wanted(led=led))
        assert broker.topics["t"].here == frozenset()
        assert (folders(tmp_path), aside(tmp_path)) == ([], ["t-0"])

    live(tmp_path, use)


def test_what_could_not_be_set_aside_whole_gives_its_name_back_later(tmp_path: Path) -> None:
    """A full disk ends it in the middle; the next topic of its name could never be had here."""
    other = Wanted("t", uuid.UUID(int=8), 3, frozenset({0}), {})

    async def use(broker: Broker) -> None:
        found = await begun(broker, 0)
        for each in ("a", "b"):
            (tmp_path / each / "orphans").write_text("in the way")
        with pytest.raises(ApplianceError):
            await found.agree(lambda: other)
        for each in ("a", "b"):
            (tmp_path / each / "orphans").unlink()
        await found.finish("t")
        await found.agree(lambda: other)
        assert broker.topics["t"].id == other.id
        assert broker.topics["t"].log(0).log_end_offset == 0
        assert aside(tmp_path) == ["t-0"]
        await found.finish("t")
        assert broker.topics["t"].id == other.id

    live(tmp_path, use)


def test_what_is_wanted_again_when_its_turn_comes_stays(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        found = await begun(broker, 0)
        now = wanted(led={0: 6})
        turn = asyncio.Event()
        before = asyncio.create_task(broker.change(turn.wait()))
        await asyncio.sleep(0)
        agreeing = asyncio.create_task(found.agree(lambda: now))
        await asyncio.sleep(0)
        now = wanted(0)
        turn.set()
        await asyncio.gather(before, agreeing)
        assert values(broker.topics["t"].log(0).read(0)) == ["0"]

    live(tmp_path, use)


def test_what_could_not_be_removed_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        found = await begun(broker, 0)
        with monkeypatch.context() as patched:
            patched.setattr(LogDirs, "delete_all", disk_fails)
            with pytest.raises(StorageIoFailed):
                await found.agree(lambda: wanted(led={0: 6}))
        assert broker.topics["t"].here == frozenset()
        await found.agree(lambda: wanted(0))
        assert broker.topics["t"].log(0).log_end_offset == 0
        assert (folders(tmp_path), aside(tmp_path)) == (["t-0"], ["t-0"])

    live(tmp_path, use)


def test_what_could_not_be_deleted_takes_nothing_of_the_next_topic_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion is tried again by its name."""
    async def use(broker: Broker) -> None:
        found = await begun(broker, 0)
        with monkeypatch.context() as patched:
            patched.setattr(LogDirs, "delete_all", disk_fails)
            await broker.topics.remove("t")
        assert [*broker.topics.undeleted] == ["t"]
        await found.agree(lambda: replace(wanted(1), id=uuid.UUID(int=8)))
        broker.topics["t"].log(1).lead(5, 1, [], [], 1)
        broker.topics["t"].log(1).append_durable(batch("new"))
        await broker.reopening.retry()
        assert (folders(tmp_path), aside(tmp_path)) == (["t-1"], ["t-0"])
        assert [*broker.topics.undeleted] == []

    async def look(broker: Broker) -> None:
        assert broker.topics["t"].log(1).log_end_offset == 1

    live(tmp_path, use)
    live(tmp_path, look)


def test_a_crash_before_the_folder_is_gone_loses_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is gone, and the folder there: the start sets it aside."""

    class Killed(Exception):
        pass

    def kill(*_: object) -> None:
        raise Killed

    async def use(broker: Broker) -> None:
        found = await begun(broker, 0, 1)
        with monkeypatch.context() as patched:
            patched.setattr(LogDirs, "delete_all", kill)
            with pytest.raises(Killed):
                await found.agree(lambda: wanted(1, led={0: 6}))

    async def look(broker: Broker) -> None:
        topic = broker.topics["t"]
        assert topic.here == {1}
        assert topic.log(1).log_end_offset == 1
        assert (folders(tmp_path), aside(tmp_path)) == (["t-1"], ["t-0"])
        await replicated(broker).agree(lambda: wanted(0, 1))
        assert topic.log(0).log_end_offset == 0

    live(tmp_path, use, is_killed=True)
    live(tmp_path, look)


def test_one_that_a_full_disk_refuses_leaves_no_row_and_comes_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same disk takes no deletion in the catalog, either: there is nothing to undo there."""

    def full(*_: object) -> None:
        raise StorageFull("no room")

    async def use(broker: Broker) -> None:
        found = replicated(broker)
        for owner, step in ((partition_creation, "_make"), (LockedDir, "open_log")):
            with monkeypatch.context() as patched:
                patched.setattr(owner, step, full)
                patched.setattr(TopicRows, "begin_deletions", full)
                with pytest.raises(StorageFull):
                    await found.agree(lambda: wanted(0, 2))
            assert broker.topics.rows.all() == []
            assert (folders(tmp_path), broker.log_dir.rows.places()) == ([], {})
        await found.agree(lambda: wanted(0, 2))
        assert broker.topics["t"].log(2).log_end_offset == 0

    live(tmp_path, use)
