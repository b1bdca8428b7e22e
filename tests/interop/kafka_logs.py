"""A log directory as a real Kafka broker leaves it: every codec, transactions, compaction."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.interop import dump_log_segments as tool
from tests.interop import kafka_jars
from tests.interop.kafka_broker import KafkaBroker, wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE = "org.apache.kafka.tools.ConsoleProducer"
TOPICS = (*(f"codec-{codec}" for codec in CODECS), "transactions", "shapes", "compacted")
# Empty topics, whose directories a test fills with files of our engine.
OURS = ("ours-codecs", "ours-idempotent", "ours-transactional", "ours-truncated", "ours-compacted")


RUNNING = "running"
TRIES = 3  # of what Kafka may refuse of its own tools


@dataclass
class KafkaLogs:
    stopped: Path   # after a clean stop
    running: Path   # copied while the broker runs, which is like a crash
    dump: tool.Dump  # of `stopped`


def write(directory: Path) -> None:
    """Runs a broker, lets Kafka's own tools write all topics, and stops it."""
    kafka = KafkaBroker(directory)
    with kafka:
        for topic in (*TOPICS, *OURS):
            _create(kafka, topic)
        for codec in CODECS:
            _produce_codec(kafka, codec)
        _produce_shapes(kafka)
        _produce_compacted(kafka)
        _commit_some(kafka)
        _leave_open(kafka)
        shutil.copytree(kafka.log_dir, directory / RUNNING)
        _abort_it(kafka)


def found(directory: Path) -> KafkaLogs:
    """The files that `write` left."""
    kafka = KafkaBroker(directory)
    directories = [kafka.partition(topic) for topic in TOPICS]
    dump = tool.dump(tool.log_files(*directories))
    return KafkaLogs(kafka.log_dir, directory / RUNNING, dump)


def _create(kafka: KafkaBroker, topic: str) -> None:
    # The setting with "internal" still accepts sizes below 1 MiB.
    settings: dict[str, object] = {"internal_segment_bytes": 65536, "segment_index_bytes": 65536}
    if topic in OURS:
        settings |= {"index_interval_bytes": 1024}  # the partitions that our engine writes
    if topic == "compacted":
        settings |= {"internal_segment_bytes": 16384, "cleanup_policy": "compact",
                     "min_cleanable_dirty_ratio": 0.01}
    kafka.create_topic(topic, **settings)


def _perf(topic: str, records: int, *properties: str, more: tuple[str, ...] = ()) -> list[str]:
    return ["--topic", topic, "--num-records", str(records), "--record-size", "90", *more,
            "--command-property", *properties]


def _produce_codec(kafka: KafkaBroker, codec: str) -> None:
    kafka.tool(PERFORMANCE, *_perf(f"codec-{codec}", 2500, f"compression.type={codec}",
                                   "batch.size=3000", more=("--throughput", "-1")))


def _produce_shapes(kafka: KafkaBroker) -> None:
    """Null and empty keys and values, headers."""
    lines = ["trace:abc,from:here\tkey\tvalue", "NIL\tkey\tNIL", "NIL\tNIL\tvalue", "NIL\t\t"]
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NIL")
    kafka.tool(CONSOLE, "--topic", "shapes", *_reader(*properties), stdin=_text(lines))


def _produce_compacted(kafka: KafkaBroker) -> None:
    """Keys that repeat, keys that occur once, tombstones."""
    keys = [f"once-{i}" if i % 50 == 0 else f"key-{i * i % 101}" for i in range(3000)]
    lines = [f"{key}\t{'NIL' if i % 17 == 0 else f'value-{i}'}" for i, key in enumerate(keys)]
    kafka.tool(CONSOLE, "--topic", "compacted", "--compression-codec", "lz4", "--batch-size", "900",
               *_reader("parse.key=true", "null.marker=NIL"), stdin=_text(lines))
    checkpoint = kafka.log_dir / "cleaner-offset-checkpoint"
    wait_until(lambda: "compacted 0 " in checkpoint.read_text(), "a first pass of Kafka's cleaner")


def _reader(*properties: str) -> list[str]:
    return [part for each in properties for part in ("--reader-property", each)]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _commit_some(kafka: KafkaBroker) -> None:
    kafka.tool(PERFORMANCE, *_perf(
        "transactions", 600, "batch.size=2000",
        more=("--transactional-id", "first", "--transaction-duration-ms", "100",
              "--throughput", "2000")))


def _leave_open(kafka: KafkaBroker) -> None:
    """A transactional producer that is killed in the middle of its transaction."""
    log = kafka.partition("transactions")
    before = sum(path.stat().st_size for path in log.glob("*.log"))
    arguments = _perf("transactions", 100_000, "batch.size=2000", more=(
        "--transactional-id", "second", "--transaction-duration-ms", "600000",
        "--throughput", "500"))
    with open(kafka.directory / "killed.out", "wb") as output:
        producer = kafka_jars.start(PERFORMANCE, "--bootstrap-server", kafka.address, *arguments,
                                    output=output)
    try:
        wait_until(lambda: sum(path.stat().st_size for path in log.glob("*.log")) > before + 20_000,
                   "data of the transaction that is to stay open")
    finally:
        producer.kill()
        producer.wait()


def _abort_it(kafka: KafkaBroker) -> None:
    """The next producer of its id makes the coordinator abort the open transaction. On a slow
    machine Kafka now and then refuses to commit that producer's own, by INVALID_TXN_STATE."""
    arguments = _perf("transactions", 100, "batch.size=2000",
                      more=("--transactional-id", "second", "--throughput", "-1"))
    for left in reversed(range(TRIES)):
        try:
            kafka.tool(PERFORMANCE, *arguments)
            return
        except AssertionError as error:
            if "InvalidTxnStateException" not in str(error) or not left:
                raise
