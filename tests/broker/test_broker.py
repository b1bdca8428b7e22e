"""Topics come, change and go on a real directory with a real catalog; a kill at any step of it
leaves a state that was asked for, and no record is lost."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.broker import Broker
from appliance.catalog import kafka_uuid
from appliance.catalog.catalog import NAME
from appliance.catalog.loss_ledger import Damage
from appliance.catalog.producer_id_rows import BLOCK
from appliance.config import BrokerConfig, LogConfig, dynamic_broker_config
from appliance.config.config_key import ConfigChange, ConfigInvalid, ConfigOperation
from appliance.data_dir import partition_creation, partition_metadata
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_names import TopicNameInvalid
from appliance.errors import ApplianceError, StorageFull
from appliance.topics.reconciliation import PRODUCER_IDS_MARGIN, DirectoryUnexpected
from appliance.topics.topic import (
    LimitExceeded,
    PartitionsInvalid,
    TopicDeletionDisabled,
    TopicExists,
    TopicUnavailable,
    TopicUnknown,
)
from appliance.topics.topic_rows import TopicRows
from tests.support.broker import Recorder, kill_points, with_broker
from tests.support.logs import (
    DAY_MS,
    NOW,
    batch,
    everything,
    log_config,
    opened,
    produced,
    values,
)

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
LATER = NOW + 4000 * DAY_MS  # everything is due for deletion


def recorder(broker: Broker) -> Recorder:
    (table,) = broker.topics._tables
    assert isinstance(table, Recorder)
    return table


def directories(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir()
                  if path.is_dir() and path.name not in ("deleted", "orphans"))


def orphans(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "orphans").glob("*"))


def records(broker: Broker, topic: str) -> list[list[str]]:
    return [values(everything(log)) for log in broker.topics[topic].logs]


async def look(broker: Broker) -> dict[str, int]:
    return {each.name: len(each.logs) for each in broker.topics.values()}


# Topics


def test_a_topic_is_made_found_and_there_again(tmp_path: Path) -> None:
    async def make(broker: Broker) -> Any:
        topic = await broker.topics.create("orders", 3, {"retention.ms": "5"})
        assert broker.topics == {"orders": topic}
        assert broker.topics.of_id(topic.id) is topic
        assert [log.name for log in topic.logs] == ["orders-0", "orders-1", "orders-2"]
        assert recorder(broker).topics == {"orders": (topic.id.bytes, topic.logs)}
        assert not topic.is_internal
        topic.logs[1].append_durable(batch("a"))
        return topic.id, topic.created_ms, broker.cluster_id

    async def look_again(broker: Broker) -> Any:
        topic = broker.topics["orders"]
        assert recorder(broker).topics == {"orders": (topic.id.bytes, topic.logs)}
        assert records(broker, "orders") == [[], ["a"], []]
        assert topic.configs == {"retention.ms": "5"}
        assert broker.log_dir.report.notes == []
        return topic.id, topic.created_ms, broker.cluster_id

    made = with_broker(tmp_path, make)
    assert with_broker(tmp_path, look_again, is_killed=True) == made
    assert with_broker(tmp_path, look_again) == made
    assert partition_metadata.read(tmp_path / "orders-2") == made[0]


def test_defaults_are_the_brokers(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        assert broker.topics.validate("t", -1)[0] == 4
        assert len((await broker.topics.create("t")).logs) == 4
        assert len((await broker.topics.create("u", 2)).logs) == 2

    with_broker(tmp_path, use, num_partitions=4)


REFUSED = [
    ("a b", 1, {}, TopicNameInvalid, 17),
    ("", 1, {}, TopicNameInvalid, 17),
    (".", 1, {}, TopicNameInvalid, 17),
    ("..", 1, {}, TopicNameInvalid, 17),
    ("a" * 250, 1, {}, TopicNameInvalid, 17),
    ("../x", 1, {}, TopicNameInvalid, 17),
    ("a\n", 1, {}, TopicNameInvalid, 17),
    ("__cluster_metadata", 1, {}, TopicNameInvalid, 17),
    ("there_is", 1, {}, TopicNameInvalid, 17),
    ("there.is", 1, {}, TopicExists, 36),
    ("t", 0, {}, PartitionsInvalid, 37),
    ("t", -2, {}, PartitionsInvalid, 37),
    ("t", 6, {}, LimitExceeded, 44),
    ("t", 5, {}, LimitExceeded, 44),
    ("t", 1, {"none": "x"}, ConfigInvalid, 40),
    ("t", 1, {"retention.ms": "soon"}, ConfigInvalid, 40),
]


@pytest.mark.parametrize(("name", "count", "configs", "error", "code"), REFUSED)
def test_what_may_not_be_is_refused_and_leaves_nothing(
    name: str, count: int, configs: dict[str, str], error: type[ApplianceError], code: int,
    tmp_path: Path,
) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("there.is", 2)
        with pytest.raises(error):
            broker.topics.validate(name, count, configs)
        with pytest.raises(error) as refused:
            await broker.topics.create(name, count, configs)
        assert refused.value.kafka_code == code
        assert await look(broker) == {"there.is": 2}
        assert len(broker.topics.rows.all()) == 1

    with_broker(tmp_path, use, partitions_per_topic_max=5, partitions_max=6)
    assert directories(tmp_path) == ["there.is-0", "there.is-1"]


def test_the_brokers_own_topics_are_made_beside_as_many_as_there_may_be(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("full", 6)
        await broker.change(broker.topics._create("__consumer_offsets", 5, {}))
        assert await look(broker) == {"full": 6, "__consumer_offsets": 5}

    with_broker(tmp_path, use, partitions_per_topic_max=50, partitions_max=6)


def test_an_unknown_topic_is_unknown_to_every_change(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        for change in (
            broker.topics.delete("t"),
            broker.topics.create_partitions("t", 2),
            broker.configs.set_topic("t", {}),
            broker.configs.alter_topic("t", []),
        ):
            with pytest.raises(TopicUnknown, match="there is no topic 't'"):
                await change
        assert broker.topics.of_id(kafka_uuid.new()) is None

    with_broker(tmp_path, use)


def test_partitions_are_added_and_never_removed(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 2)
        topic.logs[0].append_durable(batch("a"))
        await broker.topics.create_partitions("t", 4)
        assert [log.partition for log in topic.logs] == [0, 1, 2, 3]
        assert recorder(broker).told == ["put t 2", "put t 4"]
        for total, error in ((4, PartitionsInvalid), (1, PartitionsInvalid), (7, LimitExceeded)):
            with pytest.raises(error):
                await broker.topics.create_partitions("t", total)

    with_broker(tmp_path, use, partitions_per_topic_max=6)
    assert with_broker(tmp_path, look) == {"t": 4}
    assert partition_metadata.read(tmp_path / "t-3") == partition_metadata.read(tmp_path / "t-0")


def test_a_deleted_topic_is_gone_and_its_name_is_free(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 2, {"retention.ms": "5"})
        topic.logs[0].append_durable(batch("old"))
        await broker.topics.delete("t")
        assert (broker.topics, broker.topics.of_id(topic.id)) == ({}, None)
        assert recorder(broker).told == ["put t 2", "remove t"]
        assert directories(tmp_path) == []
        again = await broker.topics.create("t")
        assert again.id != topic.id
        assert (again.configs, records(broker, "t")) == ({}, [[]])

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"t": 1}


def test_deleting_can_be_switched_off(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t")
        with pytest.raises(TopicDeletionDisabled, match=r"delete\.topic\.enable is false"):
            await broker.topics.delete("t")

    with_broker(tmp_path, use, may_delete=False)


# Changes in turn


def test_changes_come_one_after_the_other(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        asked = [broker.topics.create("t", 2) for _ in range(5)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, TopicExists) for each in done) == 4
        await asyncio.gather(*(broker.topics.create(f"u{i}") for i in range(5)))
        assert len(broker.topics) == 6

    with_broker(tmp_path, use)


def test_a_change_goes_on_when_who_asked_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()
    create = LogDir.create_new

    def slow(*given: Any) -> Any:
        has_begun.set()
        assert may_go_on.wait(20)
        return create(*given)

    async def use(broker: Broker) -> None:
        asked = asyncio.create_task(broker.topics.create("t", 2))
        await asyncio.to_thread(has_begun.wait, 20)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        may_go_on.set()
        await broker.topics.create("u")
        assert await look(broker) == {"t": 2, "u": 1}

    monkeypatch.setattr(LogDir, "create_new", slow)
    with_broker(tmp_path, use)


# Failures


class Broken:
    """Lets a step work so many times and then fail."""

    def __init__(self, step: Callable[..., Any], times: int, error: Exception) -> None:
        self.step, self.times, self.error = step, times, error

    def __get__(self, owner: Any, kind: Any) -> Callable[..., Any]:
        return partial(self, owner)

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self.times == 0:
            raise self.error
        self.times -= 1
        return self.step(*given, **named)


CREATION = [(partition_creation, "_make"), (LockedDir, "open_log")]


def broken_at(patch: pytest.MonkeyPatch, owner: Any, step: str, works: int) -> None:
    patch.setattr(owner, step, Broken(getattr(owner, step), works, StorageFull("no room")))


def losses(broker: Broker) -> list[Damage]:
    return broker.log_dir.report.losses


@pytest.mark.parametrize("step", CREATION, ids=["directory", "log"])
@pytest.mark.parametrize("works", [0, 1, 2])
def test_a_creation_that_fails_is_undone(
    step: tuple[Any, str], works: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        with monkeypatch.context() as patch:
            broken_at(patch, *step, works)
            with pytest.raises(StorageFull):
                await broker.topics.create("t", 3)
        assert (broker.topics, recorder(broker).told) == ({}, [])
        assert (broker.topics.rows.all(), broker.topics.rows.deletions()) == ([], [])
        assert directories(tmp_path) == []

    async def again(broker: Broker) -> None:
        assert losses(broker) == []
        await broker.topics.create("t", 3)

    with_broker(tmp_path, use)
    with_broker(tmp_path, again)
    assert with_broker(tmp_path, look) == {"t": 3}


@pytest.mark.parametrize("step", CREATION, ids=["directory", "log"])
@pytest.mark.parametrize("works", [0, 1])
def test_adding_partitions_that_fails_is_undone(
    step: tuple[Any, str], works: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 2)
        with monkeypatch.context() as patch:
            broken_at(patch, *step, works)
            with pytest.raises(StorageFull):
                await broker.topics.create_partitions("t", 4)
        assert await look(broker) == {"t": 2}
        assert directories(tmp_path) == ["t-0", "t-1"]

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"t": 2}
    assert orphans(tmp_path) == []


def test_a_deletion_that_fails_midway_is_one_and_the_next_start_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 3)
        with monkeypatch.context() as patch:
            broken_at(patch, LogDir, "_move_one", 1)
            await broker.topics.delete("t")
        assert recorder(broker).told == ["put t 3", "remove t"]
        assert directories(tmp_path) == ["t-1", "t-2"]
        with pytest.raises(TopicUnavailable, match="cannot be finished: no room"):
            await broker.topics.create("t")

    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {}
    assert (directories(tmp_path), orphans(tmp_path)) == ([], [])


def test_a_deletion_that_failed_can_be_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 3)
        with monkeypatch.context() as patch:
            broken_at(patch, LogDir, "_move_one", 1)
            await broker.topics.delete("t")
        await broker.topics.delete("t")
        assert (directories(tmp_path), broker.topics.rows.deletions()) == ([], [])
        await broker.topics.create("t")

    with_broker(tmp_path, use)


def test_what_the_catalog_cannot_keep_does_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 1, {"flush.ms": "7"})
        for name in ("put", "begin_deletions", "set_configs", "set_partitions"):
            step = Broken(getattr(TopicRows, name), 0, StorageFull("no room"))
            monkeypatch.setattr(TopicRows, name, step)
        for change in (
            broker.topics.create("u"),
            broker.topics.delete("t"),
            broker.configs.set_topic("t", {}),
            broker.topics.create_partitions("t", 2),
        ):
            with pytest.raises(StorageFull):
                await change
        assert (broker.topics, topic.configs) == ({"t": topic}, {"flush.ms": "7"})
        assert directories(tmp_path) == ["t-0"]
        topic.logs[0].append_durable(batch("a"))

    with_broker(tmp_path, use)


# Kills

Use = Callable[[Broker], Coroutine[Any, Any, Any]]


def killed_during(change: Use, data: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A copy of the directory from each step of the change."""

    async def prepare(broker: Broker) -> None:
        topic = await broker.topics.create("old", 2, {"flush.ms": "7"})
        for i, log in enumerate(topic.logs):
            log.append_durable(batch(f"old-{i}"))

    async def watched(broker: Broker) -> None:
        with monkeypatch.context() as patch:
            kills.extend([kill_points(data, data.parent / "kills", patch)])
            await change(broker)

    kills: list[list[Path]] = []
    with_broker(data, prepare)
    with_broker(data, watched)
    return kills[0]


