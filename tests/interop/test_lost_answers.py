"""A response or a request is lost, and librdkafka continues in its way.

librdkafka counts sequence numbers from the last response. If its application aborts while a batch
waits to be resent, the next transaction uses the numbers of that batch for other records, in the
same epoch. A broker that took them for a resend would acknowledge and commit records that no log
has.

librdkafka does not know whether a request without a response arrived: it may abort a transaction
that the broker does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.test_transactions import DEADLINE_S, values
from tests.support.frame_relay import ConnectionCut, FrameRelay
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.warm_serving import WarmServing

PRODUCE, ADD_PARTITIONS = b"\0\0", b"\0\x18"
TOPIC = "t"


class Line:
    """A proxy to the broker: it loses the next Produce response, or requests of kinds in `cut`."""

    def __init__(self) -> None:
        self._is_armed = self.is_lost = False
        self.cut: set[bytes] = set()
        self.relay = FrameRelay(self._pass, self._loses)
        self.address = f"127.0.0.1:{self.relay.port}"

    def lose_the_next(self) -> None:
        self._is_armed, self.is_lost = True, False

    def _pass(self, request: bytes) -> None:
        if request[:2] in self.cut:
            raise ConnectionCut

    def _loses(self, request: bytes, answer: bytes) -> bool:
        if not self._is_armed or request[:2] != PRODUCE:
            return False
        self._is_armed, self.is_lost = False, True
        return True


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line()
    broker = WarmServing(tmp_path, **{"advertised.listeners": made.address})
    made.relay.broker = broker.kafka
    with made.relay:
        admin = AdminClient({"bootstrap.servers": made.address})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(DEADLINE_S)
        yield made
    broker.stop()


class Told:
    """The application's delivery reports."""

    def __init__(self, line: Line, **given: object) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.line = line
        self._is_queued = False
        self.producer = ck.Producer(
            {
                "bootstrap.servers": line.address,
                "linger.ms": 100,  # one call of `send`, one batch
                "log_level": 0,
                "statistics.interval.ms": 20,
                "stats_cb": self._look,
                **given,
            }
        )

    def send(self, *values: str) -> None:
        for each in values:
            self.producer.produce(TOPIC, each.encode(), partition=0, on_delivery=self._hear)

    def _hear(self, error: ck.KafkaError | None, message: ck.Message) -> None:
        (self.refused if error else self.acknowledged).append(message.value().decode())

    def lose_the_answer_to(self, *values: str) -> None:
        self.line.lose_the_next()
        self.send(*values)
        until(self._is_lost, DEADLINE_S)

    def wait_for_what_waits_to_be_resent(self) -> None:
        """An abort removes what is queued. What is in flight then returns to the queue for good."""
        until(self._is_queued_again, DEADLINE_S)

    def _is_lost(self) -> bool:
        self.producer.poll(0.01)
        return self.line.is_lost

    def _is_queued_again(self) -> bool:
        self.producer.poll(0.01)
        return self._is_queued

    def _look(self, statistics: str) -> None:
        told = json.loads(statistics)
        partition = told["topics"].get(TOPIC, {}).get("partitions", {}).get("0")
        leaders = [each for each in told["brokers"].values() if each["nodeid"] >= 0]
        self._is_queued = (
            partition is not None
            and partition["msgs_inflight"] == 0
            and all(each["state"] != "UP" for each in leaders)
        )


def transactional(line: Line, **given: object) -> Told:
    told = Told(line, **{"transactional.id": "x", **given})
    told.producer.init_transactions(DEADLINE_S)
    return told


@pytest.mark.parametrize(
    "count", gate_has([3, 2, 6], "one is fewer too", [3, 2, 1, 6]),
    ids=["as many", "fewer", "one", "more"],
)
def test_numbers_used_again_after_an_abort_are_not_acknowledged(count: int, line: Line) -> None:
    # Time for the abort, which removes the batch from the queue while there is no connection.
    told = transactional(line, **{"reconnect.backoff.ms": 2000, "reconnect.backoff.max.ms": 2000})
    told.producer.begin_transaction()
    told.lose_the_answer_to("a0", "a1", "a2")
    told.wait_for_what_waits_to_be_resent()
    told.producer.abort_transaction(DEADLINE_S)
    assert (told.acknowledged, told.refused) == ([], ["a0", "a1", "a2"])
    told.producer.begin_transaction()
    wanted = [f"b{i}" for i in range(count)]
    told.send(*wanted)
    with pytest.raises(ck.KafkaException) as failed:
        told.producer.commit_transaction(DEADLINE_S)
    assert failed.value.args[0].code() == ck.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert told.acknowledged == []
    again = transactional(line)
    again.producer.begin_transaction()
    again.send(*wanted)
    again.producer.commit_transaction(DEADLINE_S)
    assert again.acknowledged == wanted
    assert values(line.address, TOPIC) == wanted


def test_a_resend_within_its_transaction_is_acknowledged_and_there_once(line: Line) -> None:
    told = transactional(line, **{"reconnect.backoff.ms": 50})
    for i in range(3):
        told.producer.begin_transaction()
        told.send(f"a{i}")
        assert told.producer.flush(DEADLINE_S) == 0
        told.lose_the_answer_to(f"b{i}", f"c{i}")
        told.producer.commit_transaction(DEADLINE_S)
    wanted = [f"{name}{i}" for i in range(3) for name in "abc"]
    assert (told.acknowledged, told.refused) == (wanted, [])
    assert values(line.address, TOPIC) == wanted


def test_a_resend_without_transactions_is_acknowledged_and_there_once(line: Line) -> None:
    told = Told(line, **{"enable.idempotence": True, "reconnect.backoff.ms": 50})
    for i in range(3):
        told.lose_the_answer_to(f"a{i}", f"b{i}")
        assert told.producer.flush(DEADLINE_S) == 0
    wanted = [f"{name}{i}" for i in range(3) for name in "ab"]
    assert (told.acknowledged, told.refused) == (wanted, [])
    assert values(line.address, TOPIC) == wanted


def test_an_abort_of_what_never_arrived_ends_the_producer_and_nothing_else(line: Line) -> None:
    """As with Kafka: see test_timed_out_transactions and docs/compatibility.md."""
    told = transactional(line, **{"message.timeout.ms": 1000, "reconnect.backoff.ms": 50})
    told.producer.begin_transaction()
    line.cut.add(ADD_PARTITIONS)
    told.send("lost")
    with pytest.raises(ck.KafkaException) as failed:
        told.producer.commit_transaction(DEADLINE_S)
    error = failed.value.args[0]
    # the second when the record's time was over before the commit began
    assert error.code() in (ck.KafkaError._TIMED_OUT, ck.KafkaError._INCONSISTENT)
    assert error.txn_requires_abort()
    with pytest.raises(ck.KafkaException) as failed:  # librdkafka may still ask for the partition
        told.producer.abort_transaction(DEADLINE_S)
    line.cut.clear()
    error = failed.value.args[0]
    assert (error.code(), error.fatal()) == (ck.KafkaError.INVALID_TXN_STATE, True)
    again = transactional(line)
    again.producer.begin_transaction()
    again.send("kept")
    again.producer.commit_transaction(DEADLINE_S)
    assert values(line.address, TOPIC) == ["kept"]
