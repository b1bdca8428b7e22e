"""Apache Kafka's Java client against `appliance serve`: the checks of kafka/ClientChecks.java.

They run in one JVM, because its start costs a second; each check is a test here.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.interop import kafka_jars
from tests.support.warm_broker import WarmBroker as Broker

PROGRAM = ("ClientChecks", "ProduceChecks", "ConsumeChecks", "GroupChecks", "ShareChecks",
           "TransactionChecks", "AdminChecks")
DEADLINE_S = 300
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def names() -> list[str]:
    """The names of all checks, from the sources."""
    sources = "".join((kafka_jars.PROGRAMS / f"{program}.java").read_text() for program in PROGRAM)
    listed = re.findall(r'checks\.put\("([^"]+)",', sources)
    by_codec = [f"sizes {codec}" for codec in CODECS]
    by_acks = [f"produce {codec} acks={acks}" for codec in CODECS for acks in ("0", "1", "all")]
    return [*by_acks, *by_codec, *listed]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The result of each check: empty, or the reason of its failure."""
    folder: Path = tmp_path_factory.mktemp("java")
    with Broker(folder / "data", "--set", "group.consumer.heartbeat.interval.ms=1000", "--set",
                "group.share.heartbeat.interval.ms=1000") as broker:
        done = subprocess.run(
            kafka_jars.command("ClientChecks", [broker.kafka]),
            capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return parsed(done.stdout)


def parsed(text: str) -> dict[str, str]:
    parts = re.split(r"^(ok|failed) (.*)$", text, flags=re.MULTILINE)
    return {name: "" if word == "ok" else f"failed:{why}"
            for word, name, why in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)}


def test_a_failed_check_is_seen() -> None:
    assert parsed("ok a b\nfailed c\n    why\n    at ok d\nok e\nfailed f\n") == {
        "a b": "", "c": "failed:\n    why\n    at ok d\n", "e": "", "f": "failed:\n"}


def test_every_check_is_a_test(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(names())


@pytest.mark.parametrize("name", names())
def test_check(results: dict[str, str], name: str) -> None:
    assert results[name] == ""