def after_kill(data: Path) -> dict[str, int]:
    """What a start makes of it, twice: the second finds nothing more to do."""

    async def use(broker: Broker) -> dict[str, int]:
        for topic in broker.topics.values():
            for log in topic.logs:
                assert log.failed is None
                path = data / log.name
                assert partition_metadata.read(path) == topic.id
        if "old" in broker.topics:
            assert records(broker, "old")[:2] == [["old-0"], ["old-1"]]
        assert broker.log_dir.report.losses == []
        assert (broker.topics.not_open(), broker.topics.undeleted) == ({}, {})
        assert broker.topics.rows.deletions() == []
        assert orphans(data) == []
        wanted = [f"{name}-{i}" for name, n in (await look(broker)).items() for i in range(n)]
        assert directories(data) == sorted(wanted)
        notes.append(broker.log_dir.report.notes)
        return await look(broker)

    notes: list[list[str]] = []
    first = with_broker(data, use, is_killed=True)
    assert with_broker(data, use) == first
    assert notes[1] == []
    return first


def test_a_kill_while_a_topic_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def change(broker: Broker) -> None:
        await broker.topics.create("new", 3, {"retention.ms": "5"})

    states = [after_kill(each) for each in killed_during(change, tmp_path / "d", monkeypatch)]
    assert states[0] == {"old": 2}
    assert states[-1] == {"new": 3, "old": 2}
    assert all(each in (states[0], states[-1]) for each in states)


