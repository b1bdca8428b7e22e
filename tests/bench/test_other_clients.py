"""The benchmark's clients in other languages, with a real broker, and what it makes of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from appliance.embedded import running_broker
from bench import client_limit, regressions, report
from bench.__main__ import main
from bench.peers import clients, other_clients
from bench.peers.brokers import Mock
from bench.peers.clients import ClientFailed
from bench.results import Comparison, Run
from bench.run_size import WHOLE
from bench.suites import SUITES, writing
from bench.suites import other_clients as other_client_suites
from tests.support.release import gate_has

RECORDS, SIZE = 3000, 500
ATTRIBUTES_AT, CODEC_BITS = 22, 7  # of a batch: the low byte of its attributes
CODECS = {"none": 0, "lz4": 3}
NAMES = gate_has(["aiokafka"], "the same of a language whose program is built first",
                 other_clients.CLIENTS)
WRITES = {  # the acks and codecs of each, as the suites want them
    "go": [("1", "none"), ("all", "none"), ("all", "lz4")],
    "node": [("1", "none")],
    "rust": [("all", "none")],
    "aiokafka": [("1", "none")],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients") / "data"


@pytest.fixture(scope="module")
def address(data: Path) -> Iterator[str]:
    with running_broker(data) as broker:
        yield broker.bootstrap


def make(address: str, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    return admin


def end_of(admin: AdminClient, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    return int(admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(30).offset)


def first_codec(data: Path, topic: str) -> int:
    (log,) = (data / f"{topic}-0").glob("*.log")
    return log.read_bytes()[ATTRIBUTES_AT] & CODEC_BITS


def needs(name: str) -> None:
    why_not = other_clients.CLIENTS[name].missing()
    assert why_not is None, why_not


def check(done: other_clients.Done) -> None:
    assert done.records == RECORDS
    assert min(done.seconds, done.cpu) > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_client_writes_what_it_is_told_and_reads_it_back(
    name: str, address: str, data: Path
) -> None:
    needs(name)
    for acks, codec in WRITES[name]:
        topic = f"{name}-{acks}-{codec}"
        admin = make(address, topic)
        check(other_clients.produce(name, address, topic, SIZE, RECORDS, acks, codec))
        assert end_of(admin, topic) == RECORDS
        assert first_codec(data, topic) == CODECS[codec]
        check(other_clients.consume(name, address, topic, RECORDS))


@pytest.mark.parametrize("name", NAMES)
def test_a_client_says_what_it_does_not_know(name: str, address: str) -> None:
    needs(name)
    with pytest.raises(ClientFailed, match=r"wanted acks .*all, got 7"):
        other_clients.produce(name, address, "none", SIZE, RECORDS, "7", "none")


TEN = """import sys
print("a warning", file=sys.stderr)
print('{"records": 10, "seconds": 2, "cpu": 1.9}')
"""


class Telling(other_clients.Client):
    """A client that says this, whatever it was asked for."""

    def __init__(self, library: str, program: str) -> None:
        self.library, self._program = library, program

    def words(self) -> list[str]:
        return [sys.executable, "-c", self._program]


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, program in (("ten", TEN), ("twice", TEN * 2), ("nothing", "")):
        monkeypatch.setitem(other_clients.CLIENTS, name, Telling(name, program))
    other_clients.program.cache_clear()


def test_a_client_that_missed_a_record_has_failed(telling: None) -> None:
    told = other_clients.consume("ten", "127.0.0.1:1", "topic", 10)
    assert told == other_clients.Done(10, 2, 1.9)
    with pytest.raises(ClientFailed, match="ten moved 10 of 11"):
        other_clients.consume("ten", "127.0.0.1:1", "topic", 11)


@pytest.mark.parametrize(("name", "answers"), [("nothing", 0), ("twice", 2)])
def test_a_client_without_one_answer_has_failed(name: str, answers: int, telling: None) -> None:
    with pytest.raises(ClientFailed, match=f"wanted one answer of {name}, got {answers}"):
        other_clients.consume(name, "127.0.0.1:1", "topic", 10)


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(ClientFailed, match=r"(?s)sh -c .* ended with 3:\nno such library"):
        other_clients.must_run(["sh", "-c", "echo no such library; exit 3"], tmp_path)


def test_a_suite_without_its_tool_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_clients.shutil, "which", lambda name: None)
    assert list(SUITES["go"](WHOLE)) == []
    out = tmp_path / "out.json"
    done = CliRunner().invoke(main, ["run", "--suite", "go", "--out", str(out)])
    assert done.exit_code == 0
    assert "go is left out: go is not on PATH (https://go.dev/dl)\n" in done.stderr
    assert "go" in Run.load(out).machine["not installed"].split(", ")


def test_java_as_it_comes_has_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(clients.kafka_jars, "command", lambda main, words, flags: words)
    monkeypatch.setattr(clients, "run", lambda words: asked.append(words) or "1 records/sec")
    broker = Mock(Path(), {})
    other_client_suites.java_writes(broker, "topic", 10, 5)
    writing.by_java(broker, "topic", 10, 5)
    settings = [words[words.index("--producer-props") + 2 :] for words in asked]
    assert settings == [[], ["acks=1", *clients.JAVA_PRODUCER]]


RATE = Comparison("go", "franz-go, consume", "records/s", "kafka", [120, 140], [100, 100], 1.5)


def run_of(figures: dict[str, float], *rows: Comparison) -> Run:
    told = [replace(RATE, figure=name, ours=[value], theirs=[value / 2], goal=None)
            for name, value in figures.items()]
    return Run({"cores": "2"}, 1, [*rows, *told])


@pytest.mark.parametrize(("figures", "reason"), [
    (client_limit.figures(1.92, 0.2, 2, True), "it has one thread, which had 0.96 of a core"),
    (client_limit.figures(1.88, 0.2, 2, True), None),
    (client_limit.figures(3.1, 0.9, 2, False), "of 2 cores it had 1.55, the broker 0.45"),
    (client_limit.figures(1.92, 0.9, 2, False), None),
    (client_limit.figures(0.9, 3.1, 2, False), None),
    ({}, None),
], ids=["a full core", "not quite", "all cores", "cores at rest", "the broker has most", "unknown"])
def test_a_client_without_rest_is_the_limit(
    figures: dict[str, float], reason: str | None
) -> None:
    whole = run_of(figures, RATE, replace(RATE, figure="cpu s/GB"))
    rate, cost = whole.comparisons[:2]
    assert client_limit.reason(cost, whole) is None
    told = client_limit.reason(rate, whole)
    assert told == (f"The client is the limit: {reason}." if reason else None)


def test_the_page_says_that_the_client_is_the_limit(tmp_path: Path) -> None:
    whole = run_of(client_limit.figures(1.96, 0.2, 2, True), RATE)
    text = report.written(whole, tmp_path / "page.md", tmp_path / "images")[0].read_text()
    assert "| 1.30 (1.20-1.40), the client's | ≥ 1.5 **missed** |" in text
    assert "records/s 1.30 x: The client is the limit: it has one thread, which had 0.98" in text
    assert "0 of 1 goals are met" in text
    assert "Of 1 figures 0 are behind the peer's." in text


def test_what_a_client_had_of_the_cores_is_no_regression() -> None:
    old, new = (run_of({client_limit.THREADS: share}) for share in (0.5, 1.5))
    new.comparisons[0].theirs = old.comparisons[0].theirs
    assert regressions.regressions(old, new) == []
