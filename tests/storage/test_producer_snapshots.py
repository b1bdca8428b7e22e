"""Producer snapshots: files in Kafka's layout, and a log that has lost one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.data_dir.log_dir import LogDir
from appliance.errors import SequenceOutOfOrder, TransactionStateInvalid
from tests.support.batch_model import crc32c
from tests.support.logs import NOW, batch, end_txn, one_log, produced, reopened
from tests.support.producers import refused


def snapshot(path: Path) -> list[tuple[int, ...]]:
    """Kafka's layout, read by hand."""
    data = path.read_bytes()
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, crc, len(data)) == (1, crc32c(data[6:]), 10 + 46 * count)
    return sorted(struct.unpack_from(">qhiqiqiq", data, 10 + 46 * i) for i in range(count))


def test_a_roll_leaves_a_snapshot_in_kafkas_layout(log: Log) -> None:
    log.append(produced(0, 3, pid=1, epoch=2))
    log.append(produced(8, 2, pid=2, txn=True))
    end_txn(log, "commit", pid=3, coordinator_epoch=6)
    log.roll()
    path = Path(log.segments()[1].path).with_suffix(".snapshot")
    assert path.name == f"{6:020d}.snapshot"
    assert snapshot(path) == [
        (1, 2, 2, 2, 2, NOW, -1, -1),
        (2, 0, 9, 4, 1, NOW, -1, 3),
        (3, 0, -1, -1, 0, NOW, 6, -1),
    ]


def test_a_log_without_producers_writes_no_snapshots(log: Log) -> None:
    log.append(batch("a"))
    log.roll()
    assert list(Path(log.segments()[0].path).parent.glob("*.snapshot")) == []


def test_snapshots_go_with_their_segments(log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    for i in range(4):
        log.append_durable(produced(i))
        log.roll()
    log_dir.checkpoint()
    log.delete_before(3)
    names = sorted(path.name for path in (log_dir.path / "t-0").glob("*.snapshot"))
    assert names == [f"{base:020d}.snapshot" for base in (3, 4)]


def test_a_truncated_log_takes_its_state_from_the_snapshot_and_the_rest(log: Log) -> None:
    log.append(produced(0, 2, pid=1))
    log.append(produced(0, pid=2, txn=True))
    log.roll()
    log.append(produced(2, pid=1))
    log.append(produced(3, pid=1))
    end_txn(log, "commit", pid=2)
    log.truncate(4)
    found = [each[:5] for each in sorted(log.producers())]
    assert found == [(1, 0, 2, 3, -1), (2, 0, 0, 2, 2)]
    refused(log, produced(4, pid=1), SequenceOutOfOrder)
    assert log.append(produced(2, pid=1)) == (3, 3, -1, True)
    assert log.append(produced(3, pid=1)) == (4, 4, -1, False)
    refused(log, produced(1, pid=2), TransactionStateInvalid)


@pytest.mark.parametrize("damage", ["gone", "flipped", "cut", "empty"])
def test_a_lost_snapshot_loses_no_state_at_a_reopen(damage: str, log_dir: LogDir) -> None:
    log = log_dir.log("t", 0)
    for i in range(3):
        log.append_durable(produced(i))
        log.roll()
    again = reopened(log_dir, cleanly=False)
    again.abandon()
    for path in (log_dir.path / "t-0").glob("*.snapshot"):
        data = path.read_bytes()
        changed = {"flipped": data[:-1] + b"\7", "cut": data[:-1], "empty": b""}
        path.unlink() if damage == "gone" else path.write_bytes(changed[damage])
    with one_log(log_dir.path) as log:
        assert log.append(produced(2)).duplicate
        refused(log, produced(4), SequenceOutOfOrder)
