"""Kafka's own DumpLogSegments reads the logs and indexes of our engine.

All logs are written first and dumped by one run of the tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.interop import dump_log_segments as tool
from tests.interop import engine_logs
from tests.interop.dump_log_segments import Batch, Dump, File
from tests.interop.engine_logs import CODECS, Scribe

COMPACTED = ("compacted-once", "compacted-again", "compacted-txn-1", "compacted-txn-3")
APPENDED = tuple(f"codec-{codec}" for codec in CODECS)
WHOLE = (*APPENDED, "idempotent", "transactional", "append-time", "truncated", "recovered",
         "empty")


@dataclass
class Written:
    logs: dict[str, Scribe]
    horizon: int
    files: list[Path]
    dump: Dump

    def batches(self, name: str) -> list[Batch]:
        return self.dump.batches(self.logs[name].directory)

    def segments(self, name: str) -> dict[Path, File]:
        return {path: file for path, file in self.dump.files.items()
                if path.parent == self.logs[name].directory and path.suffix == ".log"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("engine")
    logs, horizon = engine_logs.write_all(root / "closed")
    logs["recovered"] = engine_logs.write_and_lose_power(root / "recovered", root / "running")
    files = tool.log_files(*(scribe.directory for scribe in logs.values()))
    return Written(logs, horizon, files, tool.dump(files))


def test_the_tool_has_no_complaint_about_any_file(written: Written) -> None:
    assert written.dump.complaints == []


def test_every_segment_with_records_has_its_three_files(written: Written) -> None:
    for log in (path for path in written.files if path.suffix == ".log" and path.stat().st_size):
        assert log.with_suffix(".index") in written.files
        assert log.with_suffix(".timeindex") in written.files


@pytest.mark.parametrize("name", [*WHOLE, *COMPACTED])
def test_it_finds_exactly_our_records(written: Written, name: str) -> None:
    scribe = written.logs[name]
    assert written.dump.records(scribe.directory) == scribe.expected


@pytest.mark.parametrize("name", [*WHOLE, *COMPACTED])
def test_every_batch_is_valid_and_fills_its_place(written: Written, name: str) -> None:
    for path, file in written.segments(name).items():
        position = 0
        for batch in file.batches:
            assert batch.valid
            assert batch.position == position
            assert batch.count == len(batch.records)
            position += batch.size
        assert position == path.stat().st_size
        assert file.notes == []


@pytest.mark.parametrize("name", WHOLE)
def test_only_compaction_leaves_holes(written: Written, name: str) -> None:
    directory = written.logs[name].directory
    assert [hole for hole in written.dump.holes if hole[0].parent == directory] == []


@pytest.mark.parametrize("codec", CODECS)
def test_batches_stay_in_the_codec_they_came_in(written: Written, codec: str) -> None:
    assert {batch.codec for batch in written.batches(f"codec-{codec}")} == {codec}


@pytest.mark.parametrize("name", [*APPENDED, "idempotent", "transactional", "append-time"])
def test_indexes_are_as_dense_as_asked_for(written: Written, name: str) -> None:
    """A batch gets an entry if it starts more than the interval after the last batch with one."""
    found = written.dump.entries(written.logs[name].directory, ".index")
    segments = written.segments(name)
    assert len(segments) > 1
    for path, file in segments.items():
        wanted, indexed = [], 0
        for batch in file.batches:
            if batch.position - indexed > engine_logs.SEGMENTS["index_interval_bytes"]:
                wanted.append({"offset": batch.last_offset, "position": batch.position})
                indexed = batch.position
        assert found.get(path.with_suffix(".index").name, []) == wanted


@pytest.mark.parametrize("name", [*WHOLE, *COMPACTED])
def test_the_time_index_ends_with_the_largest_timestamp(written: Written, name: str) -> None:
    found = written.dump.entries(written.logs[name].directory, ".timeindex")
    for path, file in written.segments(name).items():
        stamps = [record.timestamp for batch in file.batches for record in batch.records]
        last = found.get(path.with_suffix(".timeindex").name, [{"timestamp": -1}])[-1]
        assert last["timestamp"] == max(stamps, default=-1)


@pytest.mark.parametrize("flag", ["--verify-index-only", "--index-sanity-check"])
def test_the_tools_own_index_checks_pass(written: Written, flag: str) -> None:
    checked = tool.check_indexes(written.files, flag)
    assert checked.complaints == []
    indexes = [path for path in written.files if path.suffix in (".index", ".timeindex")]
    assert list(checked.files) == indexes
    fine = {f"{path} {word}" for path in indexes for word in ("passed sanity check.", "is empty.")}
    assert set(checked.notes()) <= fine


def test_producers_and_sequences_are_told_as_written(written: Written) -> None:
    batches = written.batches("idempotent")
    assert {batch.producer_id for batch in batches} == {4000, 4001}
    for producer_id, epoch in ((4000, 3), (4001, 0)):
        own = [batch for batch in batches if batch.producer_id == producer_id]
        assert {batch.producer_epoch for batch in own} == {epoch}
        for before, after in pairwise(own):
            assert after.base_sequence == (before.last_sequence + 1) % 2**31
    assert any(batch.last_sequence < batch.base_sequence for batch in batches), "none wrapped"


@pytest.mark.parametrize("name", ["idempotent", "transactional"])
def test_every_snapshot_tells_each_producers_last_batch(written: Written, name: str) -> None:
    snapshots = written.dump.entries(written.logs[name].directory, ".snapshot")
    assert len(snapshots) >= len(written.segments(name)) - 1
    for file_name, entries in snapshots.items():
        before = [batch for batch in written.batches(name)
                  if batch.last_offset < int(file_name.partition(".")[0])]
        seen = {batch.producer_id: batch for batch in before if batch.producer_id >= 0}
        last = {batch.producer_id: batch for batch in before
                if batch.producer_id >= 0 and not batch.control}
        told = {entry["producerId"]: entry for entry in entries}
        assert told.keys() == last.keys()
        for producer_id, batch in last.items():
            assert told[producer_id]["producerEpoch"] == batch.producer_epoch
            assert told[producer_id]["firstSequence"] == batch.base_sequence
            assert told[producer_id]["lastSequence"] == batch.last_sequence
            assert told[producer_id]["lastOffset"] == batch.last_offset
            assert told[producer_id]["timestamp"] == seen[producer_id].max_timestamp


def test_a_snapshot_tells_open_transactions(written: Written) -> None:
    snapshots = written.dump.entries(written.logs["transactional"].directory, ".snapshot")
    for file_name, entries in snapshots.items():
        first: dict[int, int] = {}
        for batch in written.batches("transactional"):
            if batch.last_offset >= int(file_name.partition(".")[0]):
                break
            if batch.control:
                del first[batch.producer_id]
            elif batch.transactional:
                first.setdefault(batch.producer_id, batch.base_offset)
        told = {entry["producerId"]: entry["currentTxnFirstOffset"] for entry in entries}
        assert {key: value for key, value in told.items() if value != -1} == first


@pytest.mark.parametrize("name", ["transactional", "compacted-txn-1"])
def test_the_transaction_index_lists_every_abort(written: Written, name: str) -> None:
    """Also after one compaction: the marker stays as long as readers may need it."""
    scribe = written.logs[name]
    listed = written.dump.entries(scribe.directory, ".txnindex")
    assert [entry for entries in listed.values() for entry in entries] == scribe.aborted


def test_each_abort_is_listed_beside_its_marker(written: Written) -> None:
    listed = written.dump.entries(written.logs["transactional"].directory, ".txnindex")
    assert len(listed) > 1
    for path, file in written.segments("transactional").items():
        markers = [batch.base_offset for batch in file.batches
                   if batch.control and batch.records[0].marker == "ABORT"]
        entries = listed.get(path.with_suffix(".txnindex").name, [])
        assert [entry["lastOffset"] for entry in entries] == markers


def test_tombstones_get_a_delete_horizon_and_stay_until_then(written: Written) -> None:
    batches = written.batches("compacted-once")
    tombstones = [batch for batch in batches
                  if any(record.value_size < 0 for record in batch.records)]
    assert {batch.delete_horizon for batch in tombstones} == {written.horizon}
    others = [batch for batch in batches if batch not in tombstones]
    assert {batch.delete_horizon for batch in others} == {-1}


def test_compaction_keeps_batch_ends_and_codecs(written: Written) -> None:
    batches = written.batches("compacted-once")
    assert any(batch.count < batch.last_offset - batch.base_offset + 1 for batch in batches)
    assert {batch.codec for batch in batches if batch.count} == set(CODECS)
    for before, after in pairwise(batches):
        assert before.last_offset < after.base_offset


def test_a_late_pass_takes_the_abort_marker_and_its_entry(written: Written) -> None:
    directory = written.logs["compacted-txn-3"].directory
    assert written.dump.entries(directory, ".txnindex") == {}
    assert "ABORT" not in {record.marker for record in written.dump.records(directory)}
