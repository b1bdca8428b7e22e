"""A follower's empty log that begins where its leader has nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_names import Key
from appliance.errors import LogClosed, StorageFull
from appliance.topics import empty_replicas
from appliance.topics.topic import OFFSETS
from tests.support.logs import batch, everything, until
from tests.support.two_brokers import Member, TwoBrokers


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """1 leads both partitions, and has records in the first."""
    made = TwoBrokers(tmp_path)
    made.make_offsets_topic()
    made.elect(made.one)
    made.one.log(0).append(batch("a", "b"))
    made.one.log(0).flush()
    until(lambda: made.two.log(0).durable_offset == 2)
    yield made
    made.close()


def begin_anew(member: Member, stopped: list[Key]) -> None:
    broker, key = member.broker, (OFFSETS, 0)
    member.run(empty_replicas.begin_anew(broker.topics, broker.change, stopped.append, key))


def test_it_begins_anew_and_gets_what_the_leader_has(two: TwoBrokers) -> None:
    stopped: list[Key] = []
    with two.replication.held():
        before = two.two.log(0)
        before.begin_at(9)
        begin_anew(two.two, stopped)
        fresh = two.two.log(0)
        assert (fresh.log_start_offset, fresh.log_end_offset, fresh.role) == (0, 0, "nobody")
        assert stopped == [(OFFSETS, 0)]
        with pytest.raises(LogClosed):
            before.append_replicated(batch("a"), 1)
        fresh.follow(two.leaders[0][1], 1)
    until(lambda: everything(fresh) == everything(two.one.log(0)))


def test_one_that_could_not_begin_anew_is_made_when_it_can(
    two: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, key = two.two, (OFFSETS, 0)

    def refuse(*_: object) -> None:
        raise StorageFull("ENOSPC")

    with two.replication.held():
        member.log(0).begin_at(9)
        with monkeypatch.context() as patch:
            patch.setattr(LogDir, "create_new", refuse)
            with pytest.raises(StorageFull):
                begin_anew(member, [])
            assert "not begun anew yet" in member.broker.topics.unserved()[key]
        assert member.run(member.broker.reopening.retry()) == 1
        fresh = member.log(0)
        assert (fresh.log_start_offset, fresh.log_end_offset) == (0, 0)
        fresh.follow(two.leaders[0][1], 1)
    until(lambda: everything(fresh) == everything(two.one.log(0)))


@pytest.mark.parametrize("number", [1, 2])
def test_a_log_that_has_records_or_leads_stays(two: TwoBrokers, number: int) -> None:
    stopped: list[Key] = []
    member = two.both[number - 1]
    with two.replication.held():
        if number == 1:
            member.log(0).delete_before(2)  # it leads, and nothing is left
        before = member.log(0)
        begin_anew(member, stopped)
        assert member.log(0) is before
        assert stopped == []
