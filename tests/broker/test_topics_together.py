"""Topics that are made, extended or deleted together: each by itself, though the disk is asked once
for all; a kill in the middle leaves all of them or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.broker import Broker
from appliance.data_dir import durable_directories, partition_creation
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, StorageFull, StorageIoFailed
from appliance.machine.sync_guarantee import Syncs
from appliance.protocol import ErrorCode
from appliance.topics.topic import (
    LimitExceeded,
    PartitionsInvalid,
    Topic,
    TopicExists,
    TopicInternal,
    TopicUnavailable,
    TopicUnknown,
)
from appliance.topics.topic_rows import TopicRows
from appliance.topics.topics import MorePartitions, NewTopic
from tests.support.broker import kill_points, with_broker
from tests.support.logs import batch, values

DEADLINE_S = 30.0

TOGETHER = 8  # with so many new directories one sync of the file system is cheaper


@pytest.fixture(params=["one sync of the file system", "file by file"], autouse=True)
def syncs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "ext4" if request.param.startswith("one") else "btrfs"
    found = Syncs(kind, True, "")
    monkeypatch.setattr("appliance.data_dir.locked_dir.syncs_on", lambda path: found)


def new(*names: str, partitions: int = 3) -> list[NewTopic]:
    return [NewTopic(name, partitions, {}) for name in names]


def kinds(found: list[Any]) -> list[type]:
    return [type(each) for each in found if isinstance(each, ApplianceError)]


async def look(broker: Broker) -> dict[str, int]:
    for topic in broker.topics.values():
        for number, log in enumerate(topic.all_logs()):
            assert (log.name, log.log_end_offset) == (f"{topic.name}-{number}", 0)
    return {each.name: len(each.logs) for each in broker.topics.values()}


def folders(data: Path) -> list[str]:
    found = [*data.iterdir(), *(data / "orphans").glob("*")]
    apart = ("deleted", "orphans")
    return sorted(each.name for each in found if each.is_dir() and each.name not in apart)


def fails(
    patch: pytest.MonkeyPatch, owner: Any, step: str, is_met: Callable[[str], bool]
) -> None:
    """On a disk that has no room for some names."""
    whole = getattr(owner, step)

    def partial(*given: Any) -> Any:
        if is_met(given[1]):
            raise StorageFull("no room")
        return whole(*given)

    patch.setattr(owner, step, partial)


def test_each_has_its_own_error(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("old", 1)
        wanted = [*new("a", "old"), NewTopic("b c", 3, {}), *new("d"), NewTopic("e", 0, {}),
                  *new("d", "__consumer_offsets", "f")]  # fmt: skip
        found = await broker.topics.create_all(wanted)
        made = [each.name for each in found if not isinstance(each, ApplianceError)]
        assert made == ["a", "d", "f"]
        assert kinds(found)[::2] == [TopicExists, PartitionsInvalid, TopicInternal]
        assert {*broker.topics} == {"old", "a", "d", "f"}

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"old": 1, "a": 3, "d": 3, "f": 3}


def test_those_before_count_where_there_is_a_limit(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        found = await broker.topics.create_all(new("a", "b", "c.d", "c_d"))
        assert str(found[3]) == "c_d collides with c.d: '.' and '_' count as one"
        assert len(broker.topics) == 3
        found = await broker.topics.create_all(new("e", "f"))
        assert kinds(found) == [LimitExceeded]
        more = [MorePartitions(name, 4) for name in ("a", "b")]
        assert [type(each) for each in await broker.topics.create_all_partitions(more)] == [
            type(None), LimitExceeded]  # fmt: skip

    with_broker(tmp_path, use, partitions_max=13)


MIDDLE = [(partition_creation, "_make"), (LockedDir, "open_log")]


@pytest.mark.parametrize(("owner", "step"), MIDDLE, ids=["directory", "log"])
def test_one_that_fails_at_the_disk_fails_alone(
    owner: Any, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        with monkeypatch.context() as patch:
            fails(patch, owner, step, lambda name: name == "c-1")
            found = await broker.topics.create_all(new("a", "b", "c", "d"))
            assert kinds(found) == [StorageFull]
            assert isinstance(found[2], StorageFull)
            assert [*await look(broker)] == ["a", "b", "d"]
            assert not any(each.startswith("c") for each in folders(tmp_path))
            fails(patch, owner, step, lambda name: name == "a-4")
            more = [MorePartitions(name, 6) for name in ("a", "b", "d")]
            assert kinds(await broker.topics.create_all_partitions(more)) == [StorageFull]
        assert await look(broker) == {"a": 3, "b": 6, "d": 6}
        await broker.topics.create("c", 3)
        await broker.topics.create_partitions("a", 5)

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"a": 5, "b": 6, "c": 3, "d": 6}


def test_without_room_for_their_rows_there_is_none_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StorageFull("no room")

    async def use(broker: Broker) -> None:
        await broker.topics.create("old", 2)
        with monkeypatch.context() as patch:
            patch.setattr(TopicRows, "put", full)
            patch.setattr(TopicRows, "set_partitions", full)
            # A full disk takes no deletion, either.
            patch.setattr(TopicRows, "begin_deletions", full)
            assert kinds(await broker.topics.create_all(new("a", "b", "c"))) == [StorageFull] * 3
            more = [MorePartitions("old", 2 + TOGETHER)]
            assert kinds(await broker.topics.create_all_partitions(more)) == [StorageFull]
        assert folders(tmp_path) == ["old-0", "old-1"]
        assert broker.log_dir.held() == [("old", 0), ("old", 1)]
        (topic, *_) = await broker.topics.create_all(new("a", "b", "c"))
        assert not isinstance(topic, ApplianceError)
        topic.log(2).append_durable(batch("kept"))
        assert await broker.topics.create_all_partitions([MorePartitions("old", 3)]) == [None]

    async def again(broker: Broker) -> None:
        assert values(broker.topics["a"].log(2).read(0)) == ["kept"]
        assert broker.log_dir.report.notes == []
        assert len(broker.topics["old"].logs) == 3

    with_broker(tmp_path, use)
    with_broker(tmp_path, again)


async def delete(broker: Broker, *names: str) -> dict[str, type]:
    failures = await broker.topics.delete_all(dict.fromkeys(names))
    return {name: type(error) for name, error in failures.items()}


def test_each_that_cannot_be_deleted_has_its_own_error(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create_all(new("a", "b", "c"))
        wanted = {"gone": TopicUnknown, "__consumer_offsets": TopicInternal}
        assert await delete(broker, "a", "gone", "__consumer_offsets", "c") == wanted
        assert await delete(broker, "a", "c") == {"a": TopicUnknown, "c": TopicUnknown}
        assert (await look(broker), broker.topics.undeleted) == ({"b": 3}, {})
        assert folders(tmp_path) == ["b-0", "b-1", "b-2"]
        assert not [*(tmp_path / "deleted").iterdir()]

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"b": 3}


def test_files_that_cannot_be_moved_keep_the_name_of_their_topic_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create_all(new("a", "b", "c"))
        with monkeypatch.context() as patch:
            fails(patch, LogDir, "_move_one", lambda name: name == "b")
            assert await delete(broker, "a", "b", "c") == {}, "no client sees any of them"
        assert (await look(broker), broker.topics.undeleted) == ({}, {"b": "no room"})
        assert folders(tmp_path) == ["b-0", "b-1", "b-2"]
        assert kinds(await broker.topics.create_all(new("a", "b", "c"))) == [TopicUnavailable]
        assert await broker.reopening.retry() == 1
        await broker.topics.create("b", 2)

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"a": 3, "b": 2, "c": 3}


def test_a_sync_that_fails_is_told_of_all_that_it_was_for_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the journal would know the end of a former topic, and a new one would begin there."""

    async def use(broker: Broker) -> None:
        for each in await broker.topics.create_all(new("a", "b")):
            assert isinstance(each, Topic)
            each.log(0).append_durable(batch("old"))
        broker.log_dir.checkpoint()
        with monkeypatch.context() as patch:
            patch.setattr(durable_directories, "sync_name", disk_fails)
            assert await delete(broker, "a", "b") == {}
            assert [*broker.topics.undeleted] == ["a", "b"]
            assert await broker.reopening.retry() == 0
            assert kinds(await broker.topics.create_all(new("c"))) == [StorageIoFailed]
        assert await broker.reopening.retry() == 2
        assert [*(broker.log_dir.path / "deleted").iterdir()] == [], "their space is free"
        assert kinds(await broker.topics.create_all(new("a", "b"))) == []

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"a": 3, "b": 3}


