"""Transactions that nobody ends, and transactional ids that nobody uses."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.machine.believed_time import wall_now_ms
from appliance.txn import timeouts
from appliance.txn.adoption import now_ms
from appliance.txn.states import State
from tests.support.control import Control
from tests.support.logs import until
from tests.support.txn_client import TxnClient, begun, committed_values, settled, tick

TV = pytest.mark.parametrize("is_v2", [False, True], ids=["TV1", "TV2"])

FENCED, OLD_EPOCH, WRONG_STATE, NO_MAPPING = 90, 47, 48, 49


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


@TV
def test_a_silent_transaction_is_aborted_and_its_producer_fenced(
    control: Control, is_v2: bool
) -> None:
    one = begun(control, "lost", is_v2=is_v2)
    (open_one,) = control.broker.transactions.table.transactions.values()
    assert 0 < open_one.due_ms - now_ms() <= 60_000
    tick(control, open_one.due_ms - 1)
    assert one.state() == "Ongoing"
    tick(control, open_one.due_ms)
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


def test_an_id_that_nobody_uses_is_forgotten(killed: Any, control: Control) -> None:
    one, two = begun(control, "x"), begun(control, name="open")
    one.end()
    two.write("y")
    until(lambda: one.state() == "CompleteCommit")  # the answer comes before its marker
    transactions = control.broker.transactions

    async def expire() -> None:
        timeouts.expire(transactions, wall_now_ms() + transactions.config.expiration_ms + 1)
        await settled(control)

    control.run(expire())
    assert [one.state(), two.state()] == ["105", "Ongoing"]
    one.control = two.control = killed()
    assert [one.state(), two.state()] == ["105", "Ongoing"]
    assert one.end() == NO_MAPPING
