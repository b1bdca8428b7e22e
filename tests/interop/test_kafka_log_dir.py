"""Our engine opens, serves and continues a log directory that a real Kafka broker wrote."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance import errors
from appliance.config import LogConfig
from appliance.data_dir.log_dir import Log, LogDir
from appliance.record import _batch, _batch_builder, _records
from tests.interop import dump_log_segments as tool
from tests.interop.kafka_logs import CODECS, TOPICS, KafkaLogs

WRITTEN_ON = [f"codec-{codec}" for codec in CODECS]  # from an idempotent producer, the default now


@dataclass
class Opened:
    root: Path
    logs: LogDir
    kafka: KafkaLogs

    def dumped_batches(self, topic: str) -> list[tool.Batch]:
        return self.kafka.dump.batches(self.kafka.stopped / f"{topic}-0")

    def dumped(self, topic: str) -> list[tool.Record]:
        return self.kafka.dump.records(self.kafka.stopped / f"{topic}-0")

    def last_entries(self, topic: str, suffix: str) -> list[dict[str, int]]:
        return list(self.kafka.dump.entries(self.kafka.stopped / f"{topic}-0", suffix).values())[-1]


@pytest.fixture(scope="module")
def opened(kafka: KafkaLogs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A copy, open for reading; tests that write make their own copy."""
    root = tmp_path_factory.mktemp("taken-over") / "data"
    shutil.copytree(kafka.stopped, root)
    logs = LogDir.open(root)
    yield Opened(root, logs, kafka)
    logs.close()


def read_all(log: Log, max_bytes: int = 10_000, up_to: str = "end") -> bytes:
    """Reads from the start in pieces, as a consumer does."""
    data, offset = b"", log.log_start_offset
    while piece := log.read(offset, max_bytes, up_to=up_to):
        data += piece
        offset = _batch.headers(piece)[-1].last_offset + 1
    return data


def facts(record: _records.Record) -> tuple[object, ...]:
    return (record.offset, record.timestamp, _text(record.key), _text(record.value),
            tuple(name for name, _ in record.headers))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def dumped_facts(records: list[tool.Record]) -> list[tuple[object, ...]]:
    return [(record.offset, record.timestamp, record.key, record.payload, record.header_keys)
            for record in records if record.marker is None]


def test_kafkas_own_dump_of_its_directory_is_clean(kafka: KafkaLogs) -> None:
    """Checks the reference: the directory that these tests compare with is whole."""
    assert kafka.dump.complaints == []
    assert {batch.codec for topic in TOPICS
            for batch in kafka.dump.batches(kafka.stopped / f"{topic}-0")} == set(CODECS)


def test_nothing_is_lost_in_opening_it(opened: Opened) -> None:
    assert opened.logs.report.losses == []
    assert {(topic, 0) for topic in TOPICS} <= opened.logs.logs().keys()


@pytest.mark.parametrize("topic", TOPICS)
def test_every_record_reads_back_as_kafka_dumps_it(opened: Opened, topic: str) -> None:
    found = _batch.records(read_all(opened.logs.log(topic, 0)))
    assert [facts(record) for record in found] == dumped_facts(opened.dumped(topic))


@pytest.mark.parametrize("topic", TOPICS)
def test_every_batch_header_reads_back_as_kafka_dumps_it(opened: Opened, topic: str) -> None:
    found = _batch.headers(read_all(opened.logs.log(topic, 0)))
    assert [(each.base_offset, each.last_offset, each.records_count, each.size, each.producer_id,
             each.producer_epoch, each.base_sequence, each.is_transactional, each.is_control,
             each.max_timestamp, CODECS[each.codec], each.leader_epoch) for each in found] == [
        (each.base_offset, each.last_offset, each.count, each.size, each.producer_id,
         each.producer_epoch, each.base_sequence, each.transactional, each.control,
         each.max_timestamp, each.codec, each.leader_epoch)
        for each in opened.dumped_batches(topic)]


@pytest.mark.parametrize("topic", TOPICS)
def test_any_single_offset_can_be_read(opened: Opened, topic: str) -> None:
    """Through Kafka's own sparse index, and across the gaps of its compaction."""
    log = opened.logs.log(topic, 0)
    for record in opened.dumped(topic)[::41]:
        first = _batch.headers(log.read(record.offset, 1))[0]
        assert first.base_offset <= record.offset <= first.last_offset


