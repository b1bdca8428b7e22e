"""Apache Kafka's own test programs against `appliance serve`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.interop import kafka_jars
from tests.support.warm_broker import WarmBroker as Broker

DEADLINE_S = 120
# Very short segments, and no delay before compaction
COMPACTS_AT_ONCE = ("log.roll.ms=200", "log.cleaner.backoff.ms=100",
                    "log.cleaner.min.cleanable.ratio=0.01", "log.cleaner.delete.retention.ms=0")


def run(main: str, folder: Path, *arguments: str) -> str:
    command = kafka_jars.command(main, arguments, (
        *kafka_jars.TOOL_FLAGS, f"-Djava.io.tmpdir={folder}"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.release("tests/interop/test_java_client.py has the same client")
def test_the_client_compatibility_test(tmp_path: Path) -> None:
    supported = ("cluster-id", "offsets-for-times", "create-topics", "describe-configs",
                 "describe-acls", "idempotent-producer")
    flags = [word for name in supported for word in (f"--{name}-supported", "true")]
    with Broker(tmp_path / "data") as broker:
        said = run("org.apache.kafka.tools.ClientCompatibilityTest", tmp_path,
                   "--bootstrap-server", broker.kafka, "--topic", "compatible",
                   "--num-cluster-nodes", "1",
                   "--expect-record-too-large-exception", "false", *flags)
    assert said == "SUCCESS.\n"


def test_the_log_compaction_tester(tmp_path: Path) -> None:
    """It compares the last value of each key with its own data; most records must be gone."""
    settings = [word for each in COMPACTS_AT_ONCE for word in ("--set", each)]
    with Broker(tmp_path / "data", *settings) as broker:
        said = run("org.apache.kafka.tools.LogCompactionTester", tmp_path,
                   "--bootstrap-server", broker.kafka, "--messages", "40000", "--topics", "2",
                   "--duplicates", "100", "--percent-deletes", "20", "--compression-type", "lz4",
                   "--sleep", "2")
    rows = re.search(r"^80000 rows of data produced, (\d+) rows of data consumed", said, re.M)
    assert rows is not None, said
    assert int(rows[1]) < 60_000
    values = re.search(r"^Validated (\d+) values, 0 mismatches\.$", said, re.M)
    assert values is not None, said
    assert 300 < int(values[1]) <= 800  # two topics of 400 keys, without the deleted ones
