"""How far groups are behind: on real logs, by a fake clock; then a broker with real commits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance._log import Log
from appliance.admin import metrics_of_groups
from appliance.config import GroupsConfig
from appliance.data_dir.log_dir import LogDir
from appliance.groups import lag as lag_module
from appliance.groups.lag import GroupLag, GroupProgress, Lag, PartitionLag
from appliance.groups.lag_elsewhere import Ends
from appliance.groups.lag_history import History, LagSample
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.record import _batch_builder
from tests.support.compaction import settle
from tests.support.control import Control
from tests.support.logs import NOW, batch, log_config, opened

HOUR_MS = 3_600_000


@dataclass
class Committed:
    """A source of offsets that a test sets."""

    offsets: dict[str, dict[Partition, int]] = field(default_factory=dict)
    wanted: dict[str, set[Partition]] = field(default_factory=dict)
    begins_at_end: bool = False

    def groups_that_read(self) -> list[str]:
        return [*{**self.offsets, **self.wanted}]

    def progress(self, group_id: str) -> GroupProgress | None:
        if group_id not in self.groups_that_read():
            return None
        offsets, wanted = self.offsets.get(group_id, {}), self.wanted.get(group_id, set())
        return GroupProgress("classic", offsets, wanted, self.begins_at_end)


class World:
    def __init__(self, logs: LogDir) -> None:
        self.log_dir = logs
        self.logs: dict[Partition, Log] = {}
        self.committed = Committed()
        self.now_ms = NOW
        config = GroupsConfig(lag_samples_max=5, lag_series_max=10)
        self.lag = Lag(config, self.find, [self.committed], self.loaded, lambda: self.now_ms)

    async def loaded(self) -> None:
        """At once."""

    def find(self, topic: str, partition: int) -> Log | None:
        return self.logs.get(Partition(topic, partition))

    def log(self, topic: str = "t", partition: int = 0, **config: Any) -> Log:
        made = self.log_dir.create(topic, partition, log_config(**config))
        self.logs[Partition(topic, partition)] = made
        return made

    def commit(self, offset: int, topic: str = "t", partition: int = 0, group: str = "g") -> None:
        self.committed.offsets.setdefault(group, {})[Partition(topic, partition)] = offset

    def want(self, topic: str = "t", partition: int = 0, group: str = "g") -> None:
        self.committed.wanted.setdefault(group, set()).add(Partition(topic, partition))

    def of(self, group: str = "g") -> GroupLag:
        return asyncio.run(self.lag.of_group(group))

    def one(self, group: str = "g") -> PartitionLag:
        (found,) = self.of(group).partitions
        return found

    def round(self) -> None:
        asyncio.run(self.lag.round())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with opened(tmp_path) as logs:
        made = World(logs)
        yield made
        asyncio.run(made.lag.close())


def append(log: Log, data: bytes) -> None:
    log.append_durable(data)


def test_lag_is_what_may_be_read_less_what_was_committed(world: World) -> None:
    log = world.log()
    append(log, batch("a", "b", "c"))
    append(log, batch("d", timestamp=NOW + 5000))
    world.now_ms = NOW + 60_000
    for committed, records, seconds in ((0, 4, 60.0), (3, 1, 55.0), (4, 0, 0.0)):
        world.commit(committed)
        found = world.one()
        assert (found.committed, found.end) == (committed, 4)
        assert (found.records, found.lost, found.seconds) == (records, 0, seconds)


def test_what_is_not_durable_is_not_behind(world: World) -> None:
    log = world.log()
    append(log, batch("a"))
    log.append(batch("b"))
    world.commit(1)
    assert world.one()[3:] == (0, 1, 0, 0, 0.0)


def test_the_group_is_as_late_as_its_latest_partition(world: World) -> None:
    for partition, behind_ms in enumerate((1000, 7000, 2000)):
        append(world.log(partition=partition), batch("a", timestamp=NOW - behind_ms))
        world.commit(0, partition=partition)
    found = world.of()
    assert (found.records, found.seconds) == (3, 7.0)
    assert [each.partition for each in found.partitions] == [0, 1, 2]
    assert found.protocol == "classic"


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("committed", range(4))
def test_within_a_batch_that_spans_hours_the_record_itself_counts(
    world: World, committed: int, codec: str
) -> None:
    append(world.log(), batch("a", "b", "c", "d", step=HOUR_MS, codec=codec))
    world.now_ms = NOW + 10 * HOUR_MS
    world.commit(committed)
    assert world.one().seconds == (10 - committed) * 3600


def test_with_times_of_appending_they_count(world: World) -> None:
    log = world.log(message_timestamp_type="LogAppendTime")
    log.append(batch("a", "b", timestamp=5, step=HOUR_MS), now_ms=NOW - 3000)
    log.flush()
    world.commit(1)
    assert world.one().seconds == 3.0


def test_records_that_were_deleted_before_they_were_read_are_lost(world: World) -> None:
    log = world.log()
    for index in range(10):
        append(log, batch("a", timestamp=NOW - 10_000 + index * 1000))
    log.delete_before(6)
    world.commit(2)
    assert world.one() == PartitionLag("t", 0, 2, 6, 10, 8, 4, 4.0)


def test_in_a_compacted_log_the_next_record_that_is_left_counts(world: World) -> None:
    log = world.log(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    for index in range(4):
        append(log, batch(f"v{index}", timestamp=NOW + index * HOUR_MS))  # of the same key
    settle(world.log_dir, log)
    append(log, batch("last", timestamp=NOW + 9 * HOUR_MS))
    assert log.compact(NOW + 10 * HOUR_MS)
    world.now_ms = NOW + 10 * HOUR_MS
    world.commit(1)
    found = world.one()
    assert (found.records, found.seconds) == (4, 7 * 3600)


def test_tombstones_that_wait_for_their_deletion_have_their_own_time(world: World) -> None:
    log = world.log(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    append(log, _batch_builder.batch([(NOW, b"k", b"v")]))
    append(log, _batch_builder.batch([(NOW + 1000, b"k", None)]))
    settle(world.log_dir, log)
    append(log, _batch_builder.batch([(NOW + 2000, b"other", b"v")]))
    assert log.compact(NOW + HOUR_MS)
    world.now_ms = NOW + 5000
    world.commit(0)
    assert world.one().seconds == 4.0


def test_records_of_the_future_or_without_a_time_are_not_of_an_age(world: World) -> None:
    append(world.log("future"), batch("a", timestamp=NOW + HOUR_MS))
    append(world.log("timeless"), batch("a", timestamp=-1))
    world.commit(0, "future")
    world.commit(0, "timeless")
    future, timeless = world.of().partitions
    assert (future.records, future.seconds) == (1, 0.0)
    assert (timeless.records, timeless.seconds) == (1, None)
    assert world.of().seconds == 0.0


def test_a_group_that_is_ahead_is_not_behind(world: World) -> None:
    append(world.log(), batch("a"))
    world.commit(100)
    assert world.one()[2:] == (100, 0, 1, 0, 0, 0.0)


def test_partitions_that_are_no_more_are_left_out(world: World) -> None:
    append(world.log(), batch("a"))
    world.commit(0)
    world.commit(0, "deleted")
    assert [each.topic for each in world.of().partitions] == ["t"]


def test_what_is_wanted_and_has_no_commit_counts_from_the_first_record(world: World) -> None:
    for partition in range(3):
        log = world.log(partition=partition)
        for index in range(10):
            append(log, batch("a", timestamp=NOW - 20_000 + index * 1000))
    world.logs[Partition("t", 1)].delete_before(4)
    world.commit(8, partition=0)
    world.want(partition=0)
    world.want(partition=1)
    world.want("not made yet")
    found = world.of()
    assert found.partitions == (
        PartitionLag("t", 0, 8, 0, 10, 2, 0, 12.0),
        PartitionLag("t", 1, None, 4, 10, 6, 0, 16.0),
    )
    assert (found.records, found.seconds, found.without_commit) == (8, 16.0, (1, 6))
    both = {"t", "not made yet"}
    assert world.lag.records_of("g", both) == (8, (1, 6), both, 0, 2)
    assert world.lag.records_of("nobody", both) == (0, (0, 0), frozenset(), 0, 0)


def test_who_may_know_of_some_topics_is_told_of_their_lag_alone(world: World) -> None:
    for topic, age_ms in (("t", 5_000), ("hidden", 60_000)):
        append(world.log(topic), batch("a", timestamp=NOW - age_ms))
        world.commit(0, topic)
    assert world.lag.records_of("g", {"t"}) == (1, (0, 0), {"t"}, 0, 1)
    found = world.of()
    assert (found.records, found.seconds) == (2, 60.0)
    own = found.of_topics({"t"})
    assert (own.records, own.seconds) == (1, 5.0)
    assert [each.topic for each in own.partitions] == ["t"]
    assert found.of_topics(set())[2:] == (0, None, ())


def test_who_never_committed_is_in_the_snapshot_and_has_a_past(world: World) -> None:
    append(world.log(), batch("a", "b"))
    world.want()
    world.round()
    (found,) = world.lag.snapshot().groups
    assert (found.group, found.records) == ("g", 2)
    assert world.lag.history("g").topics["t"][-1].records == 2


def test_whoever_is_known_to_begin_at_the_end_is_not_behind(world: World) -> None:
    append(world.log(), batch("a", "b"))
    world.want()
    world.committed.begins_at_end = True
    assert world.one() == PartitionLag("t", 0, None, 0, 2, 0, 0, 0.0)


@dataclass
class Others:
    """Brokers that have partitions alone."""

    there: set[Partition] = field(default_factory=set)
    told: dict[Partition, Ends] = field(default_factory=dict)
    asked: list[set[Partition]] = field(default_factory=list)

    def is_there(self, partition: Partition) -> bool:
        return partition in self.there

    async def ask(self, partitions: Collection[Partition]) -> None:
        self.asked.append({*partitions})

    def ends(self, partition: Partition) -> Ends | None:
        return self.told.get(partition)

    def seconds(self, partition: Partition, offset: int) -> float | None:
        return 30.0


def test_what_other_brokers_have_counts_and_what_they_do_not_tell_is_unknown(world: World) -> None:
    here, told, read, silent, gone = (Partition("t", each) for each in range(5))
    others = world.lag.elsewhere = Others(there={told, read, silent})
    others.told = {told: Ends(3, 20), read: Ends(0, 2)}
    append(world.log(), batch("a", "b", timestamp=NOW - 1000))
    for each in (here, told, read, silent, gone):
        world.commit(2, partition=each.partition)
    world.commit(5, "u", 1, group="other")
    others.there.add(Partition("u", 1))
    assert world.of().partitions == (
        PartitionLag("t", 0, 2, 0, 2, 0, 0, 0.0),
        PartitionLag("t", 1, 2, 3, 20, 18, 1, 30.0),
        PartitionLag("t", 2, 2, 0, 2, 0, 0, 0.0),
        PartitionLag("t", 3, 2, None, None, 0, 0, None),
    )
    assert others.asked == [{told, read, silent}]
    world.round()
    assert others.asked[1:] == [{told, read, silent, Partition("u", 1)}]  # once for all groups
    group, other = world.lag.snapshot().groups
    assert (group.records, group.seconds, group.unknown_partitions) == (18, 30.0, 1)
    assert (other.records, other.seconds, other.unknown_partitions) == (0, None, 1)
    assert world.lag.records_of("g", {"t"}) == (18, (0, 0), {"t"}, 1, 4)
    rows = [row for each in world.lag.snapshot().groups for row in metrics_of_groups.lag_rows(each)]
    assert [(row.topic, row.records, row.unknown) for row in rows] == [("t", 18, 1), ("u", 0, 1)]


def test_a_group_that_nobody_knows_is_refused(world: World) -> None:
    with pytest.raises(GroupRefused, match="nobody"):
        world.of("nobody")


# Rounds


def test_the_snapshot_is_that_of_the_last_round(world: World) -> None:
    assert world.lag.snapshot() == (0, (), 0)
    append(world.log(), batch("a", "b"))
    for group, offset in (("two", 2), ("one", 1)):
        world.commit(offset, group=group)
    world.committed.offsets["without offsets"] = {}
    world.round()
    found = world.lag.snapshot()
    assert found.at_ms == NOW
    assert [(each.group, each.records) for each in found.groups] == [("one", 1), ("two", 0)]


def test_history_is_a_sum_by_topic_and_bounded(world: World) -> None:
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        append(world.log(topic, partition), batch("a", "b"))
        world.commit(0, topic, partition)
    for index in range(7):
        world.now_ms = NOW + index * 1000
        world.round()
    found = world.lag.history("g")
    assert found.interval_s == GroupsConfig().lag_interval_s
    assert {topic: len(rows) for topic, rows in found.topics.items()} == {"t": 5, "u": 5}
    assert found.topics["t"][-1] == (NOW + 6000, 4, 6.0)


def test_metrics_have_as_many_groups_as_histories_do(world: World) -> None:
    append(world.log(), batch("a", "b"))
    for number in range(25):
        world.commit(0, group=f"g{number:02}")
    world.round()
    world.commit(0, group="a")  # which is no reason for another to go
    world.round()
    broker = SimpleNamespace(lag=world.lag)
    found = [each for each in metrics_of_groups.families(broker) if each is not None]
    rows = {each.name: len(each.samples) for each in found}
    assert rows.pop("appliance_group_lag_left_out") == 1
    assert set(rows.values()) == {10}
    assert {sample.labels["group"] for sample in found[-1].samples} == {
        f"g{number:02}" for number in range(10)
    }
    assert [each.samples[0].value for each in found if "left_out" in each.name] == [16]


def test_what_nobody_would_commit_stops_no_measuring(world: World) -> None:
    append(world.log(), batch("a", "b"))
    world.commit(-(2**63), group="hostile")
    world.commit(2**63 - 1, group="hostile too")
    world.commit(1)
    world.round()
    found = {each.group: each.records for each in world.lag.snapshot().groups}
    assert found == {"g": 1, "hostile": 2, "hostile too": 0}
    assert [each.records for each in world.lag.history("g").topics["t"]] == [1]
    history = History(5, 10)
    history.add(NOW, {("g", "t"): (2**64, 1e30)})
    assert history.of_group("g")["t"] == (LagSample(NOW, 2**63 - 1, (2**63 - 1) / 1000),)


def test_what_did_not_move_is_not_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    timestamp = lag_module._timestamp

    def noted(place: Any) -> int:
        read.append(place.next)
        return timestamp(place)

    monkeypatch.setattr(lag_module, "_timestamp", noted)
    log = world.log()
    append(log, batch("a", timestamp=NOW - 1000))
    append(log, batch("b", timestamp=NOW))
    world.commit(0)
    for _ in range(3):
        world.round()
    assert read == [0]
    world.now_ms += 5000
    world.round()
    assert world.lag.snapshot().groups[0].seconds == 6.0, "older, although nothing was read"
    world.commit(1)
    world.round()
    world.commit(2)
    world.round()
    assert read == [0, 1]
    assert world.lag.snapshot().groups[0].seconds == 0.0


def test_a_log_that_fails_meanwhile_has_no_age(world: World) -> None:
    log = world.log()
    append(log, batch("a"))
    world.commit(0)
    log.close()
    assert world.one().seconds in (None, 0.0)


def test_many_places_do_not_hold_up_the_loop(world: World) -> None:
    log = world.log()
    append(log, batch("a"))
    world.logs = dict.fromkeys((Partition("t", index) for index in range(1000)), log)
    for index in range(1000):
        world.commit(0, partition=index)

    async def turns_during_a_round() -> int:
        task = asyncio.ensure_future(world.lag.round())
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(turns_during_a_round()) >= 1000 // lag_module.TURN_PARTITIONS
    assert world.lag.snapshot().groups[0].records == 1000


# In a broker


def test_a_broker_measures_by_itself(tmp_path: Path) -> None:
    control = Control(tmp_path, groups=GroupsConfig(lag_interval_s=1))
    control.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7)
    control.broker.topics["t"].logs[0].append_durable(batch("a", "b", "c"))
    row = OffsetCommitRequest.OffsetCommitRequestTopic(name="t")
    row.partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 2, -1, "")]
    assert control.ask(OffsetCommitRequest("g", topics=[row]), 8).topics[0].partitions
    deadline = time.monotonic() + 20
    while not control.broker.lag.snapshot().groups:
        assert time.monotonic() < deadline
        control.run(asyncio.sleep(0.01))
    (group,) = control.broker.lag.snapshot().groups
    assert (group.group, group.records) == ("g", 1)
    assert group.seconds is not None
    assert group.seconds > 0
    assert control.broker.lag.history("g").topics["t"][-1].records == 1
    control.close()
