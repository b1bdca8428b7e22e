"""Nothing vanishes silently: a full queue, a broker that is killed, a close before the end.

What the callbacks were told of each record is held against what the brokers have.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from appliance.client.errors import BrokerUnavailable, NoBrokers
from appliance.client.outcome import (
    DeliveryTimedOut,
    HookFailed,
    Outcome,
    ProducerClosed,
    QueueFull,
    Records,
    SendFailed,
)
from appliance.client.producer import Producer
from appliance.client.producer_config import ProducerConfig
from appliance.client.producer_hooks import CallbackHandler, Delivery, Encoder, EventHandler
from appliance.testing import RunningBroker
from loadtest.ports import lasting_port
from tests.support.consumed import consumed
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing
from tests.support.zookeeper import eventually

DEADLINE_S = 30.0
SHORT_MS = 700  # for deliveries that are to fail
SOME_MS = 5000  # for those of which some are to fail, and the others not, on a busy machine too
HOUR_MS = 3_600_000


class Ledger(CallbackHandler):
    """What was told of each value; values are used once."""

    def __init__(self) -> None:
        self.errors: dict[Any, list[Any]] = {}  # by value, as reported; None: acknowledged
        self.uncertain: set[Any] = set()
        self.added: set[Any] = set()
        self.refused: set[Any] = set()

    def after_enqueue(self, records: Records, is_added: bool) -> None:
        (self.added if is_added else self.refused).update(records.values)

    def after_send(self, outcome: Outcome) -> None:
        for value in outcome.records.values:
            self.errors.setdefault(value, []).append(outcome.error)
        if outcome.may_be_written:
            self.uncertain.update(outcome.records.values)

    def of(self, *kinds: type) -> set[Any]:
        return {value for value, (error,) in self.errors.items() if isinstance(error, kinds)}

    @property
    def acknowledged(self) -> set[Any]:
        return {value for value, errors in self.errors.items() if errors == [None]}

    def must_agree_with(self, found: list[bytes | None], given: set[Any]) -> None:
        """Each value was told once, and what was told is true."""
        assert {value: len(errors) for value, errors in self.errors.items()} == dict.fromkeys(
            self.added or given, 1
        )
        assert self.added | self.refused in (given, set())
        counts = Counter(found)
        assert set(counts.values()) <= {1}, "a record is there twice"
        assert self.acknowledged <= counts.keys(), "an acknowledged record is missing"
        assert counts.keys() - self.acknowledged <= self.uncertain, "it said: not written"


def values(of: int, count: int) -> list[bytes]:
    return [b"%d-%d" % (of, i) for i in range(count)]


def config(*addresses: str, **settings: Any) -> ProducerConfig:
    return ProducerConfig(broker_list=",".join(addresses), **settings)


def address(serving: Serving) -> str:
    return "{}:{}".format(*serving.kafka)


def found_in(bootstrap: str, topic: str) -> list[bytes | None]:
    return [each.value for each in consumed(bootstrap, topic)]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    """Starts brokers that can be killed, and on the same data and port again."""
    with ExitStack() as stack:

        def start(number: int, port: int = 0) -> Serving:
            port = port or lasting_port()
            serving = WarmServing(tmp_path / str(number), port, **{"node.id": number})
            stack.callback(serving.stop, signal.SIGKILL)
            return serving

        yield start


# The queue is full


@pytest.mark.parametrize("timeout_ms", [0, 100])
def test_what_finds_no_room_is_refused_and_told(
    appliance_broker: RunningBroker, timeout_ms: int
) -> None:
    ledger, given = Ledger(), values(0, 100)
    settings = config(
        appliance_broker.bootstrap,
        producer_type="async",
        queue_size=30,
        queue_time=HOUR_MS,
        queue_enqueue_timeout=timeout_ms,
    )
    with Producer(settings, callback_handler=ledger) as producer:
        producer.send("t", given[:25])
        begin = time.monotonic()
        with pytest.raises(QueueFull, match="70 of 75 records got no space") as full:
            producer.send("t", given[25:])
        assert time.monotonic() - begin >= timeout_ms / 1000
        assert full.value.added == 5
        assert ledger.refused == set(given[30:])
    assert ledger.acknowledged == set(given[:30])
    ledger.must_agree_with(found_in(appliance_broker.bootstrap, "t"), set(given))


def test_a_full_queue_makes_send_wait_when_it_may(appliance_broker: RunningBroker) -> None:
    ledger, given = Ledger(), values(0, 5000)
    settings = config(
        appliance_broker.bootstrap, producer_type="async", queue_size=30, batch_size=20
    )
    with Producer(settings, callback_handler=ledger) as producer:
        producer.send("t", given)
    assert ledger.acknowledged == set(given)
    assert found_in(appliance_broker.bootstrap, "t") == given


def test_who_waits_for_room_is_told_when_it_closes(serve: Any) -> None:
    ledger, given = Ledger(), values(0, 100)
    nobody = f"127.0.0.1:{lasting_port()}"
    settings = config(nobody, producer_type="async", queue_size=30, close_timeout=0)
    producer = Producer(settings, callback_handler=ledger)
    raised: list[Exception] = []

    def send() -> None:
        try:
            producer.send("t", given)
        except ProducerClosed as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    eventually(lambda: len(ledger.added) >= 30)
    producer.close()
    thread.join(DEADLINE_S)
    assert len(raised) == 1
    assert ledger.added | ledger.refused == set(given)
    assert ledger.added == ledger.errors.keys()


# The broker is gone


def test_a_broker_that_was_never_there(serve: Any) -> None:
    ledger, given = Ledger(), values(0, 50)
    nobody = f"127.0.0.1:{lasting_port()}"
    settings = config(nobody, producer_type="async", delivery_timeout_ms=SHORT_MS)
    begin = time.monotonic()
    with Producer(settings, callback_handler=ledger) as producer:
        for value in given:  # they wait together, not one after the other
            producer.send("t", value)
        producer.flush()
    assert SHORT_MS / 1000 <= time.monotonic() - begin < SHORT_MS / 1000 * 10
    assert ledger.of(NoBrokers) == set(given)
    ledger.must_agree_with([], set(given))
    settings = config(nobody, delivery_timeout_ms=SHORT_MS)
    with Producer(settings) as producer, pytest.raises(SendFailed, match=nobody):
        producer.send("t", b"x")


def test_a_broker_that_comes_back_has_everything_once(serve: Any) -> None:
    """Killed again and again under load: what was in flight is sent again and known again."""
    broker = serve(1)
    host, port = broker.kafka
    ledger, rounds, count = Ledger(), 6, 4000
    settings = config(
        f"{host}:{port}",
        producer_type="async",
        queue_time=1,
        max_message_size=2000,
        retry_backoff_ms=20,
        retry_backoff_max_ms=100,
    )
    given: set[bytes] = set()
    with Producer(settings, callback_handler=ledger) as producer:
        for of in range(rounds):
            for i in range(0, count, 100):
                producer.send("t", values(of, count)[i : i + 100])
            given |= set(values(of, count))
            broker.stop(signal.SIGKILL)
            broker = serve(1, port)
        producer.flush()
        assert ledger.acknowledged == given
    ledger.must_agree_with(found_in(address(broker), "t"), given)


def test_a_broker_that_stays_away_fails_its_records_at_their_time(serve: Any) -> None:
    broker = serve(1)
    _, port = broker.kafka
    ledger = Ledger()
    settings = config(
        address(broker), producer_type="async", queue_time=1, delivery_timeout_ms=SOME_MS
    )
    before, after = values(0, 3000), values(1, 3000)
    with Producer(settings, callback_handler=ledger) as producer:
        producer.send("t", before)
        producer.flush()
        broker.stop(signal.SIGKILL)
        producer.send("t", after)
        producer.flush()
        assert ledger.acknowledged == set(before)
        assert ledger.of(DeliveryTimedOut, BrokerUnavailable) == set(after)
        broker = serve(1, port)
        again: list[bytes] = []

        def is_back() -> bool:
            """On a busy machine the first may be late as well."""
            again.append(b"again %d" % len(again))
            producer.send("t", again[-1:])
            producer.flush()
            return again[-1] in ledger.acknowledged

        eventually(is_back)
    given = {*before, *after, *again}
    ledger.must_agree_with(found_in(address(broker), "t"), given)


def test_the_others_go_on_while_one_is_away(serve: Any) -> None:
    one, two = serve(1), serve(2)
    settings = config(address(one), address(two), delivery_timeout_ms=SOME_MS)
    pairs = [(b"k%d" % i, b"%d" % i) for i in range(1000)]
    with Producer(settings) as producer:
        before = producer.send("t", pairs)
        assert {each.partition.broker for each in before if each.partition} == {1, 2}
        one.stop(signal.SIGKILL)
        with pytest.raises(SendFailed) as failed:
            producer.send("t", pairs)
    outcomes = {each.partition.broker: each for each in failed.value.outcomes if each.partition}
    assert isinstance(outcomes[1].error, DeliveryTimedOut)
    assert "refused" in str(outcomes[1].error)
    assert outcomes[2].error is None
    assert sum(len(each.records) for each in failed.value.outcomes) == 1000


def test_the_others_do_not_wait_for_one_that_does_not_answer(serve: Any) -> None:
    """It accepts connections and says nothing, like a machine that hangs."""
    one, two = serve(1), serve(2)
    told: dict[int, float] = {}

    class Times(CallbackHandler):
        def after_send(self, outcome: Outcome) -> None:
            assert outcome.partition
            told[outcome.partition.broker] = time.monotonic()

    settings = config(address(one), address(two), delivery_timeout_ms=9000, connect_timeout_ms=8000)
    pairs = [(b"k%d" % i, b"%d" % i) for i in range(100)]
    with Producer(settings, callback_handler=Times()) as producer:
        producer.send("t", pairs)
        one.stop(signal.SIGKILL)
        with socket.create_server(one.kafka):
            begin = time.monotonic()
            with pytest.raises(SendFailed) as failed:
                producer.send("t", pairs)
    assert told[2] - begin < 7
    assert told[1] - begin > 8
    assert {each.partition.broker for each in failed.value.outcomes if each.partition} == {1, 2}


def test_records_move_to_another_broker_when_they_may(serve: Any) -> None:
    one, two = serve(1), serve(2)
    _, port = one.kafka
    ledger = Ledger()
    settings = config(
        address(one),
        address(two),
        producer_type="async",
        queue_time=1,
        on_broker_down="move",
        max_message_size=2000,
        retry_backoff_ms=50,
        retry_backoff_max_ms=200,
    )
    given: set[bytes] = set()
    with Producer(settings, callback_handler=ledger) as producer:
        for of in range(30):
            part = values(of, 500)
            given |= set(part)
            producer.send("t", [(value, value) for value in part])
            if of == 10:
                one.stop(signal.SIGKILL)
            if of == 20:
                one = serve(1, port)
        producer.flush()
        assert ledger.acknowledged == given
        eventually(lambda: producer.send("t", b"to one") == [] and not producer.flush())
    found = Counter(found_in(address(one), "t") + found_in(address(two), "t"))
    del found[b"to one"]
    assert found.keys() == given
    twice = {value for value, count in found.items() if count > 1}
    assert len(twice) < 3000, "only what was in flight when the broker died may be there twice"


def test_moved_records_are_told_once_and_none_waits_for_the_dead(serve: Any) -> None:
    one, two = serve(1), serve(2)
    settings = config(address(one), address(two), on_broker_down="move")
    with Producer(settings) as producer:
        producer.send("t", [(b"k%d" % i, b"%d" % i) for i in range(100)])
        one.stop(signal.SIGKILL)
        begin = time.monotonic()
        outcomes = producer.send("t", [(b"k%d" % i, b"again %d" % i) for i in range(100)])
        assert time.monotonic() - begin < DEADLINE_S / 3
    assert {each.partition.broker for each in outcomes if each.partition} == {2}
    assert sum(len(each.records) for each in outcomes) == 100


def test_a_producer_that_waits_does_not_spin(serve: Any) -> None:
    broker = serve(1)
    settings = config(address(broker), max_message_size=1024, delivery_timeout_ms=SOME_MS)
    with Producer(settings) as producer:
        producer.send("t", b"x")
        os.kill(broker.process.pid, signal.SIGSTOP)
        before, begin = time.process_time(), time.monotonic()
        with pytest.raises(SendFailed) as failed:
            producer.send("t", values(0, 1000))  # more batches than may be in flight
        assert time.process_time() - before < (time.monotonic() - begin) / 5
        os.kill(broker.process.pid, signal.SIGCONT)
    assert sum(len(each.records) for each in failed.value.outcomes) == 1000
    assert any(each.may_be_written for each in failed.value.outcomes)
    assert not all(each.may_be_written for each in failed.value.outcomes)


# Closing


def test_close_sends_what_is_queued(appliance_broker: RunningBroker) -> None:
    ledger, given = Ledger(), values(0, 50_000)
    settings = config(appliance_broker.bootstrap, producer_type="async", queue_time=HOUR_MS)
    with Producer(settings, callback_handler=ledger) as producer:
        producer.send("t", given)
    assert ledger.acknowledged == set(given)
    ledger.must_agree_with(found_in(appliance_broker.bootstrap, "t"), set(given))


def test_close_with_a_full_queue_and_no_broker_tells_each_record(serve: Any) -> None:
    broker = serve(1)
    ledger, given = Ledger(), values(0, 1000)
    settings = config(
        address(broker),
        producer_type="async",
        queue_size=500,
        batch_size=100,
        queue_time=1,
        close_timeout=300,
        max_message_size=1024,
        buffer_size=1024,
    )
    producer = Producer(settings, callback_handler=ledger)
    producer.send("t", given[:100])
    producer.flush()
    broker.stop(signal.SIGKILL)
    producer.send("t", given[100:600])
    begin = time.monotonic()
    producer.close()
    assert time.monotonic() - begin < DEADLINE_S / 3
    assert ledger.acknowledged == set(given[:100])
    assert ledger.of(ProducerClosed) == set(given[100:600])
    broker = serve(1)
    ledger.must_agree_with(found_in(address(broker), "t"), set(given[:600]))
    with pytest.raises(ProducerClosed):
        producer.send("t", b"late")


# Code of the user that fails


class Failing(Ledger):
    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage

    def _fail(self, stage: str, records: list[Records]) -> list[Records]:
        if stage == self.stage and any(b"bad" in each.values for each in records):
            raise RuntimeError("a mistake")
        return records

    def after_dequeue(self, records: list[Records]) -> list[Records]:
        return self._fail("after_dequeue", records)

    def before_send(self, records: list[Records]) -> list[Records]:
        return self._fail("before_send", records)

    def after_send(self, outcome: Outcome) -> None:
        super().after_send(outcome)
        self._fail("after_send", [outcome.records])


class Refusing(EventHandler):
    """Has the first part sent, then fails."""

    def handle(self, records: list[Records], delivery: Delivery) -> None:
        for each in records:
            if b"bad" in each.values:
                raise RuntimeError("a mistake")
            delivery.send([each])


class Unable(Encoder):
    def encode(self, value: Any) -> bytes:
        if value == b"bad":
            raise RuntimeError("a mistake")
        return bytes(value)


@pytest.mark.parametrize(
    ("stage", "is_written"),
    [
        ("after_dequeue", False),
        ("before_send", False),
        ("after_send", True),
        ("handler", False),
        ("encoder", False),
    ],
)
def test_a_hook_that_fails_fails_its_records_and_no_others(
    appliance_broker: RunningBroker, stage: str, is_written: bool
) -> None:
    ledger = Failing(stage)
    settings = config(appliance_broker.bootstrap, producer_type="async", queue_time=1)
    with Producer(
        settings,
        callback_handler=ledger,
        event_handler=Refusing() if stage == "handler" else None,
        encoder=Unable() if stage == "encoder" else None,
    ) as producer:
        for value in (b"a", b"bad", b"b"):
            producer.send("t", value)
            producer.flush()
    assert ledger.acknowledged == ({b"a", b"b", b"bad"} if is_written else {b"a", b"b"})
    assert ledger.of(HookFailed) == (set() if is_written else {b"bad"})
    ledger.must_agree_with(found_in(appliance_broker.bootstrap, "t"), {b"a", b"b", b"bad"})


def test_what_an_event_handler_had_sent_before_it_failed_is_told_once(
    appliance_broker: RunningBroker,
) -> None:
    ledger = Ledger()
    settings = config(appliance_broker.bootstrap, producer_type="async", queue_time=HOUR_MS)
    with Producer(settings, callback_handler=ledger, event_handler=Refusing()) as producer:
        for value in (b"a", b"bad", b"behind"):
            producer.send("t", value)
    assert ledger.acknowledged == {b"a"}
    assert ledger.of(HookFailed) == {b"bad", b"behind"}
    ledger.must_agree_with(found_in(appliance_broker.bootstrap, "t"), {b"a", b"bad", b"behind"})
