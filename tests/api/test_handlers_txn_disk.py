"""Transactions and the disk: the order of writes, kills between them, writes that fail."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.errors import LogFailed
from appliance.protocol import ErrorCode
from appliance.txn.adoption import now_ms
from appliance.txn.states import TransactionRefused
from appliance.txn.transaction_log import replay
from tests.support.control import Control
from tests.support.group_client import committed
from tests.support.txn_client import T0, T1, TxnClient, begun, committed_values, settled, tick

TV = pytest.mark.parametrize("is_v2", [False, True], ids=["TV1", "TV2"])


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


POINTS = ["before the decision", "after the decision", "between markers", "before the end of it"]


@TV
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("point", POINTS)
def test_a_broker_that_dies_in_the_middle_ends_it_one_way_everywhere(
    killed: Any,
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    is_commit: bool,
    is_v2: bool,
) -> None:
    one = begun(control, is_v2=is_v2)
    if not is_v2:
        assert [one.add(T0, T1), one.add_group()] == [[0, 0], 0]
    assert [one.write("a"), one.write("b", partition=1), one.commit_offset(4)] == [0, 0, 0]
    with monkeypatch.context() as patch:
        die_at(point, patch, control)
        control.answer(one.send_end(is_commit))
    again = killed()
    one.control = again
    if point == POINTS[0]:
        assert one.state() == "Ongoing"
        assert one.end(is_commit) == 0
    else:
        assert one.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert committed_values(again) == ["a"] * is_commit
    assert committed_values(again, partition=1) == ["b"] * is_commit
    assert committed(again) == ({T0: 4} if is_commit else {})
    again.run(settled(again))
    for log in again.broker.transaction_places.all_logs():
        assert log.last_stable_offset == log.log_end_offset
    # and whoever comes next goes on
    two = begun(again, "next", is_v2=is_v2)
    assert two.end() == 0


def die_at(point: str, patch: pytest.MonkeyPatch, control: Control) -> None:
    """Nothing that comes behind the point reaches the disk."""
    transactions = control.broker.transactions
    done = transactions.table._write
    stored: list[str] = []

    async def write(name: str, row: Any) -> None:
        if point == POINTS[0] or (point == POINTS[3] and stored):
            raise LogFailed("dead")
        await done(name, row)
        stored.append(name)

    mark = transactions.markers.write

    async def mark_some(logs: Any, marker: Any) -> list[Any]:
        if point == POINTS[1]:
            return [LogFailed("dead")]
        failed = await mark([*logs][: 1 if point == POINTS[2] else 9], marker)
        return [LogFailed("dead")] if point == POINTS[2] else failed

    patch.setattr(transactions.table, "_write", write)
    patch.setattr(transactions.markers, "write", mark_some)


@TV
def test_an_open_transaction_goes_on_after_a_kill(
    killed: Any, control: Control, is_v2: bool
) -> None:
    one = begun(control, "a", is_v2=is_v2)
    one.control = killed()
    assert one.state() == "Ongoing"
    assert one.write("b") == 0
    assert one.end() == 0
    assert committed_values(one.control) == ["a", "b"]


def test_what_was_added_is_remembered_before_it_is_written_to(
    killed: Any, control: Control
) -> None:
    one = begun(control, is_v2=False)
    assert [one.add(T0, T1), one.add_group()] == [[0, 0], 0]
    one.control = killed()
    assert [one.write("a"), one.write("b", partition=1), one.commit_offset(1)] == [0, 0, 0]


def test_a_log_that_cannot_be_written_holds_up_the_end_and_no_more(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(control, "a")

    async def fail(*given: Any) -> list[LogFailed]:
        return [LogFailed("no disk")]

    with monkeypatch.context() as patch:
        patch.setattr(control.broker.transactions.markers, "write", fail)
        ended = control.answer(one.send_end())
        assert ended.error_code == 0
        one._is(ended.producer_id, ended.producer_epoch)
        assert one.write("b") == 19
        one.is_v2 = False
        assert one.add(T0) == [51]
        assert (one.state(), committed_values(control)) == ("PrepareCommit", [])
    one.sequences = {}
    one.is_v2 = True
    tick(control, now_ms())
    assert committed_values(control) == ["a"]
    assert [one.write("b"), one.end()] == [0, 0]


@TV
def test_a_decision_that_cannot_be_written_is_none(
    control: Control, monkeypatch: pytest.MonkeyPatch, is_v2: bool
) -> None:
    one = begun(control, "a", is_v2=is_v2)

    async def fail(name: str, row: Any) -> None:
        raise TransactionRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no disk")

    with monkeypatch.context() as patch:
        patch.setattr(control.broker.transactions.table, "_write", fail)
        assert one.end() == 15
        assert TxnClient(control, "new").init() == 15
    assert (one.state(), committed_values(control)) == ("Ongoing", [])
    assert [one.write("b"), one.end()] == [0, 0]
    assert committed_values(control) == ["a", "b"]


def test_a_clean_stop_records_what_is_open(control: Control) -> None:
    one = begun(control, "a")
    transactions = control.broker.transactions
    control.run(transactions.close())
    (found,) = replay(control.broker.transaction_places.transaction_logs()).transactions.values()
    assert (found.state.value, found.producer) == ("Ongoing", (one.id, one.epoch))
    assert found.partitions == {T0}


def test_a_topic_that_is_deleted_meanwhile_holds_up_nothing(control: Control) -> None:
    one = begun(control, "a")
    control.create("gone")
    assert one.write("x", topic="gone") == 0
    control.run(control.broker.topics.delete("gone"))
    assert one.end() == 0
    assert committed_values(control) == ["a"]
