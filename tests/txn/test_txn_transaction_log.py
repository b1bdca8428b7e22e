"""The records of `__transaction_state`: Kafka's bytes, out and back in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.errors import DataNewer
from appliance.record import _batch_builder
from appliance.topics.internal_topic import Record
from appliance.txn.states import State
from appliance.txn.transaction import NEVER_MS, NONE, TV1, TV2, Partition, Producer, Transaction
from appliance.txn.transaction_log import record, replay, tombstone
from tests.support.logs import one_log

OPEN = Transaction(
    id="tx",
    producer=Producer(7, 3),
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset({Partition("t", 1), Partition("t", 0), Partition("a", 2)}),
    start_ms=1_700_000_000_000,
    changed_ms=1_700_000_000_001,
    client_version=TV2,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


def put(log: Log, *rows: Record) -> None:
    log.append(_batch_builder.batch([(1, *row) for row in rows]), origin="coordinator")


def test_the_bytes_are_those_of_kafkas_schema() -> None:
    row = record(OPEN)
    assert row.key.hex() == "00000002" + b"tx".hex()
    fields = [
        "0001",  # version
        "00000000000000070003",  # producer id, epoch
        "0000ea6001",  # timeout, status
        "03",  # two topics, each: name, partitions, no tags
        "02" + b"a".hex() + "020000000200",
        "02" + b"t".hex() + "03000000000000000100",
        "0000018bcfe568010000018bcfe56800",  # last update, start
        "0102020002",  # one tag: client transaction version
    ]
    assert row.value is not None
    assert row.value.hex() == "".join(fields)


def test_an_empty_one_has_no_partitions_and_ids_are_tags() -> None:
    row = record(
        Transaction("x", Producer(1, 0), 1, previous_producer_id=5, next_producer_id=6)
    ).value
    assert row is not None
    assert row.hex().startswith("000100000000000000010000000000010000")
    previous, following, version = "00080000000000000005", "01080000000000000006", "02020001"
    assert row.hex().endswith("03" + previous + following + version)


def test_every_state_comes_back(log: Log) -> None:
    rows = [
        replace(
            OPEN,
            id=f"tx-{state.value}",
            state=state,
            partitions=frozenset() if state is State.EMPTY else OPEN.partitions,
            previous_producer_id=5,
            next_producer_id=9,
        )
        for state in State
    ]
    put(log, *[record(each) for each in rows])
    found = replay([log])
    assert found.faults == []
    assert sorted(found.transactions.values(), key=lambda each: each.id) == sorted(
        rows, key=lambda each: each.id
    )
    assert found.transactions["tx-Ongoing"].due_ms == NEVER_MS


def test_the_last_record_counts_and_a_tombstone_ends_it(log: Log) -> None:
    put(log, record(OPEN), record(replace(OPEN, id="other")))
    put(log, record(replace(OPEN, state=State.PREPARE_COMMIT)), tombstone("other"))
    found = replay([log])
    assert {name: each.state for name, each in found.transactions.items()} == {
        "tx": State.PREPARE_COMMIT
    }


def test_what_older_kafkas_wrote_is_read(log: Log) -> None:
    """Version 0: no tags, sizes of fixed width."""
    fields = [
        "0000",
        "000000000000000700030000ea6001",
        "000000010001" + b"t".hex() + "0000000100000004",
        "00000000000000090000000000000008",
    ]
    put(log, Record(record(OPEN).key, bytes.fromhex("".join(fields))))
    (own,) = replay([log]).transactions.values()
    assert (own.partitions, own.changed_ms, own.start_ms) == ({Partition("t", 4)}, 9, 8)
    assert (own.previous_producer_id, own.next_producer_id, own.client_version) == (NONE, NONE, TV1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\2tx", b"\0\1garbage"),
        (b"\0\0\0\2tx", b"\0"),
        (b"\0", b"\0\1"),
        (b"\0\7\0\2tx", b"\0\1"),
        (record(OPEN).key, (record(OPEN).value or b"").replace(b"\xea\x60\x01", b"\xea\x60\x63")),
    ],
    ids=["torn", "no version", "no key", "other key", "no such state"],
)
def test_a_record_that_cannot_be_read_is_told_and_keeps_nobody_out(
    log: Log, key: bytes, value: bytes
) -> None:
    put(log, record(replace(OPEN, id="other")), Record(key, value))
    found = replay([log])
    assert list(found.transactions) == ["other"]
    assert len(found.faults) == 1
    assert "t-0" in found.faults[0]


def test_a_value_of_a_newer_version_is_refused_and_not_left_out(log: Log) -> None:
    """Whose transaction it is would begin anew, and what was decided would be forgotten."""
    put(log, record(replace(OPEN, id="other")), Record(b"\0\0\0\2tx", b"\0\7"))
    with pytest.raises(DataNewer, match=r"TransactionLogValue has format 7, .* knows up to 1: "):
        replay([log])
