"""Transactions as clients see them, over every version: from request to answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.broker.health import of_owners
from appliance.config import TransactionsConfig
from appliance.errors import LogFailed
from appliance.machine.wall_clock import wall_now_ms
from appliance.protocol import ErrorCode
from appliance.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from appliance.protocol.messages.api_versions import ApiVersionsRequest
from appliance.protocol.messages.describe_producers import DescribeProducersRequest
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.list_transactions import ListTransactionsRequest
from appliance.protocol.messages.update_features import UpdateFeaturesRequest
from appliance.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from appliance.record import _batch, _build
from appliance.repair import repair
from appliance.txn import coordinator, markers
from appliance.txn.adoption import now_ms
from appliance.txn.markers import write_markers
from appliance.txn.states import State, TransactionRefused
from appliance.txn.transaction import Producer
from appliance.txn.transaction_log import replay
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed, fetch_offsets
from tests.support.logs import batch, until
from tests.support.txn_client import TxnClient, committed_values, settled

T0, T1 = ("t", 0), ("t", 1)
TV = pytest.mark.parametrize("is_v2", [False, True], ids=["TV1", "TV2"])

FENCED, OLD_EPOCH, WRONG_STATE, NO_MAPPING, CONCURRENT = 90, 47, 48, 49, 51


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path)
    made.create("t", 2)
    yield made
    made.close()


@pytest.fixture
def killed(tmp_path: Path, control: Control) -> Iterator[Any]:
    """Kills the broker; answers the one that is started on what is left."""
    lives: list[Control] = []

    def kill(*, is_dead: bool = False) -> Control:
        if not is_dead:
            (lives[-1] if lives else control).kill()
        lives.append(Control(tmp_path))
        return lives[-1]

    yield kill
    # the first one is closed by its own fixture
    if lives:
        control.__dict__.update(lives[-1].__dict__)


def begun(control: Control, *values: str, is_v2: bool = True, name: str = "tx") -> TxnClient:
    one = TxnClient(control, name, is_v2=is_v2)
    assert one.init() == 0
    if values:
        if not is_v2:
            assert one.add(T0) == [0]
        assert one.write(*values) == 0
    return one


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_keeps_its_producer_and_gets_the_next_epoch(
    control: Control, version: int
) -> None:
    one = TxnClient(control)
    assert one.init(version) == 0
    first = (one.id, one.epoch)
    assert one.init(version) == 0
    assert (one.id, one.epoch) == (first[0], 1)
    other = TxnClient(control, "other")
    assert (other.init(version), other.epoch) == (0, 0)
    assert other.id != one.id


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds(control: Control, timeout_ms: int) -> None:
    assert TxnClient(control).init(timeout_ms=timeout_ms) == 50
    assert TxnClient(control).init(timeout_ms=900_000) == 0


def test_a_producer_that_says_who_it_was_goes_on_and_a_zombie_does_not(control: Control) -> None:
    one, zombie = begun(control), TxnClient(control)
    zombie.id, zombie.epoch = one.id, one.epoch
    assert (one.init(is_known=True), one.epoch) == (0, 1)
    # the answer may have been lost: the same again
    assert (zombie.init(is_known=True), zombie.epoch) == (0, 1)
    one.init()
    assert zombie.init(is_known=True) == FENCED
    assert zombie.init(3, is_known=True) == OLD_EPOCH


@TV
def test_a_new_producer_aborts_what_the_last_one_left_open(control: Control, is_v2: bool) -> None:
    one = begun(control, "lost", is_v2=is_v2)
    two = begun(control, "kept", is_v2=is_v2)
    assert (two.id, two.epoch) == (one.id, 2)
    assert one.write("late") == OLD_EPOCH
    assert one.end() == FENCED
    assert two.end() == 0
    assert committed_values(control) == ["kept"]


# The protocol before KIP-890


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(control: Control) -> None:
    one = begun(control, is_v2=False)
    for n, is_commit in enumerate([True, False, True]):
        assert one.add(T0, T1) == [0, 0]
        assert one.write(f"a{n}") == one.write(f"b{n}", partition=1) == 0
        assert committed_values(control) == ["a0"] * (n > 0)
        assert one.end(is_commit) == 0
    assert committed_values(control) == ["a0", "a2"]
    assert committed_values(control, partition=1) == ["b0", "b2"]
    assert one.epoch == 0


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_by_every_version(control: Control, version: int) -> None:
    one = begun(control, is_v2=False)
    assert one.add(T0, T1, version=version) == [0, 0]
    assert one.add(T0, ("none", 0), version=version) == [55, 3]
    assert one.state() == "Ongoing"
    one.epoch -= 1
    assert one.add(T0, version=version) == [FENCED if version >= 2 else OLD_EPOCH]
    one.id += 1
    assert one.add(T0, version=version) == [NO_MAPPING]


def test_a_broker_may_add_and_verify_for_many(control: Control) -> None:
    one = begun(control, is_v2=False)
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("t", [0])

    def ask(verify_only: bool) -> int:
        row = transaction("tx", one.id, one.epoch, verify_only, [topic])
        (answer,) = control.ask(AddPartitionsToTxnRequest([row]), 5).results_by_transaction
        return int(answer.topic_results[0].results_by_partition[0].partition_error_code)

    assert [ask(True), ask(False), ask(True)] == [WRONG_STATE, 0, 0]


@pytest.mark.parametrize(("version", "error"), [(3, 48), (10, 48), (11, 120)])
def test_a_partition_that_was_not_added_is_not_written_to(
    control: Control, version: int, error: int
) -> None:
    one = begun(control, "in", is_v2=False)
    assert one.write("out", partition=1, version=version) == error
    assert one.end() == 0
    # a batch that comes late would open a transaction that nobody ends
    assert one.write("late", version=version) == error
    assert [log.last_stable_offset for log in control.broker.topics["t"].logs] == [2, 0]


@pytest.mark.parametrize("version", range(5))
def test_an_end_that_comes_twice_is_answered_twice(control: Control, version: int) -> None:
    one = begun(control, "x", is_v2=False)
    assert [one.end(True, version), one.end(True, version)] == [0, 0]
    assert one.end(False, version) == WRONG_STATE
    one.add(T0)
    assert [one.end(False, version), one.end(False, version)] == [0, 0]
    assert one.end(True, version) == WRONG_STATE
    one.epoch += 1
    assert one.end(True, version) == (FENCED if version >= 2 else OLD_EPOCH)


def test_nothing_can_be_ended_before_it_began(control: Control) -> None:
    one = begun(control, is_v2=False)
    assert [one.end(True), one.end(False)] == [WRONG_STATE] * 2
    one.name = "nobody"
    assert one.end() == NO_MAPPING
    one.name = ""
    assert one.end() == 42


# KIP-890


def test_the_first_write_adds_the_partition_and_each_end_moves_the_epoch(control: Control) -> None:
    one = begun(control)
    for n, is_commit in enumerate([True, False, True]):
        assert one.epoch == n
        assert one.write(f"a{n}") == one.write(f"a{n}+") == one.write(f"b{n}", partition=1) == 0
        assert one.end(is_commit) == 0
    assert committed_values(control) == ["a0", "a0+", "a2", "a2+"]
    assert committed_values(control, partition=1) == ["b0", "b2"]


def test_what_is_late_cannot_touch_the_next_transaction(control: Control) -> None:
    one = begun(control, "first")
    late = TxnClient(control)
    late.id, late.epoch = one.id, one.epoch
    late.sequences = dict(one.sequences)
    one.end()
    one.write("second")
    assert late.write("late") == OLD_EPOCH
    assert late.end(False) == FENCED
    assert late.end(True) == FENCED
    assert one.end() == 0
    assert committed_values(control) == ["first", "second"]


def test_a_lost_answer_is_given_again(control: Control) -> None:
    one = begun(control, "x")
    first = control.answer(one.send_end())
    again = control.answer(one.send_end())
    assert first == again
    assert control.answer(one.send_end(False)).error_code == WRONG_STATE


def test_an_abort_of_nothing_moves_the_epoch_and_a_commit_of_nothing_is_refused(
    control: Control,
) -> None:
    one = begun(control)
    assert one.end(True) == WRONG_STATE
    assert (one.end(False), one.epoch) == (0, 1)
    assert (one.end(False), one.epoch) == (0, 2)
    assert one.state() == "CompleteAbort"


def test_epochs_that_run_out_make_place_for_a_new_producer(control: Control) -> None:
    one = begun(control, "x")
    assert one.end() == 0
    assert one.state() == "CompleteCommit"
    known = control.broker.transactions.table.transactions
    last = known["tx"].producer._replace(epoch=2**15 - 2)
    known["tx"] = replace(known["tx"], producer=last)
    one.epoch, one.sequences = last.epoch, {}
    assert one.write("last") == 0
    sent = [one.send_end(), one.send_end()]
    first, again = [control.answer(each) for each in sent]
    assert first == again
    assert (first.producer_epoch, first.producer_id != one.id) == (0, True)
    one.id, one.epoch, one.sequences = first.producer_id, 0, {}
    assert [one.write("new"), one.end()] == [0, 0]
    assert committed_values(control) == ["x", "last", "new"]


def test_clients_are_told_of_the_newer_protocol(control: Control) -> None:
    answer = control.ask(ApiVersionsRequest("a", "1"), 4)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels["transaction.version"] == 2
    spans = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert spans["transaction.version"] == (0, 2)
    key = UpdateFeaturesRequest.FeatureUpdateKey("transaction.version", 1)
    refused = control.ask(UpdateFeaturesRequest(feature_updates=[key]), 2)
    assert refused.error_code == 95
    assert "stays there" in refused.error_message


# Offsets of groups


@TV
def test_offsets_count_when_the_transaction_does(control: Control, is_v2: bool) -> None:
    one = begun(control, is_v2=is_v2)
    for offset, is_commit in ((5, True), (9, False), (7, True)):
        before = committed(control)
        if not is_v2:
            assert one.commit_offset(offset) == WRONG_STATE
            assert one.add_group() == 0
        assert one.commit_offset(offset) == 0
        assert committed(control) == before
        stable = fetch_offsets(control, "g", {"t": [0]}, require_stable=True)
        assert stable.topics[0].partitions[0].error_code == 88
        assert one.end(is_commit) == 0
        assert committed(control) == ({T0: offset} if is_commit else before)
    stable = fetch_offsets(control, "g", {"t": [0]}, require_stable=True)
    assert stable.topics[0].partitions[0].committed_offset == 7


@pytest.mark.parametrize("version", range(6))
def test_offsets_are_taken_by_every_version(control: Control, version: int) -> None:
    one = begun(control, is_v2=False)
    for each in range(min(version, 4) + 1):
        assert one.add_group(version=each) == 0
    assert one.commit_offset(3, version=version) == 0
    assert one.commit_offset(3, topic="none", version=version) == 3
    one.epoch -= 1
    assert one.commit_offset(4, version=version) == OLD_EPOCH
    one.epoch += 1
    assert one.end() == 0
    assert committed(control) == {T0: 3}


def test_a_member_must_be_of_its_generation_and_nobody_need_be(control: Control) -> None:
    member = GroupClient(control)
    member.enter()
    one = begun(control)
    facts = {"generation_id": member.generation, "member_id": member.id}
    assert one.commit_offset(1, **facts) == 0
    assert one.commit_offset(1, generation_id=7, member_id=member.id) == 22
    assert one.commit_offset(1, generation_id=1, member_id="who") == 25
    assert one.commit_offset(2) == 0
    assert one.end() == 0
    assert committed(control) == {T0: 2}


# Fencing in the middle, timeouts, expiry


@TV
def test_a_silent_transaction_is_aborted_and_its_producer_fenced(
    control: Control, is_v2: bool
) -> None:
    one = begun(control, "lost", is_v2=is_v2)
    tick(control, now_ms() + 59_000)
    assert one.state() == "Ongoing"
    tick(control, now_ms() + 61_000)
    assert one.state() == "CompleteAbort"
    assert one.write("late") == OLD_EPOCH
    assert one.end() == (WRONG_STATE if is_v2 else FENCED)
    assert control.broker.topics["t"].logs[0].last_stable_offset == 2
    assert committed_values(control) == []
    assert (one.init(), one.epoch) == (0, 2)


@TV
def test_a_silent_transaction_has_no_more_time_after_a_restart(
    killed: Any, control: Control, monkeypatch: pytest.MonkeyPatch, is_v2: bool
) -> None:
    """It began 50 s before, and has 60."""
    monkeypatch.setattr(control.broker.transactions, "_wall_ms", lambda: wall_now_ms() - 50_000)
    monkeypatch.setattr(TxnClient, "late_ms", 50_000)
    begun(control, "lost", is_v2=is_v2)
    again = killed()
    (left,) = again.broker.transactions.table.transactions.values()
    assert now_ms() < left.due_ms <= now_ms() + 10_000
    tick(again, left.due_ms - 1)
    assert again.broker.transactions.table.transactions[left.id].state is State.ONGOING
    tick(again, left.due_ms)
    assert again.broker.transactions.table.transactions[left.id].state is State.COMPLETE_ABORT


def tick(control: Control, now: int) -> None:
    async def turn() -> None:
        control.broker.transactions.tick(now)
        await settled(control)

    control.run(turn())


def test_an_id_that_nobody_uses_is_forgotten(killed: Any, control: Control) -> None:
    one, two = begun(control, "x"), begun(control, name="open")
    one.end()
    two.write("y")
    transactions = control.broker.transactions

    async def expire() -> None:
        transactions.expire(wall_now_ms() + transactions.config.expiration_ms + 1)
        await settled(control)

    control.run(expire())
    assert [one.state(), two.state()] == ["105", "Ongoing"]
    one.control = two.control = killed()
    assert [one.state(), two.state()] == ["105", "Ongoing"]
    assert one.end() == NO_MAPPING


# Order on disk


class Stop(Exception):
    """Where the broker dies."""


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

    def mark(logs: Any, marker: Any, wall: int, timeout_s: float) -> list[Any]:
        if point == POINTS[1]:
            return [LogFailed("dead")]
        written = write_markers([*logs][: 1 if point == POINTS[2] else 9], marker, wall, 9)
        return [LogFailed("dead")] if point == POINTS[2] else written

    patch.setattr(transactions.table, "_write", write)
    patch.setattr(markers, "write_markers", mark)


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


def test_what_nobody_can_end_is_aborted_at_the_start(killed: Any, control: Control) -> None:
    """As in a directory whose transactions were left behind."""
    nobody = TxnClient(control)
    nobody.id, nobody.epoch = 4711, 3
    log: Log = control.broker.topics["t"].logs[0]
    log.append(nobody.batch("x"))
    again = killed()
    log = again.broker.topics["t"].logs[0]
    assert (log.last_stable_offset, log.log_end_offset) == (2, 2)
    assert committed_values(again) == []


def damage_markers(path: Path) -> int:
    """Of t-0, of a broker that is not running; how many."""
    (file,) = (path / "data" / "t-0").glob("*.log")
    data = bytearray(file.read_bytes())
    markers_found = [each for each in _batch.headers(bytes(data)) if each.is_control]
    for each in markers_found:
        data[each.position + 65] ^= 1
    file.write_bytes(data)
    return len(markers_found)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_that_is_lost_to_damage_is_written_again_as_it_was_decided(
    tmp_path: Path, killed: Any, control: Control, is_commit: bool
) -> None:
    one = begun(control, "a")
    assert one.end(is_commit) == 0
    control.run(settled(control))
    control.broker.topics["t"].logs[0].append_durable(batch("b"))
    control.kill()
    assert damage_markers(tmp_path) == 1
    control = killed(is_dead=True)
    (log, _) = control.broker.topics["t"].logs
    assert len(log.holes()) == 1
    until(lambda: control.run(settled(control)) or log.last_stable_offset == log.log_end_offset)
    repair.skip(log, repair.plan_skip(log), control.broker.ledger, "ada")
    assert committed_values(control) == (["a", "b"] if is_commit else ["b"])
    # and the producer goes on
    again = TxnClient(control)
    assert (again.init(), again.write("c"), again.end(True)) == (0, 0, 0)
    assert committed_values(control)[-1] == "c"


def two_ended(control: Control, first: bool, second: bool, *, is_new: bool) -> None:
    """In TV1, one in each partition; the second by a new owner, or by the same."""
    one = begun(control, "a", is_v2=False)
    assert one.end(first) == 0
    if is_new:
        assert one.init() == 0
    assert (one.add(T1), one.write("q", partition=1), one.end(second)) == ([0], 0, 0)
    control.run(settled(control))


@pytest.mark.parametrize("is_new", [False, True], ids=["same epoch", "next epoch"])
@pytest.mark.parametrize(("first", "second"), [(False, True), (True, False)])
def test_in_tv1_a_lost_marker_is_never_that_of_another_transaction(
    tmp_path: Path, killed: Any, control: Control, first: bool, second: bool, is_new: bool
) -> None:
    two_ended(control, first, second, is_new=is_new)
    control.broker.topics["t"].logs[0].append_durable(batch("b"))
    control.kill()
    assert damage_markers(tmp_path) == 1
    control = killed(is_dead=True)
    log = control.broker.topics["t"].logs[0]
    control.run(control.broker.transactions.read_again(log))
    control.run(settled(control))
    ((hung, found),) = control.broker.transactions.adoption.hanging()
    assert (hung, found.txn_first_offset, log.last_stable_offset) == (log, 0, 0)
    (told,) = of_owners(control.broker)
    assert "t-0: a transaction of producer" in told.text
    again = TxnClient(control, is_v2=False)
    assert (again.init(), again.add(T0), again.add(T1)) == (0, [CONCURRENT], [0])
    marker = Producer(found.producer_id, found.epoch), first, found.coordinator_epoch
    control.run(control.broker.transactions.mark(log, *marker))
    repair.skip(log, repair.plan_skip(log), control.broker.ledger, "ada")
    assert (again.add(T0), again.write("c"), again.end()) == ([0], 0, 0)
    assert committed_values(control) == [*"a"[:first], "b", "c"]


def test_in_tv1_what_is_open_over_a_lost_marker_is_not_committed_with_it(
    tmp_path: Path, killed: Any, control: Control
) -> None:
    one = begun(control, "aborted", is_v2=False)
    assert (one.end(False), one.add(T0), one.write("open")) == (0, [0], 0)
    control.run(settled(control))
    control.kill()
    assert damage_markers(tmp_path) == 1
    one.control = control = killed(is_dead=True)
    assert one.end() != 0
    log = control.broker.topics["t"].logs[0]
    tick(control, now_ms())
    until(lambda: control.run(settled(control)) or log.last_stable_offset == log.log_end_offset)
    repair.skip(log, repair.plan_skip(log), control.broker.ledger, "ada")
    assert committed_values(control) == []


def test_what_only_a_person_can_end_is_told_with_the_command(killed: Any, control: Control) -> None:
    """A record of a transaction cannot be read, so nobody knows whose the open one is."""
    assert begun(control, "a").end() == 0
    nobody = TxnClient(control)
    nobody.id, nobody.epoch = 4711, 3
    log: Log = control.broker.topics["t"].logs[0]
    first = log.append_durable(nobody.batch("x")).base_offset
    key = b"\0\0\0\5other"
    (state, *_) = control.broker.transaction_places.transaction_logs()
    state.append_durable(_build.batch([(wall_now_ms(), key, b"\xff\xff")]))
    again = killed()
    (told,) = [each for each in of_owners(again.broker) if "4711" in each.text]
    assert told.level == "degraded"
    assert f"abort --topic t --partition 0 --start-offset {first}`" in told.text
    log = again.broker.topics["t"].logs[0]
    again.run(again.broker.transactions.mark(log, Producer(4711, 3), False, 0))
    assert list(of_owners(again.broker)) == []
    assert log.last_stable_offset == log.log_end_offset


def test_a_log_that_cannot_be_written_holds_up_the_end_and_no_more(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(control, "a")
    with monkeypatch.context() as patch:
        patch.setattr(markers, "write_markers", lambda *given: [LogFailed("no disk")])
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
    control.run(control.broker.delete_topic("gone"))
    assert one.end() == 0
    assert committed_values(control) == ["a"]


# Looking, and operators


def test_transactions_are_described(control: Control) -> None:
    one = begun(control, "a")
    one.write("b", partition=1)
    asked = DescribeTransactionsRequest(["tx", "nobody"])
    row, missing = control.ask(asked, 0).transaction_states
    assert (row.transaction_state, row.producer_id, row.producer_epoch) == ("Ongoing", one.id, 0)
    assert row.transaction_timeout_ms == 60_000
    assert abs(row.transaction_start_time_ms - wall_now_ms()) < 60_000
    assert [(each.topic, each.partitions) for each in row.topics] == [("t", [0, 1])]
    assert (missing.error_code, missing.transactional_id) == (105, "nobody")


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(control: Control, version: int) -> None:
    one, two = begun(control, "a"), begun(control, name="two")

    def ask(**asked: Any) -> list[str]:
        answer = control.ask(ListTransactionsRequest(**asked), version)
        assert answer.unknown_state_filters == [
            each for each in asked.get("state_filters", []) if each == "What"
        ]
        return sorted(each.transactional_id for each in answer.transaction_states)

    assert ask() == ["two", "tx"]
    assert ask(state_filters=["Ongoing", "What"]) == ["tx"]
    assert ask(state_filters=["What"]) == []
    assert ask(producer_id_filters=[two.id]) == ["two"]
    if version:
        assert ask(duration_filter=0) == ["tx"]
        assert ask(duration_filter=3_600_000) == []
    if version == 2:
        assert ask(transactional_id_pattern="t.") == ["tx"]
        assert ask(transactional_id_pattern="t.*") == ["two", "tx"]
        assert ask(transactional_id_pattern="") == ["two", "tx"]
        wrong = control.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert wrong.error_code == 128
    assert one.end() == 0


def test_producers_are_described_and_a_hanging_transaction_is_ended(control: Control) -> None:
    one = begun(control, "a")
    topic = DescribeProducersRequest.TopicRequest("t", [0, 9])

    def ask() -> Any:
        known, unknown = control.ask(DescribeProducersRequest([topic]), 0).topics[0].partitions
        assert unknown.error_code == 3
        return known.active_producers

    (row,) = ask()
    assert (row.producer_id, row.producer_epoch, row.last_sequence) == (one.id, 0, 0)
    assert (row.current_txn_start_offset, row.coordinator_epoch) == (0, -1)
    asked = WriteTxnMarkersRequest.WritableTxnMarker(one.id, 0, False, [], 0)
    asked.topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic("t", [0, 9])]
    for version in (1, 2):
        (answer,) = control.ask(WriteTxnMarkersRequest([asked]), version).markers
        assert [each.error_code for each in answer.topics[0].partitions] == [0, 3]
        (row,) = ask()
        assert (row.current_txn_start_offset, row.coordinator_epoch) == (-1, 0)
    assert committed_values(control) == []
    asked.coordinator_epoch = -1
    (answer,) = control.ask(WriteTxnMarkersRequest([asked]), 1).markers
    assert answer.topics[0].partitions[0].error_code == 52


def test_until_transactions_are_read_clients_are_told_to_ask_again(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(control, "a")
    transactions = control.broker.transactions
    may_read = threading.Event()
    monkeypatch.setattr(coordinator, "replay", lambda logs: [may_read.wait(20), replay(logs)][1])

    async def start_again() -> None:
        transactions.stop()
        transactions.start()

    control.run(start_again())
    sent = one.send_end()
    listed = control.send(ListTransactionsRequest(), 1)
    assert control.answer(sent).error_code == control.answer(listed).error_code == 14
    assert one.write("b", partition=1) == 19
    one.sequences[T1] = 0
    may_read.set()
    control.run(transactions.loading.loaded())
    assert one.end() == 0


def test_settings_bound_what_is_asked(tmp_path: Path) -> None:
    made = Control(tmp_path, transactions=TransactionsConfig(max_timeout_ms=1000))
    assert TxnClient(made).init(timeout_ms=1001) == 50
    made.close()
