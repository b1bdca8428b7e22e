"""The records of `__share_group_state`: Kafka's bytes, out and back in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from appliance._log import Log
from appliance.errors import DataNewer
from appliance.record import _batch_builder
from appliance.share.partition import SharePartition
from appliance.share.runs import StateBatch
from appliance.share.state_log import (
    SharePartitionKey,
    ShareSnapshotValue,
    Stored,
    StoredBatch,
    replay,
    snapshot,
    tombstone,
    update,
)
from appliance.share.states import RecordState
from appliance.topics.internal_topic import Record, store
from tests.support.logs import one_log

PLACE = SharePartitionKey("grp", UUID(int=5), 3)
AVAILABLE, ACKNOWLEDGED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED
ARCHIVED = RecordState.ARCHIVED

# As Kafka's own classes read them; they were shown these bytes.
KEY = "0003" + b"grp".hex() + f"{5:032x}" + "00000003"
SNAPSHOT_FIELDS = [
    "0000",  # version
    "00000009" "00000002" "00000004",  # snapshot epoch, state epoch, leader epoch
    "0000000000000007",  # start offset
    "00000000000004d2" "00000000000004d2",  # created, written
    "03",  # two batches: first, last, state, delivery count, no tags
    "000000000000000a" "000000000000000e" "04" "0003" "00",
    "0000000000000014" "000000000000001d" "00" "0001" "00",
    "01" "00" "04" "00000005",  # one tag: delivery complete count
]  # fmt: skip
UPDATE_FIELDS = [
    "0000",
    "00000009" "00000004",  # snapshot epoch, leader epoch
    "0000000000000007",
    "02" "0000000000000008" "0000000000000008" "02" "0001" "00",
    "01" "00" "04" "00000005",
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


def put(log: Log, *rows: Record) -> None:
    log.append(_batch_builder.batch([(1, *row) for row in rows]), origin="coordinator")


def some() -> Stored:
    own = Stored(SharePartition(7), state_epoch=2, leader_epoch=4, snapshot_epoch=9)
    batches = [StateBatch(10, 14, ARCHIVED, 3), StateBatch(20, 29, AVAILABLE, 1)]
    own.partition.restore(7, batches)
    return own


def runs(own: Stored) -> list[tuple[int, int, RecordState, int]]:
    return [(each.first, each.last, each.state, each.delivery_count) for each in own.partition.runs]


def test_the_bytes_are_those_of_kafkas_schema() -> None:
    own = some()
    whole = snapshot(PLACE, own, own.partition.take_whole(), 1234)
    assert whole.value is not None
    assert (whole.key.hex(), whole.value.hex()) == ("0000" + KEY, "".join(SNAPSHOT_FIELDS))
    change = update(PLACE, own, [StateBatch(8, 8, ACKNOWLEDGED, 1)])
    assert change.value is not None
    assert (change.key.hex(), change.value.hex()) == ("0001" + KEY, "".join(UPDATE_FIELDS))
    assert tombstone(PLACE) == (whole.key, None)


def test_kafka_finds_the_partition_by_this_name() -> None:
    assert PLACE.owner == "grp:AAAAAAAAAAAAAAAAAAAABQ:3"


def test_a_snapshot_and_what_changed_since_come_back(log: Log) -> None:
    own = some()
    put(log, snapshot(PLACE, own, own.partition.take_whole(), 1234))
    put(log, update(PLACE, own, [StateBatch(7, 8, ACKNOWLEDGED, 1)]),
        update(PLACE, own, [StateBatch(22, 22, ARCHIVED, 2)]))
    found = replay([log])
    assert found.faults == []
    back = found.stored[PLACE]
    assert (back.state_epoch, back.leader_epoch, back.snapshot_epoch) == (2, 4, 9)
    assert (back.snapshot_offset, back.snapshot_ms, back.updates) == (0, 1234, 2)
    assert back.partition.start_offset == 9
    assert runs(back) == [
        (9, 9, AVAILABLE, 0), (10, 14, ARCHIVED, 3), (15, 19, AVAILABLE, 0),
        (20, 21, AVAILABLE, 1), (22, 22, ARCHIVED, 2), (23, 29, AVAILABLE, 1),
    ]  # fmt: skip
    assert not back.partition.has_unstored


def test_the_last_snapshot_counts_and_a_tombstone_ends_it(log: Log) -> None:
    put(log, snapshot(PLACE, some(), some().partition.take_whole(), 1))
    put(log, snapshot(PLACE, Stored(SharePartition(3)), [], 2))
    other = PLACE._replace(partition=4)
    put(log, snapshot(other, some(), [], 1), tombstone(other))
    found = replay([log]).stored
    assert [*found] == [PLACE]
    assert (found[PLACE].partition.start_offset, runs(found[PLACE])) == (3, [])
    assert found[PLACE].snapshot_offset == 1


def test_a_record_that_cannot_be_read_costs_only_what_it_said(log: Log) -> None:
    own = some()
    acquired = ShareSnapshotValue(0, 0, 0, 0, state_batches=[StoredBatch(0, 1, 1, 1)])
    orphan = PLACE._replace(group="orphan")
    whole = snapshot(PLACE, own, own.partition.take_whole(), 1)
    put(
        log,
        Record(b"\0", b""),
        Record(b"\0\x09x", b""),
        Record(snapshot(orphan, own, [], 1).key, store(acquired, 0)),
        update(orphan, own, []),
        whole,
        Record(whole.key, b"\0\0\1"),
    )
    found = replay([log])
    assert [*found.stored] == [PLACE]
    assert len(found.faults) == 5
    assert "offsets 0 to 1: got state 1, wanted one of [0, 2, 4]" in found.faults[2]
    assert "of which there is no snapshot" in found.faults[3]


def test_a_value_of_a_newer_version_is_refused_and_not_left_out(log: Log) -> None:
    """What was acknowledged would be given again."""
    put(log, Record(snapshot(PLACE, some(), [], 1).key, b"\0\1"))
    with pytest.raises(DataNewer, match=r"ShareSnapshotValue has format 1, .* knows up to 0: "):
        replay([log])
