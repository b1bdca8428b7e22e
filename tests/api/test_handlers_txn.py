"""Transactions as clients see them, over every version: from request to answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from appliance.protocol.messages.api_versions import ApiVersionsRequest
from appliance.protocol.messages.update_features import UpdateFeaturesRequest
from tests.support.control import Control
from tests.support.group_client import GroupClient, committed, fetch_offsets
from tests.support.txn_client import T0, T1, TxnClient, begun, committed_values

TV = pytest.mark.parametrize("is_v2", [False, True], ids=["TV1", "TV2"])

FENCED, OLD_EPOCH, WRONG_STATE, NO_MAPPING = 90, 47, 48, 49


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


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

    assert [ask(True), ask(False), ask(True)] == [120, 0, 0]


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
