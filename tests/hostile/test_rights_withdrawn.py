"""A right is withdrawn while a transaction is open, over a real listener with logins: what goes on
is what Kafka lets go on, and nothing waits for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from appliance.protocol.messages.fetch import FetchResponse
from tests.support import doors
from tests.support.doors import PASSWORD, TOPIC, TRANSACTIONAL_ID, WRITE, Door, make_people
from tests.support.remote_control import RemoteControl
from tests.support.serving import Serving
from tests.support.txn_client import TxnClient
from tests.support.wire_client import WireClient

NO_TOPIC, NO_TRANSACTIONAL_ID = 29, 53
COMMITTED = 1  # the isolation that waits for transactions to end
NUMBERS = count()
SHORT_MS, LONG_MS = 3000, 60_000  # of transactions: the short ones are to end by their time


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("broker")
    make_people(folder / "data", ada="admin", ann="none")
    made = Serving(folder, protocol="SASL_PLAINTEXT")
    yield made
    assert made.stop() == 0
    assert "Traceback" not in made.log, made.log[-3000:]


@pytest.fixture
def ada(broker: Serving) -> Iterator[WireClient]:
    with Door(broker.kafka, user="ada").open() as client:
        yield client


@pytest.fixture
def name() -> str:
    """Of a topic and of a transactional id of one test."""
    return f"withdrawn-{next(NUMBERS)}"


@pytest.fixture
def timeout_ms() -> int:
    return LONG_MS


@pytest.fixture
def ann(broker: Serving, ada: WireClient, name: str, timeout_ms: int) -> Iterator[TxnClient]:
    """In a transaction in which she has written, by exactly the rights that she needs."""
    ada.create_topic(name)
    doors.allow(ada, "ann", WRITE, TOPIC, name)
    doors.allow(ada, "ann", WRITE, TRANSACTIONAL_ID, name)
    control = RemoteControl(Door(broker.kafka, user="ann", password=PASSWORD))
    client = TxnClient(control, name)
    assert client.init(timeout_ms=timeout_ms) == 0
    assert client.write("first", topic=name) == 0
    yield client
    control.close()


def readable(ada: WireClient, name: str) -> int:
    """Up to where readers of committed records come."""
    return int(ada.fetch_one(0, topic=name, isolation=COMMITTED).last_stable_offset)


def until_readable(ada: WireClient, name: str) -> None:
    end = time.monotonic() + 20
    while readable(ada, name) < 2:  # the record, and the marker behind it
        assert time.monotonic() < end, "the transaction does not end"
        time.sleep(0.05)


@pytest.mark.parametrize("is_commit", [False, True])
def test_without_the_right_to_the_topic_nothing_is_written_and_the_end_is_allowed(
    ada: WireClient, ann: TxnClient, name: str, is_commit: bool
) -> None:
    """As in Kafka: the end of a transaction wants the right to its id alone."""
    assert readable(ada, name) == 0
    doors.withdraw(ada, "ann", WRITE, TOPIC, name)
    assert ann.write("second", topic=name) == NO_TOPIC
    assert ann.end(is_commit) == 0
    until_readable(ada, name)


@pytest.mark.parametrize("timeout_ms", [SHORT_MS])
def test_without_the_right_to_its_id_a_transaction_ends_by_its_time(
    ada: WireClient, ann: TxnClient, name: str
) -> None:
    doors.withdraw(ada, "ann", WRITE, TRANSACTIONAL_ID, name)
    assert ann.write("second", topic=name) == NO_TRANSACTIONAL_ID
    assert ann.end(is_commit=True) == NO_TRANSACTIONAL_ID
    assert ann.end(is_commit=False) == NO_TRANSACTIONAL_ID
    assert ann.init() == NO_TRANSACTIONAL_ID
    until_readable(ada, name)


def test_an_administrator_ends_the_transaction_of_who_may_not_any_more(
    broker: Serving, ada: WireClient, ann: TxnClient, name: str
) -> None:
    doors.withdraw(ada, "ann", WRITE, TRANSACTIONAL_ID, name)
    control = RemoteControl(Door(broker.kafka, user="ada"))
    assert TxnClient(control, name).init() == 0  # it is aborted for the next producer
    control.close()
    until_readable(ada, name)
    doors.allow(ada, "ann", WRITE, TRANSACTIONAL_ID, name)
    assert ann.end(is_commit=True) != 0  # it is not hers any more


def test_with_its_right_back_a_transaction_goes_on(
    ada: WireClient, ann: TxnClient, name: str
) -> None:
    doors.withdraw(ada, "ann", WRITE, TOPIC, name)
    sequences = dict(ann.sequences)
    assert ann.write("refused", topic=name) == NO_TOPIC
    doors.allow(ada, "ann", WRITE, TOPIC, name)
    ann.sequences = sequences  # as a client does with what was not written
    assert ann.write("second", topic=name) == 0
    assert ann.end() == 0
    until_readable(ada, name)
    found = ada.fetch_one(0, topic=name, isolation=COMMITTED).records
    assert b"first" in found
    assert b"second" in found
    assert b"refused" not in found


def test_a_fetch_that_waits_ends_when_its_right_is_withdrawn(
    broker: Serving, ada: WireClient, name: str
) -> None:
    """Within the session of a client that reads on and on, too."""
    ada.create_topic(name)
    doors.allow(ada, "ann", doors.READ, TOPIC, name)
    with Door(broker.kafka, user="ann").open() as ann:
        begin = time.monotonic()
        ann.send_fetch(0, topic=name, wait_ms=60_000)
        end = time.monotonic() + 0.3
        while time.monotonic() < end:  # another is answered meanwhile: the first one waits
            assert ada.fetch_one(0, topic=name).error_code == 0
        doors.withdraw(ada, "ann", doors.READ, TOPIC, name)
        (topic,) = ann.answer(FetchResponse, 1, 12).responses
        assert [part.error_code for part in topic.partitions] == [NO_TOPIC]
        assert time.monotonic() - begin < 15
        assert ann.fetch_one(0, topic=name).error_code == NO_TOPIC