def test_files_of_a_deletion_go_with_the_next_topic_that_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own try found them moved away, but not yet durably."""

    async def use(broker: Broker) -> None:
        await broker.topics.create_all(new("a"))
        with monkeypatch.context() as patch:
            patch.setattr(durable_directories, "sync_name", disk_fails)
            assert await delete(broker, "a") == {}
        graves = broker.log_dir.path / "deleted"
        assert len([*graves.iterdir()]) == 3
        await broker.topics.create_all(new("b"))
        assert [*graves.iterdir()] == []

    with_broker(tmp_path, use)


def disk_fails(*_: Any) -> None:
    raise StorageIoFailed("the disk")


def test_whoever_deletes_while_somebody_else_ends_the_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that tries again: the row goes while he waits for the catalog."""
    is_ending, is_beginning, has_ended = (threading.Event() for _ in range(3))
    begin, end = TopicRows.begin_deletions, TopicRows.end_deletions

    def slow_end(*given: Any) -> None:
        is_ending.set()
        assert is_beginning.wait(DEADLINE_S)
        end(*given)

    def slow_begin(*given: Any) -> None:
        is_beginning.set()
        assert has_ended.wait(DEADLINE_S)
        begin(*given)

    async def use(broker: Broker) -> None:
        await broker.topics.create_all(new("a", "b"))
        monkeypatch.setattr(TopicRows, "end_deletions", slow_end)
        first = asyncio.create_task(delete(broker, "a"))
        await asyncio.to_thread(is_ending.wait, DEADLINE_S)
        monkeypatch.setattr(TopicRows, "begin_deletions", slow_begin)
        second = asyncio.create_task(delete(broker, "a", "b"))
        assert await first == {}
        has_ended.set()
        assert await second == {}
        assert broker.topics.undeleted == {}

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {}


