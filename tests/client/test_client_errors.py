"""What a program may ask an error of the client library, instead of reading its text."""

from __future__ import annotations

import pickle
from typing import Any
from uuid import uuid4

import pytest

from appliance.client import (
    BrokerPartition,
    CallbackHandler,
    FetchConfig,
    Outcome,
    Producer,
    ProducerConfig,
    SendFailed,
    SimpleConsumer,
)
from appliance.client.connection import Address, Connection
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ClientError,
    CommitFailed,
    MessageTooLarge,
    OffsetOutOfRange,
    PartitionUnknown,
    TopicMadeAnew,
    TopicUnknown,
)
from appliance.client.outcome import DeliveryTimedOut, HookFailed, QueueFull
from appliance.client.range_assignor import TopicPartition
from appliance.protocol import ErrorCode
from appliance.testing import RunningBroker
from tests.support.shell import Shell

FIELDS = ("topic", "partition", "offset", "code", "broker")
FIRST = BrokerPartition(-1, 0)


def fields(error: ClientError) -> dict[str, Any]:
    return {name: value for name in FIELDS if (value := getattr(error, name)) is not None}


@pytest.fixture
def orders(appliance_broker: RunningBroker) -> RunningBroker:
    Shell(appliance_broker.admin).out("topic create orders -c max.message.bytes=2000")
    with Producer(ProducerConfig(broker_list=appliance_broker.bootstrap)) as producer:
        producer.send("orders", [b"x" * 1500])
    return appliance_broker


def test_errors_of_reading(orders: RunningBroker) -> None:
    settings = FetchConfig(broker_list=orders.bootstrap, fetch_size=1024, fetch_size_max=1024)
    with SimpleConsumer(settings) as consumer:
        (first,) = consumer.cluster.partitions("orders")
        where = {"topic": "orders", "partition": first}
        with pytest.raises(OffsetOutOfRange) as beyond:
            consumer.fetch("orders", first, 99)
        assert fields(beyond.value) == {**where, "offset": 99,
                                        "code": ErrorCode.OFFSET_OUT_OF_RANGE}  # fmt: skip
        assert beyond.value.code.name == "OFFSET_OUT_OF_RANGE"
        with pytest.raises(MessageTooLarge) as large:
            consumer.fetch("orders", first, 0)
        assert fields(large.value) == {**where, "offset": 0}
        with pytest.raises(TopicUnknown) as unknown:
            consumer.fetch("none", first, 0)
        assert fields(unknown.value) == {"topic": "none"}
        with pytest.raises(PartitionUnknown) as number:
            consumer.fetch("orders", 7, 0)
        assert fields(number.value) == {"topic": "orders"}


def test_errors_of_writing(orders: RunningBroker) -> None:
    with Producer(ProducerConfig(broker_list=orders.bootstrap, producer_type="sync")) as producer:
        with pytest.raises(SendFailed) as failed:
            producer.send("orders", [b"x" * 5000])
        (outcome,) = failed.value.outcomes
        assert isinstance(outcome.error, BrokerRefused)
        assert fields(outcome.error) == {"topic": "orders", "partition": outcome.partition,
                                         "code": ErrorCode.MESSAGE_TOO_LARGE}  # fmt: skip
        assert fields(failed.value) == fields(outcome.error), "all failures agree"
        assert failed.value.retriable is False
    away = ProducerConfig(broker_list="127.0.0.1:1", delivery_timeout_ms=100)
    with Producer(away) as producer, pytest.raises(SendFailed) as unreached:
        producer.send("orders", b"x")
    assert unreached.value.retriable is True


def test_a_failure_that_no_handler_hears_of_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    away = ProducerConfig(broker_list="127.0.0.1:1", delivery_timeout_ms=100, producer_type="async")
    heard: list[Outcome] = []

    class Heard(CallbackHandler):
        def after_send(self, outcome: Outcome) -> None:
            heard.append(outcome)

    with Producer(away, callback_handler=Heard()) as producer:
        producer.send("orders", b"x")
    assert (len(heard), caplog.text) == (1, "")
    with Producer(away) as producer:
        producer.send("orders", b"x")
    assert "records failed, and no CallbackHandler hears of it" in caplog.text


def test_errors_of_a_connection() -> None:
    with pytest.raises(BrokerUnavailable) as away:
        Connection(Address("127.0.0.1", 1), FetchConfig(broker_list="127.0.0.1:1"))
    assert fields(away.value) == {"broker": "127.0.0.1:1"}


@pytest.mark.parametrize(
    "error",
    [
        OffsetOutOfRange(1, "t/0 offset 5").at(TopicPartition("t", FIRST), offset=5),
        BrokerRefused(999, "a code that is not known"),
        TopicMadeAnew(TopicPartition("t", FIRST), 3, uuid4(), uuid4()),
        DeliveryTimedOut("late").at(topic="t", partition=FIRST),
        BrokerUnavailable("away").at(broker="127.0.0.1:1"),
        CommitFailed("2 offsets", [BrokerRefused(16, "group g")]),
        QueueFull("full", 3),
        HookFailed("hook"),
        MessageTooLarge("large"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_whole_out_of_another_process(error: ClientError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert fields(again) == fields(error)
    assert again.__dict__.keys() == error.__dict__.keys()
    assert again.retriable == error.retriable
