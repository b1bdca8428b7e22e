"""A real Kafka broker opens partitions that our engine wrote, serves them and appends to them.

With the mark of a clean stop it trusts our indexes and snapshots. Without the mark it rebuilds
them, equal in every byte.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.data_dir.log_dir import LogDir
from tests.interop import dump_log_segments as tool
from tests.interop import engine_logs, kafka_logs
from tests.interop.dump_log_segments import Record
from tests.interop.engine_logs import CODECS, COMPACTED, SEGMENTS, Scribe
from tests.interop.kafka_broker import KafkaBroker
from tests.interop.kafka_logs import OURS, KafkaLogs

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LINE = re.compile(r"CreateTime:(-?\d+)\tOffset:(\d+)\t(.*)\t(.*)")
NULL = "<null>"
KAFKAS = ("partition.metadata",)  # the topic's id: the one file that an empty partition must keep


@dataclass
class Ours:
    logs: dict[str, Scribe]
    committed: dict[str, list[Record]]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Ours:
    logs = LogDir.open(tmp_path_factory.mktemp("engine"))
    made = {topic: engine_logs.create(logs, topic, **(
        COMPACTED if topic == "ours-compacted" else SEGMENTS)) for topic in OURS}
    for codec in CODECS:
        engine_logs.of_codec(made["ours-codecs"], codec)
    engine_logs.idempotent(made["ours-idempotent"])
    engine_logs.transactional(made["ours-transactional"])
    engine_logs.truncated(made["ours-truncated"])
    engine_logs.compacted_transactions(made["ours-compacted"], 3)
    for scribe in made.values():
        scribe.log.flush()
    committed = {topic: scribe.committed() for topic, scribe in made.items()}
    logs.close()
    return Ours(made, committed)


def _broker_with(ours: Ours, kafka: KafkaLogs, root: Path) -> KafkaBroker:
    """A node whose empty partitions have our files; not started yet."""
    broker = KafkaBroker(root)
    shutil.copytree(kafka.stopped, broker.log_dir)
    for topic, scribe in ours.logs.items():
        partition = broker.partition(topic)
        for path in partition.iterdir():
            if path.name not in KAFKAS:
                path.unlink()
        for path in tool.log_files(scribe.directory):
            shutil.copy(path, partition)
    return broker


@pytest.fixture(scope="module")
def broker(ours: Ours, kafka: KafkaLogs,
           tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with _broker_with(ours, kafka, tmp_path_factory.mktemp("broker")) as started:
        yield started


def _consume(kafka: KafkaBroker, topic: str, count: int) -> list[tuple[object, ...]]:
    properties = ("print.timestamp=true", "print.offset=true", "print.key=true",
                  f"null.literal={NULL}")
    said = kafka.tool(CONSUMER, "--topic", topic, "--from-beginning", "--isolation-level",
                      "read_committed", "--max-messages", str(count), "--timeout-ms", "20000",
                      *(part for each in properties for part in ("--formatter-property", each)))
    lines = [LINE.fullmatch(line) for line in said.splitlines()]
    assert None not in lines, said[:1000]
    return [(int(line[2]), int(line[1]), *(None if text == NULL else text for text in (
        line[3], line[4]))) for line in lines if line is not None]


def _warnings(kafka: KafkaBroker) -> list[str]:
    return [line for line in kafka.output.read_text().splitlines()
            if "ours-" in line and " INFO " not in line]


@pytest.mark.parametrize("topic", OURS)
def test_kafkas_consumer_reads_our_committed_records(
        broker: KafkaBroker, ours: Ours, topic: str) -> None:
    wanted = ours.committed[topic]
    assert wanted
    assert _consume(broker, topic, len(wanted)) == [
        (record.offset, record.timestamp, record.key, record.payload) for record in wanted]


def test_kafka_writes_on_where_we_ended(broker: KafkaBroker, ours: Ours) -> None:
    """The last test with this broker: it stops the broker to complete the log."""
    expected = ours.logs["ours-codecs"].expected
    broker.tool(kafka_logs.CONSOLE, "--topic", "ours-codecs", stdin="one\ntwo\n")
    broker.stop()
    partition = broker.partition("ours-codecs")
    dump = tool.dump(tool.log_files(partition))
    assert dump.complaints == []
    found = dump.records(partition)
    assert found[:-2] == expected
    assert [(record.offset, record.payload) for record in found[-2:]] == [
        (len(expected), "one"), (len(expected) + 1, "two")]
    assert _warnings(broker) == []


def _in_order(path: Path, data: bytes) -> object:
    """A snapshot has no order of producers, so neither its CRC nor the sequence can be compared."""
    if path.suffix != ".snapshot":
        return data
    return data[6:10], sorted(data[at:at + 46] for at in range(10, len(data), 46))


def test_the_indexes_that_kafka_rebuilds_are_ours(
        ours: Ours, kafka: KafkaLogs, tmp_path: Path) -> None:
    """Only logs without a truncation: as in Kafka, a truncation shifts the next entry."""
    broker = _broker_with(ours, kafka, tmp_path)
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    with broker:
        pass
    said = broker.output.read_text()
    for topic in ("ours-codecs", "ours-idempotent", "ours-transactional"):
        files = tool.log_files(ours.logs[topic].directory)
        assert f"Recovering unflushed segment {files[0].stem.lstrip('0') or 0}" in said
        for path in files:
            theirs = (broker.partition(topic) / path.name).read_bytes()
            assert _in_order(path, theirs) == _in_order(path, path.read_bytes()), path