def test_a_topic_that_was_made_anew_is_not_deleted_for_its_former_one(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        former = await broker.topics.create("a", 1)
        await broker.topics.delete("a")
        await broker.topics.create("a", 2)
        failures = await broker.topics.delete_all({"a": former.id})
        assert failures["a"].kafka_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert str(failures["a"]).startswith("a was made anew: it has id ")

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"a": 2}


@pytest.mark.parametrize("step", ["begin_deletions", "end_deletions"])
def test_rows_that_cannot_be_changed(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StorageFull("no room")

    async def use(broker: Broker) -> None:
        await broker.topics.create_all(new("a", "b"))
        with monkeypatch.context() as patch:
            patch.setattr(TopicRows, step, full)
            failures = await delete(broker, "a", "gone", "b")
        refused = {"a": StorageFull, "b": StorageFull} if step == "begin_deletions" else {}
        assert failures == {"gone": TopicUnknown, **refused}
        assert [*broker.topics] == [*refused]
        assert [*broker.topics.undeleted] == ([] if refused else ["a", "b"])
        assert await broker.reopening.retry() == (0 if refused else 2)
        assert await delete(broker, *refused) == broker.topics.undeleted == {}

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {}


# Kills


def states_after_kills(
    change: Callable[[Broker], Coroutine[Any, Any, Any]],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[dict[str, int]]:
    data = root / "data"

    async def watched(broker: Broker) -> None:
        await broker.topics.create("old", 2)
        with monkeypatch.context() as patch:
            kills.extend([kill_points(data, root / "kills", patch)])
            await change(broker)

    kills: list[list[Path]] = []
    with_broker(data, watched)
    return [after_kill(each) for each in kills[0]]


def after_kill(data: Path) -> dict[str, int]:
    async def use(broker: Broker) -> dict[str, int]:
        found = await look(broker)
        wanted = [f"{name}-{number}" for name, count in found.items() for number in range(count)]
        assert folders(data) == sorted(wanted)
        assert broker.log_dir.report.losses == []
        notes.append(broker.log_dir.report.notes)
        return found

    notes: list[list[str]] = []
    first = with_broker(data, use, is_killed=True)
    assert with_broker(data, use) == first
    assert notes[1] == []
    return first


def test_a_kill_in_the_middle_leaves_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change(broker: Broker) -> None:
        await broker.topics.create_all(new("a", "b", "c"))

    states = states_after_kills(change, tmp_path, monkeypatch)
    before, after = {"old": 2}, {"old": 2, "a": 3, "b": 3, "c": 3}
    assert (states[0], states[-1]) == (before, after)
    assert all(each in (before, after) for each in states)


def test_a_kill_while_many_get_more_partitions_leaves_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change(broker: Broker) -> None:
        more = [MorePartitions("old", 6), MorePartitions("older", 7)]
        await broker.topics.create_all_partitions(more)

    async def both(broker: Broker) -> None:
        await broker.topics.create("older", 3)
        with monkeypatch.context() as patch:
            kills.extend([kill_points(tmp_path / "data", tmp_path / "kills", patch)])
            await change(broker)

    kills: list[list[Path]] = []
    with_broker(tmp_path / "data", lambda broker: broker.topics.create("old", 2))
    with_broker(tmp_path / "data", both)
    states = [after_kill(each) for each in kills[0]]
    before, after = {"old": 2, "older": 3}, {"old": 6, "older": 7}
    assert (states[0], states[-1]) == (before, after)
    assert all(each in (before, after) for each in states)


def test_a_kill_while_many_are_deleted_leaves_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change(broker: Broker) -> None:
        kept = await broker.topics.create_all(new("a", "b", "c"))
        assert kinds(kept) == []
        with monkeypatch.context() as patch:
            kills.extend([kill_points(tmp_path / "data", tmp_path / "kills", patch)])
            assert await delete(broker, "a", "b", "c") == {}

    kills: list[list[Path]] = []
    with_broker(tmp_path / "data", lambda broker: broker.topics.create("old", 2))
    with_broker(tmp_path / "data", change)
    states = [after_kill(each) for each in kills[0]]
    before, after = {"old": 2, "a": 3, "b": 3, "c": 3}, {"old": 2}
    assert (states[0], states[-1]) == (before, after)
    assert all(each in (before, after) for each in states)


def test_what_a_crash_left_of_a_creation_is_removed_and_told(tmp_path: Path) -> None:
    async def crash(broker: Broker) -> None:
        await broker.topics.create("old", 1)
        broker.log_dir.create_all("a", range(2 * TOGETHER))

    async def use(broker: Broker) -> list[str]:
        assert await look(broker) == {"old": 1}
        return broker.log_dir.report.notes

    with_broker(tmp_path, crash, is_killed=True)
    (note,) = with_broker(tmp_path, use)
    assert "a-9 and 6 more had no topic and never a record" in note
    assert folders(tmp_path) == ["old-0"]
    assert with_broker(tmp_path, use) == []


@pytest.mark.parametrize("name", [f"{0:020d}.log.corrupt-1", "notes.txt"])
def test_a_file_with_anything_in_it_keeps_its_directory(name: str, tmp_path: Path) -> None:
    async def crash(broker: Broker) -> None:
        await broker.topics.create("old", 1)
        broker.log_dir.create("a", 0)

    with_broker(tmp_path, crash, is_killed=True)
    (tmp_path / "a-0" / name).write_bytes(b"something")
    with_broker(tmp_path, look)
    assert (tmp_path / "orphans" / "a-0" / name).read_bytes() == b"something"