def test_a_kill_while_partitions_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change(broker: Broker) -> None:
        await broker.topics.create_partitions("old", 4)

    states = [after_kill(each) for each in killed_during(change, tmp_path / "d", monkeypatch)]
    assert (states[0], states[-1]) == ({"old": 2}, {"old": 4})
    assert all(each in (states[0], states[-1]) for each in states)


def test_a_kill_while_a_topic_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def change(broker: Broker) -> None:
        await broker.topics.delete("old")

    states = [after_kill(each) for each in killed_during(change, tmp_path / "d", monkeypatch)]
    assert (states[0], states[-1]) == ({"old": 2}, {})
    assert all(each in (states[0], states[-1]) for each in states)


def test_a_kill_while_configs_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def change(broker: Broker) -> None:
        await broker.configs.set_topic("old", {"flush.ms": "9"})
        await broker.configs.set_broker({"log.roll.ms": "8"})

    async def configs(broker: Broker) -> tuple[str, str]:
        await look(broker)
        of_topic = broker.configs.of_topic
        return of_topic("old", "flush.ms"), of_topic("old", "segment.ms")

    kills = killed_during(change, tmp_path / "d", monkeypatch)
    states = [with_broker(each, configs) for each in kills]
    default = str(log_config().segment_ms)
    assert [dict.fromkeys(states)] == [dict.fromkeys([("7", default), ("9", default), ("9", "8")])]


