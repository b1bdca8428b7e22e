"""Kafka Streams, exactly once: a word count with a repartition topic, a changelog and transactions,
while the broker is killed repeatedly, and the program once; with members of the classic protocol,
and with a group of its own kind."""

from __future__ import annotations

import random
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import confluent_kafka as ck
import pytest

from tests.interop import kafka_jars
from tests.interop.test_restart import Restarted
from tests.interop.test_transactions import DEADLINE_S, created
from tests.support.logs import until
from tests.support.release import gate_has

WORDS = ("to", "be", "or", "not", "that", "is", "the", "question")
PER_LINE, LINES = 5, 600
PARTITIONS = 2
KILLED_AT = (0.15, 0.4, 0.65, 0.9)  # shares of the words counted
PROGRAM_KILLED_AT = 0.5


SHORT_SESSION = ("--set", "group.streams.session.timeout.ms=6000")
PROTOCOLS = gate_has(["classic"], "the group itself has its own tests", ["classic", "streams"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Restarted]:
    with closing(Restarted(tmp_path / "data", *SHORT_SESSION)) as made:
        for topic in ("lines", "counts"):
            created(made.address, topic, PARTITIONS)
        yield made


@contextmanager
def word_count(
    address: str, folder: Path, *settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs Streams; stops it cleanly at the end of the block unless it was killed."""
    command = kafka_jars.command("WordCount", [address, str(folder), *settings])
    with (folder / "said").open("ab") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT)
    assert process.stdin is not None
    try:
        yield process
        process.stdin.close()
        process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.wait()


class Counts:
    """The records of `counts` for readers of committed records, as it grows."""

    def __init__(self, address: str, partitions: int = PARTITIONS) -> None:
        self.steps: dict[str, list[int]] = {word: [] for word in WORDS}
        self._consumer = ck.Consumer({
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "log_level": 0,
        })
        self._consumer.assign([ck.TopicPartition("counts", each, 0) for each in range(partitions)])

    def read_up_to(self, count: int, deadline_s: float = DEADLINE_S) -> None:
        until(lambda: self.read() >= count, deadline_s)

    def read(self) -> int:
        """What is there now; how many in all."""
        for message in self._consumer.consume(1000, 0.1):
            if message.error() is None:
                word, number = message.key(), message.value()
                assert isinstance(word, bytes)
                assert isinstance(number, bytes)
                self.steps[word.decode()].append(int(number))
        return sum(map(len, self.steps.values()))

    def close(self) -> None:
        self._consumer.close()


def write_lines(address: str, lines: list[str], stop: threading.Event) -> None:
    producer = ck.Producer({"bootstrap.servers": address, "enable.idempotence": True,
                            "reconnect.backoff.max.ms": 200, "log_level": 0})
    for i, line in enumerate(lines):
        producer.produce("lines", line.encode(), partition=i % PARTITIONS)
        if i % 10 == 0:
            stop.wait(0.1)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_word_is_counted_once_through_kills(
    broker: Restarted, tmp_path: Path, protocol: str
) -> None:
    setting = f"group.protocol={protocol}"
    dice = random.Random(1)
    lines = [" ".join(dice.choices(WORDS, k=PER_LINE)) for _ in range(LINES)]
    wanted, total = Counter(" ".join(lines).split()), LINES * PER_LINE
    folder = tmp_path / "state"
    folder.mkdir()
    stop = threading.Event()
    source = threading.Thread(target=write_lines, args=(broker.address, lines, stop))
    source.start()
    try:
        with closing(Counts(broker.address)) as counts:
            with word_count(broker.address, folder, setting) as program:
                for share in [each for each in KILLED_AT if each < PROGRAM_KILLED_AT]:
                    counts.read_up_to(int(share * total))
                    broker.kill()
                counts.read_up_to(int(PROGRAM_KILLED_AT * total))
                program.kill()
            with word_count(broker.address, folder, setting) as program:
                for share in [each for each in KILLED_AT if each > PROGRAM_KILLED_AT]:
                    counts.read_up_to(int(share * total))
                    broker.kill()
                counts.read_up_to(total)
            assert program.returncode == 0, (folder / "said").read_text()
    finally:
        stop.set()
        source.join()
    assert counts.steps == {word: list(range(1, n + 1)) for word, n in wanted.items()}
