"""What operators see of transactions and may do to them, and what settings bound."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from appliance.config import TransactionsConfig
from appliance.machine.believed_time import wall_now_ms
from appliance.protocol.messages.describe_producers import DescribeProducersRequest
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.list_transactions import ListTransactionsRequest
from appliance.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from appliance.txn import coordinator
from appliance.txn.transaction_log import replay
from tests.support.control import Control
from tests.support.txn_client import T1, TxnClient, begun, committed_values


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


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
