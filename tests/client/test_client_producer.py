"""The producer against real brokers, synchronous; what it wrote is read by librdkafka."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from appliance.client.batch import Identity
from appliance.client.errors import ConfigInvalid, TopicUnknown
from appliance.client.outcome import HookFailed, ProducerClosed, SendFailed
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.client.producer_hooks import Encoder, Partitioner
from appliance.errors import BatchTooLarge
from appliance.record import compression
from appliance.record._producer_batch_builder import key_hash
from appliance.testing import RunningBroker, running_broker
from tests.support.consumed import consumed
from tests.support.producing import DEADLINE_S, config, create, numbered, written

# Synchronous


def test_one_record_is_where_its_outcome_says(appliance_broker: RunningBroker) -> None:
    begin_ms = time.time() * 1000 - 1
    with Producer(config(appliance_broker)) as producer:
        for value, key in [(b"a", None), (b"b", b"k"), (None, b"k"), (b"", b"")]:
            (outcome,) = producer.send("t", value, key)
            found = consumed(appliance_broker.bootstrap, "t")[-1]
            assert (found.key, found.value) == (key, value)
            assert found.offset == outcome.base_offset
            assert str(outcome.partition) == f"1-{found.partition}"
            assert begin_ms <= found.timestamp <= time.time() * 1000


@pytest.mark.parametrize("codec", compression.NAMES)
def test_a_list_without_keys_goes_to_one_partition_in_its_order(
    two: list[RunningBroker], codec: str
) -> None:
    values = numbered(50_000)
    with Producer(config(*two, compression=codec, max_message_size=50_000)) as producer:
        outcomes = producer.send("t", values)
    assert len(outcomes) > 10
    (partition,) = {str(each.partition) for each in outcomes}
    found = written(two, "t")
    assert [each.value for each in found.pop(partition)] == values
    assert not found
    at = 0
    for outcome in outcomes:
        assert outcome.base_offset == at
        assert outcome.records.values == values[at : at + len(outcome.records)]
        at += len(outcome.records)


def test_lists_without_keys_are_spread_over_all_brokers(two: list[RunningBroker]) -> None:
    for broker in two:
        create(broker, "t", 2)
    with Producer(config(*two)) as producer:
        for i in range(100):
            producer.send("t", b"%d" % i)
    found = written(two, "t")
    assert sorted(found) == ["1-0", "1-1", "2-0", "2-1"]
    assert sum(map(len, found.values())) == 100


def test_pairs_go_where_their_keys_belong(two: list[RunningBroker]) -> None:
    create(two[0], "t", 3)
    create(two[1], "t", 2)
    pairs = [(b"member %d" % (i % 100), b"%d" % i) for i in range(10_000)]
    with Producer(config(*two)) as producer:
        outcomes = producer.send("t", pairs)
        producer.send("t", [b"more"] * 3, key=b"member 7")
    names = ["1-0", "1-1", "1-2", "2-0", "2-1"]
    wanted: dict[str, list[tuple[bytes, bytes]]] = {}
    for key, value in [*pairs, *[(b"member 7", b"more")] * 3]:
        wanted.setdefault(names[key_hash(key) % 5], []).append((key, value))
    found = written(two, "t")
    assert {name: [(r.key, r.value) for r in of] for name, of in found.items()} == wanted
    assert sum(len(each.records) for each in outcomes) == len(pairs)
    for each in outcomes:
        start = each.base_offset
        of = wanted[str(each.partition)][start : start + len(each.records)]
        assert list(each.records) == of


def test_a_topic_that_nobody_makes_is_unknown_before_long(tmp_path: Path) -> None:
    """A broker that has just begun to make it says the same at first."""
    with (
        running_broker(tmp_path, {"auto.create.topics.enable": "false"}) as broker,
        Producer(config(broker, socket_timeout_ms=120_000)) as producer,
        pytest.raises(SendFailed, match="topic 't' is at none of the brokers") as failed,
    ):
        producer.send("t", b"one")
    (outcome,) = failed.value.outcomes
    assert isinstance(outcome.error, TopicUnknown)
    assert time.time() * 1000 - outcome.records.timestamp < 60_000


def test_headers_are_of_each_record_and_stay_with_it(appliance_broker: RunningBroker) -> None:
    create(appliance_broker, "t", 3)
    pairs = [(b"member %d" % (i % 20), b"%d" % i) for i in range(200)]
    two = [("trace", b"\x00\x01"), ("trace", None)]
    with Producer(config(appliance_broker)) as producer:
        (outcome,) = producer.send("t", b"one", headers={"schéma": b"2"})
        producer.send("t", pairs, headers=two)
        producer.send("t", b"none")
    assert outcome.records.headers == [(("schéma", b"2"),)]
    found = {each.value: each.headers for each in consumed(appliance_broker.bootstrap, "t")}
    assert found.pop(b"one") == [("schéma", b"2")]
    assert found.pop(b"none") is None
    assert found == dict.fromkeys([value for _, value in pairs], two)


def test_headers_of_records_that_share_a_batch(appliance_broker: RunningBroker) -> None:
    create(appliance_broker, "t", 1)
    settings = {"producer_type": "async", "queue_time": 200, "batch_size": 1000}
    with Producer(config(appliance_broker, **settings)) as producer:
        for i in range(100):
            producer.send("t", b"%d" % i, headers={"n": b"%d" % i} if i % 2 else ())
    found = consumed(appliance_broker.bootstrap, "t")
    assert [(each.value, each.headers) for each in found] == [
        (b"%d" % i, [("n", b"%d" % i)] if i % 2 else None) for i in range(100)
    ]


@pytest.mark.parametrize("headers", [{"n": 1}, {b"n": b"1"}, [("n", "1")]], ids=str)
def test_headers_of_another_kind_are_refused(headers: Any, appliance_broker: RunningBroker) -> None:
    with (
        Producer(config(appliance_broker)) as producer,
        pytest.raises(TypeError, match="wanted a str and bytes or None"),
    ):
        producer.send("t", b"one", headers=headers)


def test_threads_may_share_a_producer(appliance_broker: RunningBroker) -> None:
    with Producer(config(appliance_broker)) as producer:

        def send(of: int) -> None:
            for i in range(50):
                producer.send("t", b"%d-%d" % (of, i))

        threads = [threading.Thread(target=send, args=(of,)) for of in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(DEADLINE_S)
    found = [each.value for each in consumed(appliance_broker.bootstrap, "t")]
    assert Counter(found) == Counter(b"%d-%d" % (of, i) for of in range(4) for i in range(50))


class Overtaken:
    """A lock that is given to who closes the producer, before the one who waited first."""

    def __init__(self, producer: Producer) -> None:
        self.producer, self.is_overtaken, self.lock = producer, False, threading.Lock()

    def __enter__(self) -> None:
        if not self.is_overtaken:
            self.is_overtaken = True
            self.producer.close()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_who_waits_to_send_is_told_that_the_producer_was_closed(
    appliance_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer(config(appliance_broker))
    producer.send("t", b"one")
    monkeypatch.setattr(producer, "_lock", Overtaken(producer))
    with pytest.raises(ProducerClosed):
        producer.send("t", b"late")
    assert [each.value for each in consumed(appliance_broker.bootstrap, "t")] == [b"one"]


def test_only_the_record_that_is_too_large_fails(appliance_broker: RunningBroker) -> None:
    values = [b"a", b"x" * 5000, b"b"]
    with (
        Producer(config(appliance_broker, max_message_size=2000)) as producer,
        pytest.raises(SendFailed, match=r"1 of 3 records failed, .* 2000 allowed") as failed,
    ):
        producer.send("t", values)
    bad = [each for each in failed.value.outcomes if each.error]
    assert [(each.records.values, type(each.error)) for each in bad] == [
        ([values[1]], BatchTooLarge)
    ]
    assert not bad[0].may_be_written
    assert [each.value for each in consumed(appliance_broker.bootstrap, "t")] == [b"a", b"b"]


def test_what_the_broker_refuses_is_told_and_what_follows_is_sent(
    appliance_broker: RunningBroker,
) -> None:
    """The refused batch leaves a gap in the sequence. Those behind it, which were on their way with
    it, are numbered anew and arrive, each once."""
    create(appliance_broker, "t", 1, **{"max.message.bytes": "3000"})
    big = b"x" * 4485  # a batch with no room for anything beside it
    parts = [[big], numbered(10), [big], numbered(20), [big], numbered(7)]
    settings = config(appliance_broker, max_message_size=4500)
    with Producer(settings) as producer:
        with pytest.raises(SendFailed, match="3 of 40 records failed") as failed:
            producer.send("t", [value for part in parts for value in part])
        producer.send("t", b"after")
    refused = [each for each in failed.value.outcomes if each.error]
    assert [each.records.values for each in refused] == [[big]] * 3
    assert {getattr(each.error, "code", None) for each in refused} == {10}
    found = [each.value for each in consumed(appliance_broker.bootstrap, "t")]
    assert found == [*numbered(10), *numbered(20), *numbered(7), b"after"]


def test_a_topic_that_may_not_be_made_is_unknown(appliance_broker: RunningBroker) -> None:
    settings = config(appliance_broker, create_topics=False, delivery_timeout_ms=300)
    with Producer(settings) as producer, pytest.raises(SendFailed) as failed:
        producer.send("none", numbered(3))
    (outcome,) = failed.value.outcomes
    assert isinstance(outcome.error, TopicUnknown)
    assert len(outcome.records) == 3


def test_what_is_no_bytes_is_refused_before_anything_is_sent(
    appliance_broker: RunningBroker,
) -> None:
    with Producer(config(appliance_broker)) as producer:
        with pytest.raises(TypeError, match="value 1: got str"):
            producer.send("t", [b"a", "text"])
        with pytest.raises(TypeError, match="key 0: got int"):
            producer.send("t", b"a", 7)
        with pytest.raises(TypeError, match="a key and pairs"):
            producer.send("t", [(b"k", b"v")], b"k")
        assert producer.send("t", []) == []
    with pytest.raises(ProducerClosed):
        producer.send("t", b"late")


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"acks": 0}, "every record's outcome"),
        ({"acks": 2}, "at most 1"),
        ({"compression": "rar"}, "one of none, gzip"),
        ({"requests_in_flight": 6}, "at most 5"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigInvalid, match=fact):
        ProducerConfig(broker_list="a:1", **settings)


def test_sequences_begin_at_0_again_where_32_bits_end() -> None:
    identity = Identity(1, 0, next_sequence=2**31 - 3)
    assert [identity.take(count) for count in (2, 5, 1)] == [2**31 - 3, 2**31 - 1, 4]


# What users put in


class Texts(Encoder):
    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def encode_key(self, key: Any) -> bytes:
        return b"key %d" % key


def test_an_encoder_makes_the_bytes_and_outcomes_have_what_was_given(
    two: list[RunningBroker],
) -> None:
    with Producer(config(*two), encoder=Texts()) as producer:
        (outcome,) = producer.send("t", ["ä", 1.5])
        assert outcome.records.values == ["ä", 1.5]
        outcomes = producer.send("t", [(1, "one"), (2, "two"), (None, "none")])
        with pytest.raises(SendFailed) as failed:
            producer.send("t", "x", key="no number")
    assert Counter(pair for each in outcomes for pair in each.records) == Counter(
        [(1, "one"), (2, "two"), (None, "none")]
    )
    assert isinstance(failed.value.outcomes[0].error, HookFailed)
    found = Counter((r.key, r.value) for of in written(two, "t").values() for r in of)
    assert found == Counter(
        [
            (None, "ä".encode()),
            (None, b"1.5"),
            (b"key 1", b"one"),
            (b"key 2", b"two"),
            (None, b"none"),
        ]
    )


class ByLastDigit(Partitioner):
    def partition(self, key: bytes, count: int) -> int:
        return int(key[-1:])


def test_a_partitioner_decides(two: list[RunningBroker]) -> None:
    for broker in two:
        create(broker, "t", 2)
    pairs = [(b"%d" % (i % 4), b"%d" % i) for i in range(40)]
    with Producer(config(*two), partitioner=ByLastDigit()) as producer:
        producer.send("t", pairs)
        with pytest.raises(SendFailed, match="got partition 9, wanted 0 to 3"):
            producer.send("t", b"x", b"9")
    found = written(two, "t")
    assert {name: {each.key for each in of} for name, of in found.items()} == {
        "1-0": {b"0"},
        "1-1": {b"1"},
        "2-0": {b"2"},
        "2-1": {b"3"},
    }
    assert [each.value for each in found["2-1"]] == [v for k, v in pairs if k == b"3"]
