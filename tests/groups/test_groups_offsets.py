"""Committed offsets: held and let go by transactions, on their way to the disk, and back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.config import GroupsConfig
from appliance.errors import ApplianceError, DataNewer, LogClosed, TimedOut
from appliance.groups.group import Group
from appliance.groups.offsets import Offsets
from appliance.groups.offsets_topic_replay import ReplayedGroups, replay
from appliance.groups.records import (
    GroupMetadataValue,
    OffsetCommitValue,
    Partition,
    group_record,
    offset_record,
)
from appliance.record import _batch
from appliance.topics.internal_topic import (
    BATCH_BYTES,
    InternalTopic,
    Record,
    Transaction,
    Write,
    load,
    partition_of,
)
from tests.support.logs import NOW, end_txn, everything, log_config, one_log, opened

T0, T1 = Partition("t", 0), Partition("t", 1)


def value(offset: int, **facts: Any) -> OffsetCommitValue:
    return OffsetCommitValue(offset, 0, "", NOW, **facts)


def offsets_of(offsets: Offsets, group: str = "g") -> dict[Partition, int]:
    return {place: each.value.offset for place, each in offsets.of_group(group).items()}


# Records


def test_an_offset_as_kafka_writes_it() -> None:
    key, stored = offset_record("grp", Partition("topic", 7), value(300))
    assert key == bytes.fromhex("0001 0003 677270 0005 746f706963 00000007")
    assert stored == bytes.fromhex(f"0003 000000000000012c 00000000 0000 {NOW:016x}")
    with_expiry = offset_record("grp", Partition("topic", 7), value(300, expire_timestamp=NOW + 1))
    assert with_expiry.value == bytes.fromhex(
        f"0001 000000000000012c 0000 {NOW:016x} {NOW + 1:016x}"
    )
    assert offset_record("grp", Partition("topic", 7), None) == Record(key, None)


def test_a_group_as_kafka_writes_it() -> None:
    member = GroupMetadataValue.MemberMetadata("m", None, "c", "/h", 2, 1, b"s", b"a")
    key, stored = group_record(
        "grp", GroupMetadataValue("consumer", 5, "range", "m", NOW, [member])
    )
    assert key == bytes.fromhex("0002 0003 677270")
    assert stored == bytes.fromhex(
        f"0003 0008 636f6e73756d6572 00000005 0005 72616e6765 0001 6d {NOW:016x} 00000001"
        "0001 6d ffff 0001 63 0002 2f68 00000002 00000001 00000001 73 00000001 61"
    )


# As Java says: "name".hashCode(), Utils.abs, % 50
@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("a", 47), ("abc", 4), ("polygenelubricants", 0), ("\N{PILE OF POO}", 6)],
)
def test_the_partition_of_a_group_is_that_of_kafka(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


# Transactions


def test_what_a_transaction_holds_counts_when_it_ends() -> None:
    offsets = Offsets()
    offsets.put("g", {T0: value(1)}, 0)
    offsets.hold(7, "g", {T0: value(5), T1: value(6)}, 1)
    assert offsets_of(offsets) == {T0: 1}
    assert [offsets.is_unstable("g", each) for each in (T0, T1)] == [True, True]
    assert offsets.held_groups(7) == {"g"}
    assert offsets.is_held("g")
    offsets.end(7, is_commit=True)
    assert offsets_of(offsets) == {T0: 5, T1: 6}
    assert [offsets.is_unstable("g", each) for each in (T0, T1)] == [False, False]
    assert not offsets.is_held("g")
    assert offsets.held_groups(7) == set()


def test_what_a_transaction_held_never_was_when_it_aborts() -> None:
    offsets = Offsets()
    offsets.hold(7, "g", {T0: value(5)}, 0)
    offsets.end(7, is_commit=False)
    offsets.end(8, is_commit=True)
    assert (offsets_of(offsets), offsets.is_unstable("g", T0)) == ({}, False)


def test_in_a_cluster_each_partition_has_its_own_marker() -> None:
    offsets = Offsets()
    offsets.hold(7, "g", {T0: value(5)}, 0)
    offsets.hold(7, "h", {T0: value(6)}, 0)
    offsets.end(7, True, {"g"})
    assert (offsets_of(offsets), offsets_of(offsets, "h")) == ({T0: 5}, {})
    assert (offsets.is_unstable("g", T0), offsets.is_unstable("h", T0)) == (False, True)
    assert [*offsets.all_held()] == ["h"]
    offsets.end(7, True, {"h"})
    assert offsets_of(offsets, "h") == {T0: 6}
    assert [*offsets.all_held()] == []


def test_a_later_commit_outside_of_the_transaction_stays() -> None:
    offsets = Offsets()
    offsets.hold(7, "g", {T0: value(5)}, 10)
    offsets.put("g", {T0: value(9)}, 11)
    offsets.end(7, is_commit=True)
    assert offsets_of(offsets) == {T0: 9}


def test_two_transactions_hold_the_same_offset() -> None:
    offsets = Offsets()
    offsets.hold(7, "g", {T0: value(5)}, 0)
    offsets.hold(7, "g", {T0: value(6)}, 1)
    offsets.hold(8, "g", {T0: value(7)}, 2)
    offsets.end(7, is_commit=True)
    assert (offsets_of(offsets), offsets.is_unstable("g", T0)) == ({T0: 6}, True)
    offsets.end(8, is_commit=True)
    assert (offsets_of(offsets), offsets.is_unstable("g", T0)) == ({T0: 7}, False)


def test_what_was_held_before_it_was_removed_goes_with_it() -> None:
    offsets = Offsets()
    offsets.put("g", {T0: value(1)}, 0)
    offsets.hold(7, "g", {T0: value(5), T1: value(6)}, 1)
    offsets.hold(8, "g", {T0: value(7)}, 9)
    assert offsets.places_of_topics({"t"}) == {("t", "g"): [T0, T1]}
    offsets.put("g", {T0: None, T1: None}, 4)
    assert [offsets.is_unstable("g", each) for each in (T0, T1)] == [True, False]
    offsets.end(7, is_commit=True)
    assert offsets_of(offsets) == {}
    offsets.end(8, is_commit=True)
    assert offsets_of(offsets) == {T0: 7}
    offsets.put("g", {T0: None}, 10)
    assert (offsets.bytes_of("g"), offsets.is_held("g")) == (0, False)


def test_a_group_without_offsets_is_forgotten() -> None:
    offsets = Offsets()
    offsets.put("g", {T0: value(1), T1: value(2)}, 0)
    assert dict(offsets.places_of_topics({"t"})) == {("t", "g"): [T0, T1]}
    offsets.put("g", {T0: None, T1: None}, 2)
    assert (list(offsets.groups()), dict(offsets.places_of_topics({"t"}))) == ([], {})


# The way to the disk


class Writes:
    """Collects what is called back."""

    def __init__(self) -> None:
        self.done: list[tuple[str, ApplianceError | None, int]] = []

    def of(self, group: str, *offsets: int, transaction: Transaction | None = None) -> Write:
        records = [
            offset_record(group, Partition("t", i), value(offset))
            for i, offset in enumerate(offsets)
        ]
        return Write(group, records, NOW, self._done(group), transaction)

    def _done(self, group: str) -> Callable[[ApplianceError | None, int], None]:
        return lambda error, first_offset: self.done.append((group, error, first_offset))


def commit_some(logs: list[Log], writes: list[Write], timeout_s: float) -> None:
    """All of them in one round."""

    async def run() -> None:
        async def found() -> list[Log]:
            return logs

        topic = InternalTopic(found, round(timeout_s * 1000))
        for each in writes:
            topic.write(each)
        await topic.close()

    asyncio.run(run())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0) as made:
        yield made


def loaded(*logs: Log) -> ReplayedGroups:
    found = replay(logs)
    assert found.faults == []
    return found


def test_many_writes_are_one_batch_and_durable(log: Log) -> None:
    writes = Writes()
    rows = [writes.of(f"g{i}", i, 10 * i) for i in range(50)]
    commit_some([log], rows, 10)
    assert log.durable_offset == log.log_end_offset == 100
    assert [each.first_offset for each in rows] == list(range(0, 100, 2))
    assert len(everything(log)) == 1
    found = loaded(log)
    assert all(offsets_of(found.offsets, f"g{i}") == {T0: i, T1: 10 * i} for i in range(50))


def test_each_group_has_its_partition(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", i, log_config()) for i in range(4)]
        writes = Writes()
        commit_some(logs, [writes.of(f"g{i}", i) for i in range(20)], 10)
        for i in range(20):
            own = loaded(logs[partition_of(f"g{i}", 4)])
            assert offsets_of(own.offsets, f"g{i}") == {T0: i}
        assert len(loaded(*logs).offsets.groups()) == 20


def test_a_batch_has_a_size(log: Log) -> None:
    big = [Record(b"\0\1" + bytes([i]), b"v" * (BATCH_BYTES // 2)) for i in range(4)]
    rows = [Write("g", [each], NOW, lambda error, offset: None) for each in big]
    commit_some([log], rows, 10)
    assert [len(_batch.records(each)) for each in everything(log)] == [1, 1, 1, 1]
    assert [each.first_offset for each in rows] == [0, 1, 2, 3]


def test_transactions_have_batches_of_their_own_and_end_with_a_marker(log: Log) -> None:
    writes, open_ = Writes(), Transaction(7, 0)
    commit_some([log], [writes.of("g", 1), writes.of("g", 5, transaction=open_)], 10)
    commit_some([log], [writes.of("h", 2)], 10)
    found = loaded(log)
    assert (offsets_of(found.offsets), found.offsets.is_unstable("g", T0)) == ({T0: 1}, True)
    assert log.last_stable_offset == 1
    end_txn(log, "commit")
    log.flush()
    assert log.last_stable_offset == log.log_end_offset == 4
    found = loaded(log)
    assert (offsets_of(found.offsets), found.offsets.is_unstable("g", T0)) == ({T0: 5}, False)
    assert [_batch.headers(each)[0].is_transactional for each in everything(log)] == [
        False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "seen"), [("commit", 9), ("abort", 9)])
def test_a_replay_ends_transactions_as_they_ended(log: Log, kind: str, seen: int) -> None:
    writes, txn = Writes(), Transaction(7, 0)
    commit_some([log], [writes.of("g", 5, 6, transaction=txn)], 10)
    commit_some([log], [writes.of("g", 9)], 10)
    end_txn(log, kind)
    wanted = {T0: seen, T1: 6} if kind == "commit" else {T0: seen}
    assert offsets_of(loaded(log).offsets) == wanted
    live = Offsets()
    live.hold(7, "g", {T0: value(5), T1: value(6)}, 0)
    live.put("g", {T0: value(9)}, 2)
    live.end(7, kind == "commit")
    assert offsets_of(live) == wanted


def test_a_tombstone_takes_away(log: Log) -> None:
    writes = Writes()
    commit_some([log], [writes.of("g", 1, 2)], 10)
    gone = [offset_record("g", T0, None), group_record("g", None)]
    commit_some([log], [Write("g", gone, NOW, lambda error, offset: None)], 10)
    found = loaded(log)
    assert (offsets_of(found.offsets), found.groups) == ({T1: 2}, {})


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_tombstone_takes_what_a_transaction_held_before(log: Log, is_ended: bool) -> None:
    writes, txn = Writes(), Transaction(7, 0)
    commit_some([log], [writes.of("g", 5, 6, transaction=txn)], 10)
    gone = [offset_record("g", T0, None)]
    commit_some([log], [Write("g", gone, NOW, lambda error, offset: None)], 10)
    if is_ended:
        end_txn(log, "commit")
    found = loaded(log).offsets
    found.end(7, is_commit=True)
    assert offsets_of(found) == {T1: 6}


def test_a_write_that_fails_is_told_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        logs = [log_dir.create("t", i, log_config()) for i in range(2)]
        writes = Writes()
        names = {partition_of(f"g{i}", 2): f"g{i}" for i in range(10)}
        logs[1].close()
        rows = [writes.of(names[0], 1), writes.of(names[1], 2)]
        commit_some(logs, rows, 10)
        assert rows[0].error is None
        assert isinstance(rows[1].error, LogClosed)
        assert offsets_of(loaded(logs[0]).offsets, names[0]) == {T0: 1}


def test_a_commit_that_the_disk_does_not_take_in_time_is_told(log: Log) -> None:
    large = Record(b"k", b"v" * BATCH_BYTES)
    for _ in range(100):  # a disk has one in no time when this thread waits for a processor
        write = Write("g", [large], NOW, lambda error, offset: None)
        commit_some([log], [write], 0)
        if write.error:
            break
    assert isinstance(write.error, TimedOut)
    why = r"t-0: offset \d+ is not durable after 0 s; durable up to \d+, "  # maybe a moment later
    assert re.match(why, str(write.error))


def test_writes_are_done_in_order_and_share_commits(log: Log) -> None:
    writes = Writes()

    async def logs() -> list[Log]:
        return [log]

    async def run() -> None:
        topic = InternalTopic(logs, 10_000)
        for i in range(200):
            topic.write(writes.of(f"g{i}", i))
            if i % 20 == 0:
                await asyncio.sleep(0)
        topic.write(Write("", [], NOW, writes._done("last")))
        assert topic.is_busy
        await topic.close()
        assert not topic.is_busy
        await asyncio.sleep(0)

    asyncio.run(run())
    assert [name for name, _, _ in writes.done] == [f"g{i}" for i in range(200)] + ["last"]
    assert all(error is None for _, error, _ in writes.done)
    assert len(everything(log)) < 50
    assert len(loaded(log).offsets.groups()) == 200


def test_who_fails_when_told_keeps_nobody_from_being_told(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def fail(error: Exception | None, offset: int) -> None:
        raise ValueError("planted")

    def tell(error: Exception | None, offset: int) -> None:
        told.append(offset)

    async def run() -> None:
        async def logs() -> list[Log]:
            return [log]

        topic = InternalTopic(logs, 10_000)
        for done in (tell, fail, tell):
            topic.write(Write("g", [Record(b"k", b"v")], NOW, done))
        await topic.close()

    asyncio.run(run())
    assert told == [0, 2]
    assert "planted" in caplog.text


def test_a_topic_that_cannot_be_made_fails_the_writes_and_is_tried_again(log: Log) -> None:
    writes, attempts = Writes(), []

    async def logs() -> list[Log]:
        attempts.append(1)
        if len(attempts) == 1:
            raise TimedOut("no disk")
        if len(attempts) == 2:
            raise ZeroDivisionError("not foreseen")
        return [log]

    async def run() -> None:
        topic = InternalTopic(logs, 10_000)
        for name in "abc":
            topic.write(writes.of(name, 1))
            assert topic.is_busy
            await topic.close()

    asyncio.run(run())
    assert [(name, error.kafka_code if error else 0) for name, error, _ in writes.done] == [
        ("a", 7), ("b", -1), ("c", 0),
    ]  # fmt: skip


# The way back


def test_a_replay_keeps_what_compaction_keeps(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    with opened(tmp_path, **settings) as log_dir:
        log, writes = log_dir.create("t", 0, log_config(**settings)), Writes()
        for i in range(300):
            commit_some([log], [writes.of(f"g{i % 3}", i, i)], 10)
        before = loaded(log)
        log.roll()
        log_dir.checkpoint()
        assert log.compact(NOW + 1)
        assert len(everything(log)) < 300
        after = loaded(log)
        for name in ("g0", "g1", "g2"):
            assert after.offsets.of_group(name) == before.offsets.of_group(name)


def test_records_that_cannot_be_read_are_left_out_and_told(log: Log) -> None:
    good = offset_record("g", T0, value(1))
    bad = [
        Record(b"\0\x01\0", b"v"),
        Record(b"\0\x11g", b"v"),
        Record(b"", b"v"),
        Record(good.key.replace(b"t", b"u"), b"\0\3"),
        Record(b"\0\x02\0\x01x", b"\0\x03\0"),
    ]
    for each in [*bad, good]:
        commit_some([log], [Write("g", [each], NOW, lambda error, offset: None)], 10)
    found = replay([log])
    assert offsets_of(found.offsets) == {T0: 1}
    assert len(found.faults) == len(bad)
    assert all(re.match(r"t-0: record \d ", each) for each in found.faults)


@pytest.mark.parametrize(
    ("key", "what"),
    [
        (offset_record("g", T0, None).key, "OffsetCommitValue has format 99"),
        (group_record("g", None).key, "GroupMetadataValue has format 99"),
        (b"\0\x03\0\1g", "EpochValue has format 99"),
        (b"\0\x0b\0\1g", "EpochValue has format 99"),
    ],
    ids=["offset", "classic group", "consumer group", "share group"],
)
def test_a_value_of_a_newer_version_is_refused_and_not_left_out(
    log: Log, key: bytes, what: str
) -> None:
    """Its group would begin anew, and its next commit would hide what the newer version wrote."""
    row = Record(key, b"\0\x63")
    commit_some([log], [Write("g", [row], NOW, lambda error, offset: None)], 10)
    with pytest.raises(DataNewer, match=f"a stored {what}, and this appliance knows up to"):
        replay([log])


def test_groups_come_back(log: Log) -> None:
    member = GroupMetadataValue.MemberMetadata("m", "i", "c", "/h", 2, 1, b"s", b"a")
    values = [GroupMetadataValue("consumer", i, "range", "m", NOW, [member]) for i in (1, 2)]
    for each in values:
        rows = [group_record("g", each)]
        commit_some([log], [Write("g", rows, NOW, lambda error, offset: None)], 10)
    assert loaded(log).groups == {"g": values[1]}


def test_records_of_older_kafkas_are_read() -> None:
    old = bytes.fromhex(
        "0000 0008 636f6e73756d6572 00000001 0005 72616e6765 0001 6d 00000001"
        "0001 6d 0001 63 0002 2f68 00000bb8 00000001 73 00000001 61"
    )
    found = load(GroupMetadataValue, old)
    assert found.members[0].rebalance_timeout == -1
    group = Group("g", GroupsConfig(), lambda value, done: None)
    group.restore(found, 0)
    (member,) = group.members
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (3000, 3000)
    offset = load(OffsetCommitValue, bytes.fromhex(f"0000 {5:016x} 0000 {NOW:016x}"))
    assert (offset.offset, offset.leader_epoch, offset.commit_timestamp) == (5, -1, NOW)


def test_a_damaged_batch_costs_what_is_in_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log_dir:
        log, writes = log_dir.create("t", 0, log_config()), Writes()
        for i in range(5):
            commit_some([log], [writes.of(f"g{i}", i)], 10)
        path = Path(log.segments()[0].path)
        size = path.stat().st_size // 5
    with path.open("r+b") as file:
        file.seek(2 * size + 62)  # in a record's head
        file.write(b"\xff" * 8)
    with opened(tmp_path) as log_dir:
        found = replay(log_dir.logs().values())
        assert sorted(found.offsets.groups()) == ["g0", "g1", "g3", "g4"]
        assert len(found.faults) == 1
        assert "the batch at 2 cannot be read" in found.faults[0]