def test_a_kill_while_a_start_repairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion to finish, a creation to finish, and no catalog: each may be interrupted too."""
    data = tmp_path / "d"

    async def prepare(broker: Broker) -> None:
        for name in ("old", "gone", "half"):
            topic = await broker.topics.create(name, 2)
            for i, log in enumerate(topic.logs):
                log.append_durable(batch(f"{name}-{i}"))
        broker.topics.rows.begin_deletions(["gone"])
        await broker.topics.create("new", 3)
        broker.log_dir.delete_all([("new", 1)])

    with_broker(data, prepare)
    with monkeypatch.context() as patch:
        kills = kill_points(data, tmp_path / "kills", patch)
        assert with_broker(data, look) == {"half": 2, "new": 3, "old": 2}
    for each in kills:
        assert after_kill(each) == {"half": 2, "new": 3, "old": 2}
    for path in data.glob(f"{NAME}*"):
        path.unlink()
    shutil.rmtree(tmp_path / "kills")
    with monkeypatch.context() as patch:
        kills = kill_points(data, tmp_path / "kills", patch)
        assert with_broker(data, look) == {"half": 2, "new": 3, "old": 2}
    for each in kills:
        assert after_kill(each) == {"half": 2, "new": 3, "old": 2}


# The start


def test_without_a_catalog_topics_are_taken_from_their_directories(tmp_path: Path) -> None:
    async def make(broker: Broker) -> Any:
        topic = await broker.topics.create("orders", 2, {"retention.ms": "1"})
        topic.logs[0].append_durable(produced(0, pid=41))
        await broker.topics.create("clicks", 1)
        return {each.name: each.id for each in broker.topics.values()}

    async def found(broker: Broker) -> Any:
        (note,) = broker.log_dir.report.notes
        assert "2 topics were taken from their directories" in note
        assert broker.topics["orders"].configs == {"cleanup.policy": ""}
        assert broker.topics["orders"].logs[0].retain(LATER) == 0
        first = await broker.producer_ids.new()
        assert first == 42 + PRODUCER_IDS_MARGIN
        return {each.name: each.id for each in broker.topics.values()}

    made = with_broker(tmp_path, make)
    for path in tmp_path.glob(f"{NAME}*"):
        path.unlink()
    assert with_broker(tmp_path, found) == made


def test_logs_that_no_catalog_ever_knew_are_topics(tmp_path: Path) -> None:
    """As another broker, or an older version of this one, left them."""
    with opened(tmp_path) as log_dir:
        for name, partition in (("a", 0), ("a", 2), ("b", 0), ("__cluster_metadata", 0)):
            log_dir.create(name, partition).append_durable(batch(f"{name}-{partition}"))
    twice = kafka_uuid.new()
    partition_metadata.write(tmp_path / "a-2", twice)
    partition_metadata.write(tmp_path / "b-0", twice)

    async def use(broker: Broker) -> None:
        assert await look(broker) == {"a": 3, "b": 1}
        assert records(broker, "a") == [["a-0"], [], ["a-2"]]
        assert broker.topics["a"].id == twice != broker.topics["b"].id
        assert "a-1 had no directory and is empty now" in broker.log_dir.report.notes[1]

    with_broker(tmp_path, use)
    assert partition_metadata.read(tmp_path / "__cluster_metadata-0") is None
    assert orphans(tmp_path) == []


def test_a_stray_directory_does_not_make_a_thousand_partitions(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log_dir.create("t", 5000)
    with pytest.raises(DirectoryUnexpected, match=r"t-5000: .* 5001 partitions; wanted at most"):
        with_broker(tmp_path, look)


def test_a_directory_of_no_topic_is_set_aside_with_all_that_it_holds(tmp_path: Path) -> None:
    async def make(broker: Broker) -> None:
        await broker.topics.create("t", 1)

    def leave(name: str, partition: int) -> bytes:
        with opened(tmp_path) as log_dir:
            log = log_dir.create(name, partition)
            log.append_durable(batch("precious"))
            return log.read(0)

    async def use(broker: Broker) -> None:
        assert await look(broker) == {"t": 1}
        assert all("is no topic's: set aside as" in note for note in broker.log_dir.report.notes)
        assert broker.log_dir.report.losses == []
        counts.append(len(broker.log_dir.report.notes))

    counts: list[int] = []
    with_broker(tmp_path, make)
    data = leave("stray", 0)
    leave("t", 1)
    with_broker(tmp_path, use)
    leave("stray", 0)
    with_broker(tmp_path, use)
    with_broker(tmp_path, use, is_killed=True)
    with_broker(tmp_path, use)
    assert counts == [2, 1, 0, 0]
    assert orphans(tmp_path) == ["stray-0", "stray-0.1", "t-1"]
    for name in orphans(tmp_path):
        assert (tmp_path / "orphans" / name / f"{0:020d}.log").read_bytes() == data


def test_a_directory_that_is_gone_is_told_and_made_anew(tmp_path: Path) -> None:
    async def make(broker: Broker) -> None:
        topic = await broker.topics.create("t", 2)
        for log in topic.logs:
            log.append_durable(batch("a"))

    async def use(broker: Broker) -> None:
        assert records(broker, "t") == [["a"], []]
        (note,) = broker.log_dir.report.notes
        assert note.startswith("t-1 had no directory: it was made anew, and goes on at offset 1.")
        (loss,) = broker.log_dir.report.losses
        assert (loss.topic, loss.partition, loss.first_offset, loss.last_offset) == ("t", 1, 0, 0)
        assert [each.damage for each in broker.ledger.open()] == [loss]
        log = broker.topics["t"].logs[1]
        assert log.append_durable(batch("b")).base_offset == 1

    with_broker(tmp_path, make)
    shutil.rmtree(tmp_path / "t-1")
    with_broker(tmp_path, use)


def test_a_wrong_or_torn_id_in_a_directory_is_put_right(tmp_path: Path) -> None:
    async def make(broker: Broker) -> None:
        topic = await broker.topics.create("t", 3)
        topic.logs[0].append_durable(batch("a"))

    async def use(broker: Broker) -> list[str]:
        for i in range(3):
            assert partition_metadata.read(tmp_path / f"t-{i}") == broker.topics["t"].id
        assert records(broker, "t") == [["a"], [], []]
        return broker.log_dir.report.notes

    with_broker(tmp_path, make)
    partition_metadata.write(tmp_path / "t-0", kafka_uuid.new())
    (tmp_path / "t-1" / partition_metadata.NAME).write_bytes(b"")
    (tmp_path / "t-2" / partition_metadata.NAME).unlink()
    (note,) = with_broker(tmp_path, use)
    assert note.startswith("t-0 said that its topic's id is")
    assert with_broker(tmp_path, use) == []


def test_a_partition_that_cannot_be_opened_is_not_served_and_all_others_are(
    tmp_path: Path,
) -> None:
    async def make(broker: Broker) -> None:
        await broker.topics.create("bad", 2)
        await broker.topics.create("good", 1)

    async def use(broker: Broker) -> None:
        assert await look(broker) == {"good": 1, "bad": 2}
        bad = broker.topics["bad"]
        assert [log is None for log in bad.logs] == [False, True]
        assert [*broker.topics.not_open()] == [("bad", 1)]
        with pytest.raises(TopicUnavailable, match=r"bad-1 is not served: .*cannot be opened"):
            bad.log(1)
        with pytest.raises(TopicExists):
            await broker.topics.create("bad")
        await broker.topics.create_partitions("bad", 3)
        assert [log is None for log in bad.logs] == [False, True, False]
        await broker.configs.set_topic("bad", {"flush.ms": "7"})
        await broker.topics.delete("bad")
        assert directories(tmp_path) == ["good-0"]

    with_broker(tmp_path, make)
    log = tmp_path / "bad-1" / f"{0:020d}.log"
    log.unlink()
    log.mkdir()
    with_broker(tmp_path, use)


def test_configs_that_another_version_stored_stop_no_start_and_no_record(tmp_path: Path) -> None:
    async def make(broker: Broker) -> None:
        await broker.topics.create("t", 1)
        broker.topics.rows.set_configs("t", {"from.the.future": "1", "flush.ms": "3"})
        broker.configs.rows.set({False: {"log.from.the.future": "1", "log.roll.ms": "4"}})

    async def use(broker: Broker) -> None:
        first, second = broker.log_dir.report.notes
        assert "log.from.the.future: there is no such broker config" in first
        assert "t: from.the.future: there is no such topic config" in second
        assert broker.topics["t"].configs == {"flush.ms": "3", "cleanup.policy": ""}
        assert (broker.topics.base.segment_ms, broker.topics.base.retention_ms) == (4, -1)
        await broker.configs.set_broker({})
        await broker.configs.set_topic("t", {})

    with_broker(tmp_path, make)
    with_broker(tmp_path, use)
    assert with_broker(tmp_path, look) == {"t": 1}


# Configs


def test_a_topics_configs_are_in_force_at_once_and_after_a_start(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 2, {"retention.ms": "-1"})
        for log in topic.logs:
            log.append_durable(batch("a"))
            log.roll()
        broker.log_dir.checkpoint()
        assert broker.log_dir.retain(LATER) == 0
        await broker.configs.alter_topic("t", [ConfigChange("retention.ms", SET, "1")], True)
        assert topic.configs == {"retention.ms": "-1"}
        await broker.configs.alter_topic("t", [ConfigChange("retention.ms", SET, " 1")])
        assert topic.configs == {"retention.ms": "1"}
        assert topic.logs[0].retain(LATER) > 0
        with pytest.raises(ConfigInvalid):
            await broker.configs.alter_topic("t", [ConfigChange("segment.ms", APPEND, "1")])

    async def look_again(broker: Broker) -> None:
        assert broker.topics["t"].configs == {"retention.ms": "1"}
        assert broker.topics["t"].logs[1].retain(LATER) > 0

    with_broker(tmp_path, use)
    with_broker(tmp_path, look_again)


def test_appending_begins_from_what_is_in_force(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t")
        await broker.configs.alter_broker([ConfigChange("log.cleanup.policy", SET, "compact")])
        await broker.configs.alter_topic("t", [ConfigChange("cleanup.policy", APPEND, "delete")])
        assert topic.configs == {"cleanup.policy": "compact,delete"}

    with_broker(tmp_path, use)


def test_the_brokers_defaults_change_while_it_runs(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        for name, configs in (("a", {}), ("b", {"retention.ms": "-1"})):
            topic = await broker.topics.create(name, 1, configs)
            topic.logs[0].append_durable(batch("x"))
            topic.logs[0].roll()
        broker.log_dir.checkpoint()
        await broker.configs.alter_broker([ConfigChange("log.retention.ms", SET, "1")])
        assert broker.topics["a"].logs[0].retain(LATER) > 0
        assert broker.topics["b"].logs[0].retain(LATER) == 0
        assert broker.configs.of_topic("a", "retention.ms") == "1"
        assert broker.configs.of_topic("b", "retention.ms") == "-1"

    async def look_again(broker: Broker) -> None:
        assert broker.topics.base.retention_ms == 1
        await broker.configs.alter_broker([ConfigChange("log.retention.ms", DELETE)])
        assert broker.topics.base.retention_ms == -1
        assert broker.configs.rows.all() == {}

    with_broker(tmp_path, use)
    with_broker(tmp_path, look_again)


def test_a_default_that_a_topic_cannot_live_with_is_refused(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        await broker.topics.create("t", 1, {"min.compaction.lag.ms": "10"})
        change = [ConfigChange("log.cleaner.max.compaction.lag.ms", SET, "5")]
        with pytest.raises(ConfigInvalid, match=r"min\.compaction\.lag\.ms: got 10"):
            await broker.configs.alter_broker(change)
        assert broker.configs.rows.all() == {}

    with_broker(tmp_path, use)


def test_who_asked_hears_of_every_change_of_the_configs(tmp_path: Path) -> None:
    recorder, backoffs = Recorder(), []

    async def use(broker: Broker) -> None:
        broker.connect(recorder)
        broker.configs.tell(lambda now: backoffs.append(now.number("log.cleaner.backoff.ms")))
        assert (recorder.connections_per_ip, backoffs) == (5000, [15_000])
        await broker.configs.alter_broker([ConfigChange("max.connections.per.ip", SET, "7")])
        await broker.configs.alter_broker([ConfigChange("log.cleaner.backoff.ms", SET, "15001")])
        assert (recorder.connections_per_ip, backoffs) == (7, [15_000, 15_000, 15_001])
        entries = {each.name: each for each in broker.configs.in_force.broker_entries()}
        for name, text in (("max.connections.per.ip", "7"), ("log.cleaner.backoff.ms", "15001")):
            assert (entries[name].value, entries[name].source) == (text, 2)
            assert not entries[name].read_only

    async def look_again(broker: Broker) -> None:
        broker.connect(recorder)
        assert recorder.connections_per_ip == 7

    with_broker(tmp_path, use)
    recorder = Recorder()
    with_broker(tmp_path, look_again)


def test_limits_of_listeners_change_while_it_runs_and_are_kept(tmp_path: Path) -> None:
    recorder = Recorder()

    async def use(broker: Broker) -> None:
        broker.connect(recorder)
        assert recorder.connection_limits == {-1: (0, 0), 0: (0, 0)}
        await broker.configs.alter_broker([
            ConfigChange("listener.name.plaintext.max.connections", SET, "5"),
            ConfigChange("listener.name.plaintext.max.connection.creation.rate", SET, "6"),
        ])
        await broker.configs.alter_broker([ConfigChange("max.connections", SET, "7")])
        assert recorder.connection_limits == {-1: (7, 0), 0: (5, 6)}
        await broker.configs.alter_broker([ConfigChange("max.connections", DELETE)])
        assert recorder.connection_limits == {-1: (0, 0), 0: (5, 6)}

    async def look_again(broker: Broker) -> None:
        broker.connect(recorder)

    with_broker(tmp_path, use)
    recorder = Recorder()
    with_broker(tmp_path, look_again)
    assert recorder.connection_limits == {-1: (0, 0), 0: (5, 6)}


def test_a_limit_of_a_listener_that_is_gone_is_kept_and_is_no_fault() -> None:
    name = "listener.name.gone.max.connections"
    configs, faults = dynamic_broker_config.stored(BrokerConfig(), {name: "5"}, {})
    assert (faults, configs.own) == ([], {name: "5"})
    more = configs.changed({name: "5", "max.connections": "6"}, is_default=False)
    assert more.own == {name: "5", "max.connections": "6"}
    assert name not in {each.name for each in more.broker_entries()}


def test_limits_from_the_settings_are_told_and_shown() -> None:
    own = {"PLAINTEXT": {"max.connections": 7}}
    configs = dynamic_broker_config.BrokerConfigs(BrokerConfig(of_listeners=own), {}, {})
    assert configs.limit("max.connections", "PLAINTEXT") == 7
    assert configs.limit("max.connections") == 0
    (entry,) = [each for each in configs.broker_entries()
                if each.name == "listener.name.plaintext.max.connections"]
    assert (entry.value, entry.source, entry.read_only) == ("7", 4, False)


@pytest.mark.parametrize(
    ("name", "value", "code", "words"),
    [
        ("data.dir", "/tmp", 42, "data.dir: is read once, at the start of the broker"),
        ("num.network.threads", "5", 42, "is read once"),
        ("log.cleaner.backoff.ms", "9", 40, "log.cleaner.backoff.ms: got '9', wanted a whole"),
        ("max.connections.per.ip", "0", 40, "max.connections.per.ip: got '0', wanted a whole"),
        ("max.connections", "0", 40, "max.connections: got '0', wanted a whole number"),
        ("listener.name.outside.max.connections", "5", 40, "no listener has this name; wanted one"),
        ("listener.name.PLAINTEXT.max.connections", "5", 40, "there is no such broker config"),
        ("listener.name.plaintext.ssl.key.location", "x", 40, "there is no such broker config"),
        ("log.dirs", "/tmp", 42, "is read once"),
        ("none.such", "5", 40, "none.such: there is no such broker config"),
        ("log.roll.ms", "0", 40, "log.roll.ms: got '0', wanted a whole number of 64 bits"),
        ("log.cleanup.policy", "shrink", 40, "log.cleanup.policy: got 'shrink'"),
    ],
)
def test_a_broker_config_that_cannot_be_set_is_named(
    name: str, value: str, code: int, words: str, tmp_path: Path
) -> None:
    async def use(broker: Broker) -> None:
        for is_default in (True, False):
            with pytest.raises(ApplianceError) as refused:
                await broker.configs.alter_broker([ConfigChange(name, SET, value)], is_default)
            assert refused.value.kafka_code == code
            assert words in str(refused.value)

    with_broker(tmp_path, use)


def test_a_config_tells_where_it_comes_from(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        topic = await broker.topics.create("t", 1, {"segment.ms": "1"})
        await broker.configs.set_broker({"log.roll.ms": "2"})
        await broker.configs.set_broker({"log.roll.ms": "3"}, is_default=True)
        entries = {each.name: each for each in broker.configs.in_force.topic_entries(topic.configs)}
        assert len(entries) == 35
        entry = entries["segment.ms"]
        assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
            ("segment.ms", "1", 1), ("log.roll.ms", "2", 2), ("log.roll.ms", "3", 3),
            ("log.roll.ms", "4", 4), ("log.roll.ms", "604800000", 5)]
        assert (entry.value, entry.source, entry.default_value) == ("1", 1, "604800000")
        assert (entry.type, entry.read_only) == (5, False)
        assert entries["flush.ms"].source == 5
        assert entries["leader.replication.throttled.replicas"].source == 5
        broker_entries = {each.name: each for each in broker.configs.in_force.broker_entries()}
        assert (broker_entries["log.roll.ms"].value, broker_entries["log.roll.ms"].source) == (
            "2", 2)
        assert not broker_entries["log.roll.ms"].read_only
        assert broker_entries["min.insync.replicas"].value == "1"
        data = broker_entries["data.dir"]
        assert (data.value, data.source, data.read_only) == (str(tmp_path), 4, True)
        assert (broker_entries["delete.topic.enable"].value,
                broker_entries["delete.topic.enable"].type) == ("true", 1)
        factor = broker_entries["default.replication.factor"]
        assert (factor.value, factor.default_value, factor.source) == ("1", "1", 5)
        assert broker_entries["log.dirs"].value == str(tmp_path)
        assert broker_entries["broker.id"].source == 4
        assert all(each.doc for each in broker_entries.values())
        _, checked = broker.topics.validate("u", 1, {"segment.ms": " 5"})
        made = broker.configs.in_force.topic_entries(checked.kept)
        assert {each.name: each.value for each in made}["segment.ms"] == "5"

    with_broker(tmp_path, use, LogConfig(segment_ms=4))


# Producer ids


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def take(broker: Broker) -> list[int]:
        count = BLOCK + 5
        return list(await asyncio.gather(*(broker.producer_ids.new() for _ in range(count))))

    given = [each for _ in range(3) for each in with_broker(tmp_path, take, is_killed=True)]
    assert len(set(given)) == len(given) == 3 * (BLOCK + 5)
    assert given[:2] == [0, 1]


def test_two_brokers_never_have_one_catalog_open(tmp_path: Path) -> None:
    async def use(broker: Broker) -> None:
        with pytest.raises(ApplianceError, match=r"in use|lock"):
            await asyncio.to_thread(Broker.open, broker.config)
        await broker.topics.create("t")

    with_broker(tmp_path, use)
