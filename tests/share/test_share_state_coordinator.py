"""Share coordinators follow their partitions of `__share_group_state`: two brokers, and the test
says who leads. Leaders of share partitions are fenced by their election and the group's epoch."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.broker.replica_roles import Coordinators
from appliance.errors import TimedOut
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from appliance.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from appliance.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from appliance.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
)
from appliance.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from appliance.share.state_log import SharePartitionKey, replay
from appliance.topics.topic import SHARE_STATE
from tests.support.two_brokers import (
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    Member,
    TwoBrokers,
    appended_in,
)

TOPIC = uuid.UUID(int=7)
AVAILABLE, ACKNOWLEDGED = 0, 2
INVALID = ErrorCode.INVALID_REQUEST
Batch = tuple[int, int, int, int]  # first, last, state, delivery count


class Pair(TwoBrokers):
    topic = SHARE_STATE

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        for each in self.both:
            each.run(each.broker.group_places.make_share_state_topic())

    def coordinator(self, member: Member) -> Coordinators:
        return member.broker.share_partitions.state_coordinator

    def loaded(self, member: Member) -> None:
        member.run(member.broker.share_partitions.state_coordinator.led.read_all())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        made.move(made.one)
        yield made
    finally:
        made.close()


def row_of(answer: Any) -> Any:
    ((row,),) = [each.partitions for each in answer.results]
    return row


def initialize(member: Member, state_epoch: int = 1, start_offset: int = 0) -> int:
    asked = InitializeShareGroupStateRequest
    rows = [asked.PartitionData(0, state_epoch, start_offset)]
    answer = member.ask(asked("g", [asked.InitializeStateData(TOPIC, rows)]), 0)
    return int(row_of(answer).error_code)


def read(member: Member, leader_epoch: int) -> tuple[int, int, list[Batch]]:
    asked = ReadShareGroupStateRequest
    topic = asked.ReadStateData(TOPIC, [asked.PartitionData(0, leader_epoch)])
    row = row_of(member.ask(asked("g", [topic]), 0))
    batches = [(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
               for each in row.state_batches]  # fmt: skip
    return row.error_code, row.start_offset, batches


def written(
    leader_epoch: int, start_offset: int, batches: Sequence[Batch] = (), complete: int = -1
) -> WriteShareGroupStateRequest:
    asked = WriteShareGroupStateRequest
    rows = [asked.StateBatch(*each) for each in batches]
    one = asked.PartitionData(0, 1, leader_epoch, start_offset, complete, rows)
    return asked("g", [asked.WriteStateData(TOPIC, [one])])


def write(
    member: Member, leader_epoch: int, start_offset: int, batches: Sequence[Batch] = (),
    complete: int = -1,
) -> int:  # fmt: skip
    answer = member.ask(written(leader_epoch, start_offset, batches, complete), 1)
    return int(row_of(answer).error_code)


def number_in(pair: Pair) -> int:
    """Where all of it stands."""
    states = pair.one.broker.share_partitions.state_coordinator
    return states.led.number_of(SharePartitionKey("g", TOPIC, 0).owner) or 0


def summary(member: Member) -> tuple[int, int, int, int]:
    asked = ReadShareGroupStateSummaryRequest
    topic = asked.ReadStateSummaryData(TOPIC, [asked.PartitionData(0, -1)])
    row = row_of(member.ask(asked("g", [topic]), 1))
    return row.error_code, row.start_offset, row.leader_epoch, row.delivery_complete_count


def delete(member: Member) -> int:
    asked = DeleteShareGroupStateRequest
    topic = asked.DeleteStateData(TOPIC, [asked.PartitionData(0)])
    return int(row_of(member.ask(asked("g", [topic]), 0)).error_code)


def test_what_was_written_is_read_at_the_next_coordinator(pair: Pair) -> None:
    assert initialize(pair.one) == 0
    assert read(pair.one, 5) == (0, 0, [])
    assert write(pair.one, 5, 0, [(0, 3, AVAILABLE, 1), (4, 6, ACKNOWLEDGED, 1)]) == 0
    assert write(pair.one, 5, 2) == 0
    pair.move(pair.two)
    assert read(pair.one, 5)[0] == NOT_COORDINATOR
    assert read(pair.two, 5) == (0, 2, [(2, 3, AVAILABLE, 1), (4, 6, ACKNOWLEDGED, 1)])
    assert summary(pair.two) == (0, 2, 5, 3)
    assert not pair.one.broker.share_partitions.state_coordinator._stored


def test_many_writes_become_one_record_and_what_is_older_is_deleted(pair: Pair) -> None:
    assert initialize(pair.one) == 0
    count = pair.one.broker.config.share_state.updates_per_snapshot
    for number in range(count + 2):
        assert write(pair.one, 1, number) == 0
    states = pair.one.broker.share_partitions.state_coordinator
    pair.one.run(states.prune())
    assert pair.one.log(number_in(pair)).log_start_offset >= count
    pair.move(pair.two)
    assert summary(pair.two)[:2] == (0, count + 1)


def test_former_leaders_are_fenced(pair: Pair) -> None:
    """From the moment in which the next one has read, also at the next coordinator."""
    assert initialize(pair.one) == 0
    assert write(pair.one, 5, 1) == 0
    assert read(pair.one, 6)[0] == 0
    assert write(pair.one, 5, 2) == ErrorCode.FENCED_LEADER_EPOCH
    pair.move(pair.two)
    assert read(pair.two, 5)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert write(pair.two, 5, 2) == ErrorCode.FENCED_LEADER_EPOCH
    assert summary(pair.two)[1:3] == (1, 6)


def test_what_was_read_before_a_group_began_elsewhere_is_fenced(pair: Pair) -> None:
    assert initialize(pair.one, 1) == 0
    assert write(pair.one, 5, 9, [(9, 9, AVAILABLE, 1)]) == 0
    assert initialize(pair.one, 2, 4) == 0
    assert write(pair.one, 5, 10) == ErrorCode.FENCED_STATE_EPOCH
    assert initialize(pair.one, 1, 0) == ErrorCode.FENCED_STATE_EPOCH
    assert read(pair.one, 5) == (0, 4, [])
    assert initialize(pair.one, 3, -1) == 0  # it is there
    assert read(pair.one, 5) == (0, 4, [])


def test_where_a_group_begins_may_be_decided_by_its_first_fetch(pair: Pair) -> None:
    assert initialize(pair.one, 1, -1) == 0
    assert read(pair.one, 5) == (0, -1, [])
    assert write(pair.one, 5, 30) == 0
    pair.move(pair.two)
    assert read(pair.two, 6) == (0, 30, [])


def test_what_is_deleted_is_not_there(pair: Pair) -> None:
    assert initialize(pair.one) == 0
    assert delete(pair.one) == delete(pair.one) == 0
    assert read(pair.one, 5)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write(pair.one, 5, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    pair.move(pair.two)
    assert summary(pair.two)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nothing_is_served_before_the_partition_was_read(pair: Pair) -> None:
    assert initialize(pair.one) == 0
    with pair.replication.held():
        sent = appended_in(number_in(pair), pair.one, lambda: pair.one.send(written(5, 1), 1))
        pair.elect(pair.one)
        assert row_of(pair.one.answer(sent)).error_code == NOT_COORDINATOR
        found = [initialize(pair.one), read(pair.one, 5)[0], write(pair.one, 5, 1),
                 summary(pair.one)[0], delete(pair.one)]  # fmt: skip
        assert found == [LOADING] * 5
    pair.loaded(pair.one)
    assert summary(pair.one)[:2] == (0, 1)


# A leader that does not know what became of its write


def failing(
    monkeypatch: pytest.MonkeyPatch, member: Member, is_written: bool
) -> AbstractContextManager[None]:
    """Its next write is told to have failed, whether it is on disk or not."""
    led = member.broker.share_partitions.state_coordinator.led
    write = led.write

    @contextmanager
    def context() -> Iterator[None]:
        def failed(term: Any, owner: str, records: Any, now_ms: int, done: Any) -> None:
            error = TimedOut("the replicas are slow")
            if is_written:
                write(term, owner, records, now_ms, lambda _, offset: done(error, offset))
            else:
                asyncio.get_running_loop().call_soon(done, error, -1)

        with monkeypatch.context() as patched:
            patched.setattr(led, "write", failed)
            yield

    return context()


@pytest.mark.parametrize("is_written", [False, True])
def test_what_could_not_be_written_never_was(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """The former states of others are kept with the leader's next write, which knows nothing of
    the one that failed; here and at the next coordinator."""
    assert initialize(pair.one) == 0
    assert write(pair.one, 5, 0, [(5, 9, ACKNOWLEDGED, 1)]) == 0
    with failing(monkeypatch, pair.one, is_written):
        failed = write(pair.one, 5, 0, [(0, 4, ACKNOWLEDGED, 1)])
    assert failed == NOT_AVAILABLE
    assert write(pair.one, 5, 0, [(0, 4, AVAILABLE, 1)]) == 0  # the lock has timed out
    kept = (0, 0, [(0, 4, AVAILABLE, 1), (5, 9, ACKNOWLEDGED, 1)])
    assert read(pair.one, 5) == kept
    pair.move(pair.two)
    assert read(pair.two, 6) == kept


def test_what_is_done_stays_so_for_a_leader_that_got_no_answer(pair: Pair) -> None:
    """It says a start that was before what it had written."""
    assert initialize(pair.one) == 0
    assert write(pair.one, 5, 0, [(5, 9, ACKNOWLEDGED, 1), (12, 14, ACKNOWLEDGED, 1)]) == 0
    for _ in range(2):
        assert write(pair.one, 5, 0, [(0, 4, ACKNOWLEDGED, 1)]) == 0
    assert write(pair.one, 5, 0, [(0, 10, AVAILABLE, 1)]) == 0
    kept = (0, 10, [(10, 10, AVAILABLE, 1), (12, 14, ACKNOWLEDGED, 1)])
    assert read(pair.one, 5) == kept
    pair.move(pair.two)
    assert read(pair.two, 6) == kept


@pytest.mark.parametrize(("start_offset", "complete"), [(2, 0), (7, 0), (2, -1)])
def test_a_log_that_was_cut_is_begun_anew(pair: Pair, start_offset: int, complete: int) -> None:
    """Also where it ends among what was done. A former build gives no count."""
    assert initialize(pair.one, 1, 4) == 0
    assert write(pair.one, 5, 4, [(6, 9, ACKNOWLEDGED, 1)]) == 0
    assert write(pair.one, 5, start_offset, complete=complete) == 0
    assert read(pair.one, 5) == (0, start_offset, [])
    assert write(pair.one, 5, start_offset, [(start_offset, 7, AVAILABLE, 1)]) == 0
    kept = (0, start_offset, [(start_offset, 7, AVAILABLE, 1)])
    assert read(pair.one, 5) == kept
    pair.move(pair.two)
    assert read(pair.two, 6) == kept


def test_what_comes_while_others_are_written_anew_is_not_deleted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epoch in range(9):
        assert initialize(pair.one, epoch) == 0
    states = pair.one.broker.share_partitions.state_coordinator
    number = number_in(pair)
    other = next(key for each in range(1, 99)
                 if states.led.number_of((key := SharePartitionKey("g", TOPIC, each)).owner)
                 == number)  # fmt: skip
    monkeypatch.setattr(states, "_is_cold", lambda own: True)
    whole = states._snapshot

    async def slow(*asked: Any) -> None:
        if asked[1] != other:
            await states.initialize(other, 1, 3)
        await whole(*asked)

    monkeypatch.setattr(states, "_snapshot", slow)
    pair.one.run(states.prune())
    assert pair.one.log(number).log_start_offset > 0
    assert other in replay([pair.one.log(number)]).stored


# What cannot be

LAST = 2**63 - 1
FALSE_BATCHES = [
    (-1, 3, AVAILABLE, 1), (5, 4, AVAILABLE, 1), (0, LAST, ACKNOWLEDGED, 1), (LAST, LAST, 0, 1),
    (-LAST, LAST, ACKNOWLEDGED, 1), (0, 3, 1, 1), (0, 3, 3, 1), (0, 3, 9, 1), (0, 3, -128, 1),
    (0, 3, AVAILABLE, -1),
]  # fmt: skip


def test_states_that_cannot_be_are_refused_and_change_nothing(pair: Pair) -> None:
    """What was written could not be read again."""
    assert initialize(pair.one) == 0
    assert write(pair.one, 5, 2, [(2, 3, AVAILABLE, 1)]) == 0
    for false in FALSE_BATCHES:
        assert write(pair.one, 5, 3, [(2, 2, ACKNOWLEDGED, 1), false]) == INVALID, false
    for start_offset in (-2, LAST, -LAST):
        assert write(pair.one, 5, start_offset) == INVALID, start_offset
    assert summary(pair.one) == (0, 2, 5, 0)
    pair.move(pair.two)
    assert read(pair.two, 5) == (0, 2, [(2, 3, AVAILABLE, 1)])


def test_beginnings_that_cannot_be_are_refused(pair: Pair) -> None:
    for state_epoch, start_offset in [(-1, 0), (1, -2), (1, LAST)]:
        assert initialize(pair.one, state_epoch, start_offset) == INVALID
    assert summary(pair.one)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert initialize(pair.one, 1, -1) == 0
    assert write(pair.one, 5, -1, [(0, 3, AVAILABLE, 1)]) == INVALID


def test_as_much_as_there_may_be_is_written_and_read(pair: Pair) -> None:
    """More offsets are done than the count of them has room for."""
    assert initialize(pair.one) == 0
    most = [(0, 0, AVAILABLE, 1), (1, LAST - 1, ACKNOWLEDGED, 2**15 - 1)]
    assert write(pair.one, 5, 0, most) == 0
    pair.move(pair.two)
    assert read(pair.two, 6) == (0, 0, most)
    assert summary(pair.two) == (0, 0, 6, 2**31 - 1)
    assert write(pair.two, 6, 0, [(0, 0, ACKNOWLEDGED, 1)]) == 0
    assert summary(pair.two) == (0, LAST, 6, 0)


@pytest.mark.parametrize(
    ("group", "partition", "code"), [("", 0, 24), ("g" * 2000, 0, 42), ("g", -1, 42)]
)
def test_share_partitions_that_cannot_be_are_none(
    pair: Pair, group: str, partition: int, code: int
) -> None:
    asked = InitializeShareGroupStateRequest
    topic = asked.InitializeStateData(TOPIC, [asked.PartitionData(partition, 1, 0)])
    row = row_of(pair.one.ask(asked(group, [topic]), 0))
    assert row.error_code == code
    assert row.error_message
