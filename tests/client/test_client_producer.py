"""The producer against real brokers; what it wrote is read by librdkafka."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.client.batch import Identity
from appliance.client.errors import ConfigInvalid, TopicUnknown
from appliance.client.hooks import CallbackHandler, Delivery, Encoder, EventHandler, Partitioner
from appliance.client.outcome import HookFailed, Outcome, ProducerClosed, Records, SendFailed
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.errors import BatchTooLarge
from appliance.record import compression
from appliance.record._record_builder import key_hash
from appliance.testing import RunningBroker, running_broker
from tests.support.consumed import Consumed, consumed
from tests.support.serving import Serving
from tests.support.zookeeper import eventually, zookeeper_in

DEADLINE_S = 30.0


class Heard(CallbackHandler):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.enqueued: list[tuple[int, bool]] = []
        self.dequeued: list[int] = []
        self.stages: list[str] = []

    def before_enqueue(self, records: Records) -> Records:
        self.stages.append("before_enqueue")
        return records

    def after_enqueue(self, records: Records, is_added: bool) -> None:
        self.stages.append("after_enqueue")
        self.enqueued.append((len(records), is_added))

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        self.stages.append("after_dequeue")
        self.dequeued.append(sum(map(len, records)))
        return records

    def before_send(self, records: list[Records]) -> list[Records]:
        self.stages.append("before_send")
        return records

    def after_send(self, outcome: Outcome) -> None:
        self.stages.append("after_send")
        self.outcomes.append(outcome)

    def on_close(self) -> list[Records]:
        self.stages.append("on_close")
        return []

    def values(self, *, acknowledged: bool) -> list[Any]:
        chosen = [each for each in self.outcomes if each.is_acknowledged == acknowledged]
        return [value for each in chosen for value in each.records.values]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_broker(tmp_path / str(number), {"node.id": str(number)}))
            for number in (1, 2)
        ]


def config(*brokers: RunningBroker, **settings: Any) -> ProducerConfig:
    return ProducerConfig(broker_list=",".join(each.bootstrap for each in brokers), **settings)


def create(broker: RunningBroker, topic: str, partitions: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, config=configs)])[topic].result(DEADLINE_S)


def written(brokers: list[RunningBroker], topic: str) -> dict[str, list[Consumed]]:
    """By the name of the partition."""
    found: dict[str, list[Consumed]] = {}
    for number, broker in enumerate(brokers, 1):
        for each in consumed(broker.bootstrap, topic):
            found.setdefault(f"{number}-{each.partition}", []).append(each)
    return found


def numbered(count: int) -> list[bytes | None]:
    return [b"%d" % i for i in range(count)]


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
        with pytest.raises(TypeError, match="a key beside pairs"):
            producer.send("t", [(b"k", b"v")], b"k")
        assert producer.send("t", []) == []
    with pytest.raises(ProducerClosed):
        producer.send("t", b"late")


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"acks": 0}, "every record's fate"),
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


# Asynchronous


def test_records_go_after_the_queue_time_or_a_full_batch(appliance_broker: RunningBroker) -> None:
    heard = Heard()
    settings = {"producer_type": "async", "batch_size": 10}
    long = config(appliance_broker, queue_time=3_600_000, **settings)
    with Producer(long, callback_handler=heard) as producer:
        producer.send("t", numbered(9))
        time.sleep(0.2)
        assert heard.dequeued == []
        producer.send("t", b"9")
        eventually(lambda: len(heard.values(acknowledged=True)) == 10)
        assert heard.dequeued == [10]
        producer.send("t", numbered(25))
        eventually(lambda: len(heard.values(acknowledged=True)) == 30)
        producer.flush()
        assert heard.dequeued == [10, 10, 10, 5]
    heard = Heard()
    begin = time.monotonic()
    with Producer(
        config(appliance_broker, queue_time=300, **settings), callback_handler=heard
    ) as producer:
        producer.send("t", b"alone")
        eventually(lambda: len(heard.outcomes) == 1)
        assert time.monotonic() - begin >= 0.3


def test_records_given_one_by_one_share_batches_and_keep_their_times(
    appliance_broker: RunningBroker,
) -> None:
    heard = Heard()
    waiting = config(appliance_broker, producer_type="async", queue_time=3_600_000)
    with Producer(waiting, callback_handler=heard) as producer:
        begin_ms = time.time() * 1000 - 1
        producer.send("t", b"first", b"k")
        time.sleep(0.05)
        middle_ms = time.time() * 1000
        producer.send("t", [b"second", b"third"], b"k")
        producer.send("t", b"no key")
        producer.flush()
    of_key = [each for each in heard.outcomes if each.records.keys]
    assert list(of_key[0].records)[:3] == [
        (b"k", b"first"),
        (b"k", b"second"),
        (b"k", b"third"),
    ]
    first, second, third, last = consumed(appliance_broker.bootstrap, "t")
    assert [first.value, second.value, third.value] == [b"first", b"second", b"third"]
    assert (last.key, last.value) == (None, b"no key")
    assert begin_ms <= first.timestamp <= middle_ms - 40
    assert second.timestamp == third.timestamp >= int(middle_ms)


def test_hooks_are_called_at_each_stage(appliance_broker: RunningBroker) -> None:
    heard = Heard()
    with Producer(config(appliance_broker, producer_type="async"), callback_handler=heard) as made:
        made.send("t", b"x")
        made.flush()
    assert heard.stages == [
        "before_enqueue",
        "after_enqueue",
        "after_dequeue",
        "before_send",
        "after_send",
        "on_close",
    ]
    heard = Heard()
    with Producer(config(appliance_broker), callback_handler=heard) as producer:
        producer.send("t", b"x")
    assert heard.stages == ["before_send", "after_send"]


class Changing(CallbackHandler):
    def before_enqueue(self, records: Records) -> Records:
        return Records(records.topic, [v + b" enqueued" for v in records.values], records.keys)

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        return [each for each in records if each.values[0][:4] != b"drop"]

    def before_send(self, records: list[Records]) -> list[Records]:
        return [*records, Records("audit", [b"%d" % sum(map(len, records))])]

    def on_close(self) -> list[Records]:
        return [Records("t", [b"the end"])]


def test_hooks_may_change_what_is_sent(appliance_broker: RunningBroker) -> None:
    settings = config(appliance_broker, producer_type="async", queue_time=3_600_000)
    with Producer(settings, callback_handler=Changing()) as producer:
        producer.send("t", b"drop")
        producer.send("t", [b"a", b"b"])
        producer.flush()
    found = consumed(appliance_broker.bootstrap, "t")
    assert [each.value for each in found] == [b"a enqueued", b"b enqueued", b"the end"]
    found = consumed(appliance_broker.bootstrap, "audit")
    assert [each.value for each in found] == [b"2", b"1"]


class OnlyErrors(EventHandler):
    def handle(self, records: list[Records], delivery: Delivery) -> None:
        for each in records:
            errors = [value for value in each.values if value.startswith(b"ERROR")]
            delivery.send([Records("errors", errors)] if errors else [])


def test_an_event_handler_decides_what_is_sent(appliance_broker: RunningBroker) -> None:
    settings = config(appliance_broker, producer_type="async")
    with Producer(settings, event_handler=OnlyErrors()) as producer:
        producer.send("log", [b"ERROR 1", b"fine", b"ERROR 2"])
    found = consumed(appliance_broker.bootstrap, "errors")
    assert [each.value for each in found] == [b"ERROR 1", b"ERROR 2"]


# ZooKeeper


def test_producers_follow_the_brokers_in_zookeeper(tmp_path: Path) -> None:
    with zookeeper_in(tmp_path / "zookeeper") as server, ExitStack() as stack:
        server.start()
        server.wait_until_serving()
        root = f"{server.address}/producers"

        def start(number: int) -> RunningBroker:
            settings = {
                "node.id": str(number),
                "zookeeper.connect": root,
                "zookeeper.connection.timeout.ms": "10000",
            }
            return stack.enter_context(running_broker(tmp_path / str(number), settings))

        one = start(1)
        producer = stack.enter_context(Producer(ProducerConfig(zk_connect=root)))
        assert str(producer.send("t", b"x")[0].partition) == "1-0"
        two = start(2)
        create(two, "t", 2)
        eventually(lambda: len(producer.cluster.partitions("t")) == 3)
        used: set[str] = set()
        eventually(
            lambda: bool(used.add(str(producer.send("t", b"y")[0].partition))) or len(used) > 2
        )
        one.stop()
        eventually(lambda: len(producer.cluster.partitions("t")) == 2)
        assert {str(producer.send("t", b"z")[0].partition)[0] for _ in range(20)} == {"2"}


def test_a_killed_broker_of_zookeeper_is_waited_for_or_left(tmp_path: Path) -> None:
    """What goes to it waits until it is back, or goes to the others; all is told and is there."""
    with zookeeper_in(tmp_path / "zookeeper") as server, ExitStack() as stack:
        server.start()
        server.wait_until_serving()
        root = f"{server.address}/killed"

        def start(number: int) -> Serving:
            settings = {
                "node.id": number,
                "zookeeper.connect": root,
                "zookeeper.session.timeout.ms": 1000,
                "zookeeper.connection.timeout.ms": 10000,
            }
            serving = Serving(tmp_path / str(number), **settings)
            stack.callback(serving.stop, signal.SIGKILL)
            return serving

        brokers = [start(1), start(2)]
        heard = {policy: Heard() for policy in ("fail", "move")}
        producers = [
            stack.enter_context(
                Producer(
                    ProducerConfig(
                        zk_connect=root,
                        producer_type="async",
                        queue_time=5,
                        on_broker_down=policy,
                        retry_backoff_max_ms=200,
                    ),
                    callback_handler=each,
                )
            )
            for policy, each in heard.items()
        ]
        pairs = [(b"k%d" % i, b"%d" % i) for i in range(200)]
        for turn in range(60):
            for producer in producers:
                producer.send(producer.config.on_broker_down, pairs)
            if turn == 20:
                brokers[0].stop(signal.SIGKILL)
                eventually(lambda: [*producers[0].cluster.brokers()] == [2])
            if turn == 40:
                brokers[0] = start(1)  # at another port
            time.sleep(0.01)
        for producer in producers:
            producer.flush()
        for policy, each in heard.items():
            values = each.values(acknowledged=True)
            assert Counter(values) == Counter([value for _, value in pairs] * 60), policy
            found = Counter(
                record.value
                for broker in brokers
                for record in consumed("{}:{}".format(*broker.kafka), policy)
            )
            extra = found - Counter(values)
            assert not Counter(values) - found
            assert not extra or policy == "move", "twice, though it waited"


# The end of the program


def test_what_is_queued_is_sent_when_the_program_ends(appliance_broker: RunningBroker) -> None:
    program = f"""
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
producer = Producer(ProducerConfig(
    broker_list="{appliance_broker.bootstrap}", producer_type="async", queue_time=3600000
))
producer.send("t", [b"%d" % i for i in range(1000)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [each.value for each in consumed(appliance_broker.bootstrap, "t")] == numbered(1000)
