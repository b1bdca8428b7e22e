"""Unmodified current clients against `appliance serve`: they consume what they produced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.interop.clients import CLIENTS, Client, Record, RecordTooLarge
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DEADLINE_S = 30.0
THEN_MS = 1_600_000_000_000
LIMIT = 1_048_588  # message.max.bytes
OVERHEAD = 72  # bytes of a batch of one such record, without key and headers
COUNT = 50
ACKS = ["0", "1", "all", "idempotent"]
SIZES = gate_has([1, LIMIT - OVERHEAD], "the sizes between the smallest and the largest",
                 [1, 63, 64, 8191, 8192, 100_000, LIMIT - OVERHEAD])
BOTH_ACKS = gate_has(["all"], "acks=1 ends in the same answer on one broker", ["1", "all"])


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data: Path = tmp_path_factory.mktemp("clients")
    with Broker(data) as broker:
        yield broker.kafka


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


def shapes() -> list[Record]:
    """Records with and without keys, values and headers, each with its own timestamp."""
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"only-key", None), (None, b"only-value"), (b"", b""), (b"k", b""), (b"", b"v")]
    pairs += [(b"k%d" % i, b"v" * i * i) for i in range(COUNT)]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [
        (), (("name", b"value"),), (("twice", b"1"), ("twice", b"2"), ("empty", b""))]
    return [Record(key, value, headers[i % 3], THEN_MS + 1000 * i)
            for i, (key, value) in enumerate(pairs)]


def numbered(count: int = COUNT) -> list[Record]:
    """Record i is i seconds younger than THEN."""
    return [Record(None, b"v%d" % i, (), THEN_MS + 1000 * i) for i in range(count)]


def placed(records: list[Record], first: int = 0) -> list[tuple[int, Record]]:
    return list(enumerate(records[first:], first))


@pytest.mark.parametrize(
    ("codec", "acks"),
    gate_has(zip(CODECS, (*ACKS, "all"), strict=True), "each codec with each acks",
             product(CODECS, ACKS)),
)
def test_what_is_produced_is_consumed(
    bootstrap: str, client: Client, codec: str, acks: str
) -> None:
    topic = f"{client.name}-{codec}-{acks}"
    create(bootstrap, topic)
    sent = shapes()
    told = client.produce(bootstrap, topic, sent, codec=codec,
                          acks="all" if acks == "idempotent" else acks,
                          is_idempotent=acks == "idempotent")
    assert told == ([-1] * len(sent) if acks == "0" else list(range(len(sent))))
    with closing(client.reader(bootstrap, topic, 0)) as reader:
        assert reader.take(len(sent)) == placed(sent)


def create(bootstrap: str, topic: str) -> None:
    """Before the first acks=0 record, which would be lost while the topic is created."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    new = confluent_kafka.admin.NewTopic(topic, 1, 1)
    admin.create_topics([new])[topic].result(DEADLINE_S)


@pytest.mark.parametrize("size", SIZES)
def test_a_record_of_any_size_that_fits(bootstrap: str, client: Client, size: int) -> None:
    sent = [Record(None, b"x" * size)]
    assert client.produce(bootstrap, f"{client.name}-{size}", sent) == [0]
    with closing(client.reader(bootstrap, f"{client.name}-{size}", 0)) as reader:
        assert reader.take(1) == placed(sent)


@pytest.mark.parametrize("acks", BOTH_ACKS)
def test_a_byte_over_the_limit_is_refused(bootstrap: str, client: Client, acks: str) -> None:
    topic = f"{client.name}-over-{acks}"
    with pytest.raises(RecordTooLarge):
        client.produce(bootstrap, topic, [Record(None, b"x" * (LIMIT - OVERHEAD + 1))], acks=acks)
    assert client.produce(bootstrap, topic, [Record(None, b"fits")], acks=acks) == [0]


def test_reading_begins_at_any_offset(bootstrap: str, client: Client) -> None:
    topic, sent = f"{client.name}-any", numbered()
    client.produce(bootstrap, topic, sent, codec="lz4")
    with closing(client.reader(bootstrap, topic, 0)) as reader:
        for offset in range(0, COUNT, 7):
            reader.seek(offset)
            assert reader.take(COUNT - offset) == placed(sent, offset)


def test_offsets_are_found_by_time(bootstrap: str, client: Client) -> None:
    topic = f"{client.name}-times"
    client.produce(bootstrap, topic, numbered())
    with closing(client.reader(bootstrap, topic, 0)) as reader:
        for i in range(0, COUNT, 7):
            assert reader.first_at(THEN_MS + 1000 * i) == i
            assert reader.first_at(THEN_MS + 1000 * i - 999) == i
        assert reader.first_at(THEN_MS + 1000 * COUNT) is None
        assert reader.ends() == (0, COUNT)


def test_a_paused_partition_gives_nothing(bootstrap: str, client: Client) -> None:
    topic, sent = f"{client.name}-paused", numbered()
    client.produce(bootstrap, topic, sent)
    with closing(client.reader(bootstrap, topic, 0)) as reader:
        assert reader.take(1)[0] == (0, sent[0])
        reader.seek(5)
        reader.pause()
        assert reader.take(1, deadline_s=0.3) == []
        reader.resume()
        assert reader.take(COUNT - 5) == placed(sent, 5)


@pytest.mark.parametrize("acks", BOTH_ACKS)
def test_a_record_arrives_while_the_fetch_waits(bootstrap: str, client: Client, acks: str) -> None:
    """The fetch may wait twenty seconds; the record must arrive before."""
    topic, sent = f"{client.name}-waits-{acks}", numbered(2)
    client.produce(bootstrap, topic, sent[:1])

    def send() -> None:
        client.produce(bootstrap, topic, sent[1:], acks=acks)

    with closing(client.reader(bootstrap, topic, 0, wait_ms=20_000)) as reader:
        assert reader.take(1) == placed(sent[:1])
        assert reader.take(1, deadline_s=0.3) == []
        sender = threading.Thread(target=send)
        sender.start()
        found = reader.take(1, deadline_s=15)
        sender.join(DEADLINE_S)
    assert found == placed(sent, 1)
