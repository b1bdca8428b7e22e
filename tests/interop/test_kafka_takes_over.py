"""A real Kafka broker opens partitions that our engine wrote, serves them and writes on.

It finds the mark of its own clean stop, so it trusts our indexes and snapshots as its own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.log_dir import LogDir
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
class TakenOver:
    kafka: KafkaBroker
    logs: dict[str, Scribe]
    committed: dict[str, list[Record]]


def _write(root: Path) -> tuple[dict[str, Scribe], dict[str, list[Record]]]:
    logs = LogDir.open(root)
    made = {topic: engine_logs.create(logs, topic, **(
        COMPACTED if topic == "ours-compacted" else SEGMENTS)) for topic in OURS}
    for codec in CODECS:
        engine_logs.of_codec(made["ours-codecs"], codec)
    engine_logs.idempotent(made["ours-idempotent"])
    engine_logs.transactional(made["ours-transactional"])
    engine_logs.truncated(made["ours-truncated"])
    engine_logs.compacted_transactions(made["ours-compacted"], 1)
    for scribe in made.values():
        scribe.log.flush()
    committed = {topic: scribe.committed() for topic, scribe in made.items()}
    logs.close()
    return made, committed


def _swap_in(scribe: Scribe, partition: Path) -> None:
    for path in partition.iterdir():
        if path.name not in KAFKAS:
            path.unlink()
    for path in tool.log_files(scribe.directory):
        shutil.copy(path, partition)


@pytest.fixture(scope="module")
def taken_over(kafka: KafkaLogs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TakenOver]:
    root = tmp_path_factory.mktemp("kafka-takes-over")
    logs, committed = _write(root / "engine")
    broker = KafkaBroker(root / "kafka")
    shutil.copytree(kafka.stopped, broker.log_dir)
    for topic, scribe in logs.items():
        _swap_in(scribe, broker.partition(topic))
    with broker:
        yield TakenOver(broker, logs, committed)


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


@pytest.mark.parametrize("topic", OURS)
def test_kafkas_consumer_reads_our_committed_records(taken_over: TakenOver, topic: str) -> None:
    wanted = taken_over.committed[topic]
    assert wanted
    assert _consume(taken_over.kafka, topic, len(wanted)) == [
        (record.offset, record.timestamp, record.key, record.payload) for record in wanted]


def test_kafka_writes_on_where_we_ended(taken_over: TakenOver) -> None:
    """Last of all: it stops the broker, for its log to be whole."""
    scribe = taken_over.logs["ours-codecs"]
    taken_over.kafka.tool(kafka_logs.CONSOLE, "--topic", "ours-codecs", stdin="one\ntwo\n")
    taken_over.kafka.stop()
    partition = taken_over.kafka.partition("ours-codecs")
    dump = tool.dump(tool.log_files(partition))
    assert dump.complaints == []
    found = dump.records(partition)
    assert found[:-2] == scribe.expected
    assert [(record.offset, record.payload) for record in found[-2:]] == [
        (len(scribe.expected), "one"), (len(scribe.expected) + 1, "two")]
    said = taken_over.kafka.output.read_text()
    assert not [line for line in said.splitlines() if "ours-" in line and " INFO " not in line]
