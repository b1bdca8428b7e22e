"""kcat of the distribution against `appliance serve`: an old librdkafka (Debian 12 has 2.0.2) that
matches the versions of each API exactly."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
LIMIT = 1_048_588  # message.max.bytes
OVERHEAD = 72  # bytes of a batch of one such record, without key and headers
THEN_MS = 1_600_000_000_000
SECOND_MS = 1000
COUNT = 20
DEADLINE_S = 30


class Kcat:
    def __init__(self, address: str) -> None:
        self.address = address
        program = shutil.which("kcat")
        assert program is not None, "kcat is missing; tests/setup.sh brings it"
        self._program = program

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([self._program, "-b", self.address, *words], input=stdin,
                              capture_output=True, text=True, timeout=DEADLINE_S)

    def must(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, ""), words
        return done.stdout

    def read(self, topic: str, offset: str, *words: str) -> list[dict[str, Any]]:
        """All records from the offset to the end of partition 0."""
        said = self.must("-C", "-t", topic, "-p", "0", "-o", offset, "-e", "-q", "-J",
                         "-X", "fetch.wait.max.ms=50", *words)
        return [json.loads(line) for line in said.splitlines()]

    def offsets(self, topic: str, offset: str, *words: str) -> list[int]:
        return [each["offset"] for each in self.read(topic, offset, *words)]


@pytest.fixture(scope="module")
def kcat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kcat]:
    with Broker(tmp_path_factory.mktemp("kcat")) as broker:
        yield Kcat(broker.kafka)


@pytest.fixture(scope="module")
def timed(kcat: Kcat) -> str:
    """Record i is i seconds younger than THEN; kcat cannot set a timestamp."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kcat.address, "acks": "all"})
    for i in range(COUNT):
        producer.produce("timed", b"v%d" % i, partition=0, timestamp=THEN_MS + i * SECOND_MS)
    assert producer.flush(DEADLINE_S) == 0
    return "timed"


@pytest.mark.parametrize(
    ("codec", "acks"),
    gate_has(zip(CODECS, (*ACKS, "all", "all"), strict=True), "each codec with each acks",
             product(CODECS, ACKS)),
)
def test_keys_values_headers_and_nulls(kcat: Kcat, codec: str, acks: str) -> None:
    topic = f"{codec}-{acks}"
    sent = [("k1", "v1"), ("k2", None), (None, "v3"), (None, None)]
    sent += [("key", "x" * size) for size in (1, 127, 128, 5000)]
    lines = "".join(f"{key or ''}:{value or ''}\n" for key, value in sent)
    kcat.must("-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", "-Z", "-X", f"acks={acks}",
              "-H", "name=value", "-H", "null", "-H", "empty=", stdin=lines)
    # without acks=all readers see them later, and acks=0 is not even answered
    until(lambda: len(kcat.read(topic, "beginning")) >= len(sent), DEADLINE_S)
    found = kcat.read(topic, "beginning")
    assert [(each["key"], each["payload"]) for each in found] == sent
    assert [each["offset"] for each in found] == list(range(len(sent)))
    assert all(each["headers"] == ["name", "value", "null", None, "empty", ""] for each in found)
    assert {each["tstype"] for each in found} == {"create"}


def test_an_idempotent_producer(kcat: Kcat) -> None:
    lines = [f"line {i}" for i in range(1000)]
    kcat.must("-P", "-t", "idempotent", "-X", "enable.idempotence=true", "-X", "batch.size=500",
              "-X", "linger.ms=0", stdin="\n".join(lines))
    assert [each["payload"] for each in kcat.read("idempotent", "beginning")] == lines


@pytest.mark.parametrize("size", [1, 16_384, LIMIT - OVERHEAD])
def test_a_record_of_any_size_that_fits(kcat: Kcat, size: int, tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes(b"x" * size)
    kcat.must("-P", "-t", f"size-{size}", "-p", "0", "-X", f"message.max.bytes={2 * LIMIT}",
              str(tmp_path / "value"))
    assert kcat.must("-C", "-t", f"size-{size}", "-p", "0", "-e", "-q", "-f", "%o %S\n",
                     "-X", "fetch.wait.max.ms=50") == f"0 {size}\n"


def test_a_byte_over_the_limit_is_refused(kcat: Kcat, tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes(b"x" * (LIMIT - OVERHEAD + 1))
    done = kcat.run("-P", "-t", "over", "-p", "0", "-X", f"message.max.bytes={2 * LIMIT}",
                    str(tmp_path / "value"))
    assert (done.returncode, done.stderr) == (
        1, "% Delivery failed for message: Broker: Message size too large\n")
    assert kcat.read("over", "beginning") == []


@pytest.mark.parametrize(("offset", "first"), [
    ("beginning", 0), ("0", 0), ("13", 13), ("-5", COUNT - 5), ("-1000", 0), ("end", COUNT),
    (f"s@{THEN_MS}", 0), (f"s@{THEN_MS + 7 * SECOND_MS}", 7), (f"s@{THEN_MS + 6001}", 7),
    (f"s@{THEN_MS + COUNT * SECOND_MS}", COUNT),
])
def test_reading_begins_where_it_is_told(kcat: Kcat, timed: str, offset: str, first: int) -> None:
    found = kcat.read(timed, offset)
    assert [each["offset"] for each in found] == list(range(first, COUNT))
    assert [each["payload"] for each in found] == [f"v{i}" for i in range(first, COUNT)]
    assert [each["ts"] for each in found] == [
        THEN_MS + i * SECOND_MS for i in range(first, COUNT)]


def test_reading_ends_where_it_is_told(kcat: Kcat, timed: str) -> None:
    assert kcat.offsets(timed, f"s@{THEN_MS + 3 * SECOND_MS}", "-o",
                        f"e@{THEN_MS + 9 * SECOND_MS}") == list(range(3, 9))
    assert kcat.offsets(timed, "4", "-c", "3") == [4, 5, 6]


@pytest.mark.parametrize(("time", "offset"), [
    (-1, COUNT), (-2, 0), (0, 0), (THEN_MS + 5 * SECOND_MS, 5), (THEN_MS + 5001, 6),
    (THEN_MS + COUNT * SECOND_MS, -1),
])
def test_a_query_tells_the_offset_of_a_time(
    kcat: Kcat, timed: str, time: int, offset: int
) -> None:
    assert kcat.must("-Q", "-t", f"{timed}:0:{time}") == f"{timed} [0] offset {offset}\n"


def test_metadata_is_listed(kcat: Kcat, timed: str) -> None:
    assert kcat.must("-L", "-t", timed) == (
        f"Metadata for {timed} (from broker 1: {kcat.address}/1):\n"
        " 1 brokers:\n"
        f"  broker 1 at {kcat.address} (controller)\n"
        " 1 topics:\n"
        f'  topic "{timed}" with 1 partitions:\n'
        "    partition 0, leader 1, replicas: 1, isrs: 1\n")
    told = json.loads(kcat.must("-L", "-J"))
    assert (told["controllerid"], told["brokers"]) == (1, [{"id": 1, "name": kcat.address}])
    (row,) = [each for each in told["topics"] if each["topic"] == timed]
    assert row["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}]


def test_read_committed_reads_what_no_transaction_wrote(kcat: Kcat, timed: str) -> None:
    assert kcat.offsets(timed, "beginning", "-X", "isolation.level=read_committed") == list(
        range(COUNT))
