"""Markers of transactions that are lost to damage, and what only a person can end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.broker.health import of_owners
from appliance.machine.believed_time import wall_now_ms
from appliance.record import _batch, _batch_builder
from appliance.repair import partition_repair
from appliance.txn.adoption import now_ms
from appliance.txn.transaction import Producer
from tests.support.control import Control
from tests.support.logs import batch, until
from tests.support.txn_client import T0, T1, TxnClient, begun, committed_values, settled, tick

CONCURRENT = 51


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


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
    partition_repair.skip(log, partition_repair.plan_skip(log), control.broker.ledger, "ada")
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
    partition_repair.skip(log, partition_repair.plan_skip(log), control.broker.ledger, "ada")
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
    partition_repair.skip(log, partition_repair.plan_skip(log), control.broker.ledger, "ada")
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
    state.append_durable(_batch_builder.batch([(wall_now_ms(), key, b"\xff\xff")]))
    again = killed()
    (told,) = [each for each in of_owners(again.broker) if "4711" in each.text]
    assert told.level == "degraded"
    assert f"abort --topic t --partition 0 --start-offset {first}`" in told.text
    log = again.broker.topics["t"].logs[0]
    again.run(again.broker.transactions.mark(log, Producer(4711, 3), False, 0))
    assert list(of_owners(again.broker)) == []
    assert log.last_stable_offset == log.log_end_offset
