"""The checks of histories find what is wrong, and the same seed has the same faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.crash.build import REPOSITORY
from tests.replication.histories.checks import check, epochs_in
from tests.replication.histories.faults import Faults
from tests.replication.histories.ledger import NEVER, Anomalies, Append, Ledger
from tests.replication.histories.mutants import INTERPRETED
from tests.replication.histories.schedule import KINDS, schedule
from tests.replication.histories.transfers import ABORTED, COMMITTED, UNKNOWN, Transfer
from tests.replication.histories.transfers import check as check_transfers
from tests.support.logs import batch

PARTITION = ("log", 0)
PRODUCERS = {"i": "idempotent", "a": "all", "l": "leader"}


def ledger(*appends: tuple[str, int, float, float], seen: tuple[str, ...] = ()) -> Ledger:
    """Of (value, offset, sent, acknowledged)."""
    found = Ledger()
    for value, offset, sent_s, acked_s in appends:
        name, _, number = value.partition(":")
        found.appends[value] = Append(name, int(number), PARTITION, sent_s, acked_s, offset)
    for offset, value in enumerate(seen):
        found.saw("a test", PARTITION, offset, value)
    return found


def test_a_history_without_anomalies_has_none() -> None:
    found = ledger(("i:1", 0, 0, 1), ("a:1", 1, 0, 1), ("i:2", 2, 2, 3), ("l:1", 3, 2, 3),
                   ("a:2", -1, 3, NEVER), seen=("i:1", "a:1", "i:2"))  # fmt: skip
    final = {PARTITION: dict(enumerate(["i:1", "a:1", "i:2", "l:1", "a:1"]))}
    assert check(found, final, PRODUCERS, may_lose=False) == 0
    assert str(found.anomalies) == ""


@pytest.mark.parametrize(("kind", "found", "final"), [
    ("lost", ledger(("a:1", 0, 0, 1)), []),
    ("lost", ledger(("l:1", 0, 0, 1)), []),
    ("gone", ledger(("i:1", 0, 0, NEVER), seen=("i:1",)), []),
    ("gone", ledger(("i:1", 0, 0, 1), ("a:1", 1, 0, 1), seen=("i:1",)), ["a:1", "i:1"]),
    ("never sent", ledger(), ["i:1"]),
    ("duplicate", ledger(("i:1", 0, 0, 1)), ["i:1", "i:1"]),
    ("out of order", ledger(("i:1", 1, 0, 1), ("i:2", 0, 0, 1)), ["i:2", "i:1"]),
    ("real time", ledger(("a:1", 1, 0, 1), ("i:1", 0, 2, 3)), ["i:1", "a:1"]),
])  # fmt: skip
def test_each_anomaly_is_found(kind: str, found: Ledger, final: list[str]) -> None:
    check(found, {PARTITION: dict(enumerate(final))}, PRODUCERS, may_lose=False)
    assert {**found.anomalies.counts} == {kind: 1}


@pytest.mark.parametrize(("epochs", "found"), [
    ((0, 1), {}),
    ((0, 0), {"duplicate": 1, "out of order": 1}),
    ((0,), {"duplicate": 1, "out of order": 1}),
])  # fmt: skip
def test_what_a_producer_sent_again_in_another_epoch_is_no_duplicate(
    epochs: tuple[int, ...], found: dict[str, int]
) -> None:
    appends = ledger(("i:1", 0, 0, 1), ("i:2", 1, 0, NEVER))
    final = {PARTITION: dict(enumerate(["i:1", "i:2", "i:1"]))}
    check(appends, final, PRODUCERS, False, lambda _: {"i:1": epochs})
    assert {**appends.anomalies.counts} == found


def test_epochs_of_producers_are_read_from_files() -> None:
    of_producer = {"producer_id": 7, "base_sequence": 0}
    data = batch("i:1", "i:2", producer_epoch=0, **of_producer)
    data += batch("i:1", producer_epoch=1, **of_producer)
    assert epochs_in(data) == {"i:1": [0, 1], "i:2": [0]}


def test_what_acks_1_was_told_may_be_lost_with_a_leader() -> None:
    found = ledger(("l:1", 0, 0, 1))
    assert check(found, {PARTITION: {}}, PRODUCERS, may_lose=True) == 1
    assert str(found.anomalies) == ""


@pytest.mark.parametrize(("kinds", "transfer", "accounts"), [
    ([], Transfer(COMMITTED, 2), [["t:0:-5"], ["t:0:5"]]),
    ([], Transfer(UNKNOWN, 2), [[], []]),
    (["aborted read"], Transfer(ABORTED), [["t:0:-5"], ["t:0:5"]]),
    (["torn", "balance"], Transfer(UNKNOWN), [["t:0:-5"], []]),
    (["torn"], Transfer(COMMITTED, 2), [["t:0:-5", "t:0:-5"], ["t:0:5", "t:0:5"]]),
    (["lost"], Transfer(COMMITTED, 2), [[], []]),
    ([], Transfer(UNKNOWN, 0, is_refused=True), [[], []]),
    ([], Transfer(UNKNOWN, 2, True, True), [["t:0:-5"], ["t:0:5"]]),
    ([], Transfer(UNKNOWN, 1, is_refused=True, age_s=30), [[], []]),
    (["refused"], Transfer(UNKNOWN, 1, is_refused=True), [[], []]),
    (["refused"], Transfer(UNKNOWN, 2, True, True), [[], []]),
    (["refused"], Transfer(UNKNOWN, 2, is_refused=True), [["t:0:-5"], ["t:0:5"]]),
])  # fmt: skip
def test_what_is_wrong_with_transfers_is_found(
    kinds: list[str], transfer: Transfer, accounts: list[list[str]]
) -> None:
    found = Anomalies()
    check_transfers(found, {"t:0": transfer}, accounts)
    assert [*found.counts] == kinds


def test_two_values_at_one_offset_are_found_when_they_are_seen() -> None:
    found = ledger(seen=("i:1",))
    found.saw("another", PARTITION, 0, "i:2")
    assert {**found.anomalies.counts} == {"changed": 1}


def test_a_seed_has_the_same_faults_each_time_and_all_kinds_come() -> None:
    assert schedule(7, 120, 3.0) == schedule(7, 120, 3.0) != schedule(8, 120, 3.0)
    planned = [each for seed in range(40) for each in schedule(seed, 120, 3.0)]
    assert {each.kind for each in planned} == {*KINDS}
    assert all(each.at_s + each.lasts_s <= 120 for each in planned)
    for each in KINDS:
        assert hasattr(Faults, "_" + each.lower().replace(" ", "_"))


def test_each_planted_bug_finds_what_it_replaces() -> None:
    """In a process of its own: they stay planted. Those of the compiled code are names there."""
    script = (
        "from tests.replication.histories.mutants import INTERPRETED\n"
        "for plant, _ in INTERPRETED.values():\n"
        "    plant()\n"
        "print(len(INTERPRETED))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{len(INTERPRETED)}\n"), done.stderr