@pytest.mark.parametrize("topic", TOPICS)
def test_ends_and_segments_are_kafkas(opened: Opened, topic: str) -> None:
    log = opened.logs.log(topic, 0)
    batches = opened.dumped_batches(topic)
    assert log.log_end_offset == batches[-1].last_offset + 1
    assert log.durable_offset == log.high_watermark == log.last_stable_offset == log.log_end_offset
    names = sorted((opened.kafka.stopped / f"{topic}-0").glob("*.log"))
    assert [segment.base_offset for segment in log.segments()] == [int(name.stem) for name in names]


@pytest.mark.parametrize("topic", [*WRITTEN_ON, "transactions"])
def test_a_timestamp_leads_to_the_first_record_not_older(opened: Opened, topic: str) -> None:
    """A transaction's marker counts, as in Kafka; a consumer skips it later."""
    log = opened.logs.log(topic, 0)
    records = opened.dumped(topic)
    for asked in sorted({record.timestamp for record in records})[::7]:
        first = next(record for record in records if record.timestamp >= asked)
        assert log.offset_for_timestamp(asked) == (first.offset, first.timestamp)
    assert log.offset_for_timestamp(max(record.timestamp for record in records) + 1) is None


@pytest.mark.parametrize("topic", TOPICS)
def test_producers_are_taken_over(opened: Opened, topic: str) -> None:
    """Equal to the snapshot that the broker wrote at its stop."""
    found = {each.producer_id: (each.epoch, each.last_sequence, each.last_offset)
             for each in opened.logs.log(topic, 0).producers()}
    assert found == {entry["producerId"]: (
        entry["producerEpoch"], entry.get("lastSequence", -1), entry.get("lastOffset", -1))
        for entry in opened.last_entries(topic, ".snapshot")}


def test_aborted_transactions_are_taken_over(opened: Opened) -> None:
    log = opened.logs.log("transactions", 0)
    listed = opened.kafka.dump.entries(opened.kafka.stopped / "transactions-0", ".txnindex")
    aborted = [(entry["producerId"], entry["firstOffset"], entry["lastOffset"])
               for entries in listed.values() for entry in entries]
    assert len(aborted) == 1
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    assert log.aborted_transactions(0, aborted[0][1]) == []
    assert log.aborted_transactions(aborted[0][2] + 1, log.log_end_offset) == []


def test_kafkas_own_files_are_left_alone(kafka: KafkaLogs, opened: Opened) -> None:
    names = ("partition.metadata", "leader-epoch-checkpoint", "meta.properties", "quorum-state",
             "bootstrap.checkpoint", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint",
             "log-start-offset-checkpoint", "replication-offset-checkpoint",
             "cleaner-offset-checkpoint")
    theirs = [path.relative_to(kafka.stopped) for name in names for path in
              kafka.stopped.rglob(name)]
    theirs += [path.relative_to(kafka.stopped)
               for path in (kafka.stopped / "__cluster_metadata-0").glob("*.log")]
    assert {path.name for path in theirs} >= set(names)
    for path in theirs:
        assert (opened.root / path).read_bytes() == (kafka.stopped / path).read_bytes()


@pytest.mark.parametrize("topic", WRITTEN_ON)
def test_a_retry_of_kafkas_last_batch_is_a_duplicate(opened: Opened, topic: str) -> None:
    log = opened.logs.log(topic, 0)
    last = opened.dumped_batches(topic)[-1]
    again = log.append(log.read(last.base_offset, 1, up_to="end"))
    assert (again.base_offset, again.last_offset, again.duplicate) == (
        last.base_offset, last.last_offset, True)


def test_a_gap_after_kafkas_last_batch_is_refused(opened: Opened) -> None:
    last = opened.dumped_batches("codec-none")[-1]
    gap = _batch_builder.batch([(last.max_timestamp, b"k", b"v")], producer_id=last.producer_id,
                       producer_epoch=last.producer_epoch, base_sequence=last.last_sequence + 2)
    with pytest.raises(errors.SequenceOutOfOrder):
        opened.logs.log("codec-none", 0).append(gap)


def _go_on(log: Log, last: tool.Batch, codec: str) -> None:
    """Forty more batches of the same producer, enough for new segments."""
    sequence = last.last_sequence + 1
    for i in range(40):
        rows = [(last.max_timestamp + i, b"key", b"%03d" % j * 40) for j in range(20)]
        log.append_durable(_batch_builder.batch(rows, codec=codec, producer_id=last.producer_id,
                                        producer_epoch=last.producer_epoch, base_sequence=sequence))
        sequence += len(rows)


def test_our_appends_after_kafkas_are_read_by_kafkas_tool(
        kafka: KafkaLogs, tmp_path: Path) -> None:
    """The same producers continue without a gap, first in the same segment, then in new ones."""
    root = tmp_path / "data"
    shutil.copytree(kafka.stopped, root)
    logs = LogDir.open(root)
    ends = {}
    for codec in CODECS:
        log, last = logs.log(f"codec-{codec}", 0), kafka.dump.batches(
            kafka.stopped / f"codec-{codec}-0")[-1]
        _go_on(log, last, codec)
        assert log.log_end_offset == last.last_offset + 1 + 800
        log.roll()
        ends[codec] = log.log_end_offset
    logs.close()
    again = LogDir.open(root)
    assert again.report.was_clean
    assert {codec: again.log(f"codec-{codec}", 0).log_end_offset for codec in CODECS} == ends
    again.close()
    directories = [root / f"codec-{codec}-0" for codec in CODECS]
    dump = tool.dump(tool.log_files(*directories))
    assert dump.complaints == []
    assert dump.holes == []
    for codec, directory in zip(CODECS, directories, strict=True):
        before = kafka.dump.records(kafka.stopped / directory.name)
        after = dump.records(directory)
        assert after[:len(before)] == before
        assert [record.offset for record in after] == list(range(ends[codec]))
        sequences = [batch.base_sequence for batch in dump.batches(directory)]
        assert sequences == [batch.base_offset for batch in dump.batches(directory)]


def test_our_compaction_goes_on_where_kafkas_was(kafka: KafkaLogs, tmp_path: Path) -> None:
    """Our compaction respects the delete horizons of Kafka's cleaner, which have passed."""
    name = "compacted-0"
    root, batches = tmp_path / "data", kafka.dump.batches(kafka.stopped / name)
    horizons = {batch.delete_horizon for batch in batches} - {-1}
    assert horizons
    shutil.copytree(kafka.stopped / name, root / name)
    logs = LogDir.open(root, log_config=lambda topic, partition: LogConfig(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, segment_bytes=16384))
    log = logs.log("compacted", 0)
    log.roll()
    logs.checkpoint()
    assert log.compact(max(horizons) + 1)
    logs.close()
    records = [record for batch in batches for record in batch.records]
    latest = {record.key: record.offset for record in records}
    over = {record.offset for batch in batches if batch.delete_horizon >= 0
            for record in batch.records if record.value_size < 0}
    assert over
    dump = tool.dump(tool.log_files(root / name))
    assert dump.complaints == []
    assert dump.records(root / name) == [
        record for record in records
        if record.offset == latest[record.key] and record.offset not in over]


def test_a_directory_from_under_a_running_broker_recovers(
        kafka: KafkaLogs, tmp_path: Path) -> None:
    """No clean stop, indexes preallocated with zeros, an open transaction: no record is lost."""
    root = tmp_path / "data"
    shutil.copytree(kafka.running, root)
    logs = LogDir.open(root)
    assert logs.report.losses == []
    for topic in WRITTEN_ON:
        found = _batch.records(read_all(logs.log(topic, 0)))
        assert [facts(record) for record in found] == dumped_facts(
            kafka.dump.records(kafka.stopped / f"{topic}-0"))
    log = logs.log("transactions", 0)
    aborted = kafka.dump.entries(kafka.stopped / "transactions-0", ".txnindex")
    started = next(iter(aborted.values()))[0]["firstOffset"]
    assert log.last_stable_offset == started
    assert log.log_end_offset > started
    stable = _batch.headers(read_all(log, up_to="stable"))
    assert stable[-1].last_offset + 1 == started
    logs.close()
    dump = tool.dump(tool.log_files(*(root / f"{topic}-0" for topic in TOPICS)))
    assert dump.complaints == []


def test_a_swap_that_kafka_had_decided_is_finished(kafka: KafkaLogs, tmp_path: Path) -> None:
    """Kafka commits a compaction by renaming files to `.swap`, and then deletes the old files. If
    the broker dies before the last rename, only the `.swap` files have the records."""
    root, name = tmp_path / "data", "compacted-0"
    shutil.copytree(kafka.stopped / name, root / name)
    first = min((root / name).glob("*.log"))
    assert first.stat().st_size > 0
    for path in tool.log_files(root / name, suffixes=(".log", ".index", ".timeindex")):
        if path.stem == first.stem:
            path.rename(path.with_name(path.name + ".swap"))
    logs = LogDir.open(root)
    found = _batch.records(read_all(logs.log("compacted", 0)))
    logs.close()
    assert [facts(record) for record in found] == dumped_facts(
        kafka.dump.records(kafka.stopped / name))
